//! Asks a page of the program's admin address, as a probe would.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct Page {
    pub code: u16,
    pub text: String,
}

impl Page {
    /// The value of a metric, named with its further labels: `headwater_skipped_total{reason="update"}`.
    pub fn metric(&self, name: &str) -> Option<f64> {
        let (name, label) = name.split_once('{').unwrap_or((name, ""));
        let label = label.trim_end_matches('}');
        self.text.lines().find_map(|line| {
            let (key, value) = line.rsplit_once(' ')?;
            let (found, labels) = key.strip_suffix('}')?.split_once('{')?;
            (found == name && labels.contains(label)).then(|| value.parse().ok())?
        })
    }
}

/// GET; `None` when nobody answers.
pub fn get(port: u16, path: &str) -> Option<Page> {
    request(
        port,
        &format!("GET {path} HTTP/1.1\r\nHost: localhost:{port}\r\n"),
    )
}

/// A request as it is written, without its last lines.
pub fn request(port: u16, head: &str) -> Option<Page> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    write!(stream, "{head}Connection: close\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let (head, text) = answer.split_once("\r\n\r\n")?;
    Some(Page {
        code: head.split(' ').nth(1)?.parse().ok()?,
        text: text.to_owned(),
    })
}
