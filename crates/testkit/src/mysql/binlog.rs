//! The files of a server's binlog, as they lie on its disk.

use std::fs;
use std::ops::Range;

use mysql_async::prelude::Queryable;

use super::Mysql;

/// Where an event's length stands in its header (the manual's "Binary Log Event Header").
const LENGTH: Range<usize> = 9..13;

impl Mysql {
    /// The file that is being written.
    pub async fn binlog(&self) -> String {
        let status = if self.server.is_mariadb() {
            "SHOW MASTER STATUS"
        } else {
            "SHOW BINARY LOG STATUS"
        };
        self.ask(status).await.expect("a server with a log")
    }

    /// How many bytes all its files have.
    pub async fn binlog_size(&self) -> u64 {
        let mut conn = self.connect().await;
        let files: Vec<mysql_async::Row> = conn.query("SHOW BINARY LOGS").await.unwrap();
        files
            .iter()
            .map(|file| file.get::<u64, _>(1).unwrap())
            .sum()
    }

    /// Changes one bit of the last place where a file has `text`, and says where that is. Only while the server is stopped.
    pub fn damage_binlog(&self, file: &str, text: &str) -> u64 {
        let path = self.data().join(file);
        let mut bytes = fs::read(&path).unwrap();
        let found = bytes
            .windows(text.len())
            .rposition(|w| w == text.as_bytes());
        let place = found.unwrap_or_else(|| panic!("no {text} in {file}"));
        bytes[place] ^= 1;
        fs::write(&path, bytes).unwrap();
        place.try_into().unwrap()
    }

    /// From where to where the event goes that begins there.
    pub fn binlog_event(&self, file: &str, offset: u64) -> Range<u64> {
        let bytes = fs::read(self.data().join(file)).unwrap();
        let header = &bytes[usize::try_from(offset).unwrap()..];
        let length = u32::from_le_bytes(header[LENGTH].try_into().unwrap());
        offset..offset + u64::from(length)
    }
}
