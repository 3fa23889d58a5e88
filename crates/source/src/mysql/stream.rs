//! The replication connection: packets to events. The only file that speaks the server's language of replicas.
//!
//! A packet is an event as it stands in the log; nothing of it is looked at here.

use std::time::Duration;

use bytes::Bytes;
use tokio::time::timeout;

use super::gtid::GtidSet;
use super::packet::Packets;
use super::session::{ANSWER_TIMEOUT, Session, application};
use super::verdict::{self, Refusal};
use super::{Flavor, Settings, literal, session};
use crate::Error;

const BINLOG_DUMP: u8 = 0x12;
const REGISTER: u8 = 0x15;
const BINLOG_DUMP_GTID: u8 = 0x1E;

/// Where the log begins behind its file's mark.
pub(super) const FIRST: u64 = 4;

/// From where the server is to send its log.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum From {
    /// MySQL: whatever is not in the set.
    After(GtidSet),
    /// MariaDB: whatever came after these.
    AfterList(String),
    At(String, u64),
}

/// A running replication. Dropping it closes the socket at once.
pub(super) struct Stream {
    packets: Packets,
    settings: Settings,
}

impl Stream {
    /// The session becomes the replication.
    pub(super) async fn begin(mut session: Session, from: &From) -> Result<Stream, Error> {
        let heartbeat = heartbeat(session.settings().silence_timeout).as_nanos();
        // Each version knows one of the two names. Who knows of checksums is sent the log as it stands, with them or without.
        for name in ["master", "source"] {
            let set = format!(
                "SET @{name}_heartbeat_period = {heartbeat}, @{name}_binlog_checksum = 'CRC32'"
            );
            session.run(&set).await?;
        }
        if session.flavor() == Flavor::MariaDb {
            // 4: knows GTIDs. Else the server would leave out what it takes us not to understand.
            session.run("SET @mariadb_slave_capability = 4").await?;
        }
        if let From::AfterList(list) = from {
            let set = format!(
                "SET @slave_connect_state = {}, @slave_gtid_strict_mode = 1, @slave_gtid_ignore_duplicates = 0",
                literal(list)
            );
            session.run(&set).await?;
        }
        register(&mut session).await?;
        let (mut packets, settings) = session.into_packets();
        let (command, request) = request(from, settings.server_id);
        let asked = packets.ask(command, &request).await;
        asked.map_err(|e| verdict::of_io(&e, &settings))?;
        Ok(Stream { packets, settings })
    }

    /// One event. Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Bytes, Ended> {
        let packet = self.packets.next().await;
        let packet = packet.map_err(|e| Ended::Broken(verdict::of_io(&e, &self.settings)))?;
        match packet.first() {
            Some(0) => Ok(packet.slice(1..)),
            Some(0xFF) => Err(Ended::Refused(Refusal::read(&packet))),
            _ => Err(Ended::Broken(Error::transient(
                "the server ended the replication",
            ))),
        }
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// Why no event came.
#[derive(Debug)]
pub(super) enum Ended {
    Refused(Refusal),
    Broken(Error),
}

/// A quiet server speaks so often, well before we would call it silent.
fn heartbeat(silence: Duration) -> Duration {
    (silence / 3).clamp(Duration::from_secs(1), Duration::from_secs(30))
}

/// Tells the server who we are, for its list of replicas. It wants the right to replicate.
async fn register(session: &mut Session) -> Result<(), Error> {
    let settings = session.settings().clone();
    register_as(session, settings.server_id, &application(&settings)).await
}

pub(super) async fn register_as(
    session: &mut Session,
    server_id: u32,
    host: &str,
) -> Result<(), Error> {
    let mut request = server_id.to_le_bytes().to_vec();
    let host = host.as_bytes();
    request.push(host.len().to_le_bytes()[0]);
    request.extend_from_slice(host);
    // No user, no password, port 0; rank and source are the server's to fill in.
    request.extend_from_slice(&[0; 2 + 2 + 4 + 4]);
    session.command(REGISTER, &request).await
}

fn request(from: &From, server_id: u32) -> (u8, Vec<u8>) {
    let mut request = Vec::new();
    match from {
        From::After(set) => {
            let through_gtid = 4_u16;
            request.extend_from_slice(&through_gtid.to_le_bytes());
            request.extend_from_slice(&server_id.to_le_bytes());
            // No file: the server finds it by the set.
            request.extend_from_slice(&0_u32.to_le_bytes());
            request.extend_from_slice(&FIRST.to_le_bytes());
            let set = encoded(set);
            let length = u32::try_from(set.len()).unwrap_or(u32::MAX);
            request.extend_from_slice(&length.to_le_bytes());
            request.extend_from_slice(&set);
            (BINLOG_DUMP_GTID, request)
        }
        From::AfterList(_) => (BINLOG_DUMP, at("", FIRST, server_id)),
        From::At(file, offset) => (BINLOG_DUMP, at(file, *offset, server_id)),
    }
}

fn at(file: &str, offset: u64, server_id: u32) -> Vec<u8> {
    let mut request = Vec::new();
    // An offset that does not fit was refused before.
    let offset = u32::try_from(offset).unwrap_or(u32::MAX);
    request.extend_from_slice(&offset.to_le_bytes());
    request.extend_from_slice(&[0; 2]);
    request.extend_from_slice(&server_id.to_le_bytes());
    request.extend_from_slice(file.as_bytes());
    request
}

/// A set without tags: how many sources, and of each the number of intervals; their ends are those of half-open ones.
fn encoded(set: &GtidSet) -> Vec<u8> {
    let sources = set.intervals();
    let mut bytes = (sources.len() as u64).to_le_bytes().to_vec();
    for (sid, intervals) in sources {
        bytes.extend_from_slice(&sid.uuid);
        bytes.extend_from_slice(&(intervals.len() as u64).to_le_bytes());
        for (first, last) in intervals {
            bytes.extend_from_slice(&first.to_le_bytes());
            bytes.extend_from_slice(&last.saturating_add(1).to_le_bytes());
        }
    }
    bytes
}

impl Session {
    /// A command that is answered by nothing but yes or no.
    async fn command(&mut self, command: u8, request: &[u8]) -> Result<(), Error> {
        let answer = self.command_packet(command, request);
        match timeout(ANSWER_TIMEOUT, answer).await {
            Ok(packet) => {
                let packet = packet?;
                match packet.first() {
                    Some(0xFF) => Err(verdict::of(&Refusal::read(&packet), self.settings())),
                    _ => Ok(()),
                }
            }
            Err(_) => Err(session::no_answer(self.settings(), ANSWER_TIMEOUT)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_set_is_written_as_the_server_reads_it() {
        let set: GtidSet = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-5:7"
            .parse()
            .expect("a set");
        let bytes = encoded(&set);
        assert_eq!(bytes.len(), 8 + 16 + 8 + 4 * 8);
        assert_eq!(bytes[..8], 1_u64.to_le_bytes());
        assert_eq!(bytes[8..10], [0x3e, 0x11]);
        assert_eq!(bytes[24..32], 2_u64.to_le_bytes());
        assert_eq!(bytes[32..40], 1_u64.to_le_bytes());
        assert_eq!(bytes[40..48], 6_u64.to_le_bytes());
        assert_eq!(bytes[48..56], 7_u64.to_le_bytes());
        assert_eq!(bytes[56..64], 8_u64.to_le_bytes());
        assert_eq!(encoded(&GtidSet::default()), [0; 8]);
    }

    #[test]
    fn the_server_speaks_several_times_before_it_is_called_silent() {
        for seconds in [12, 30, 600] {
            let silence = Duration::from_secs(seconds);
            assert!(heartbeat(silence) * 3 <= silence);
            assert!(heartbeat(silence) >= Duration::from_secs(1));
        }
    }

    #[test]
    fn a_place_in_a_file_is_asked_for_by_its_name() {
        let (command, bytes) = request(&From::At("binlog.000002".into(), 197), 7);
        assert_eq!(command, BINLOG_DUMP);
        assert_eq!(bytes, b"\xC5\0\0\0\0\0\x07\0\0\0binlog.000002");
    }
}
