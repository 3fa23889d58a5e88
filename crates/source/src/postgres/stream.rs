//! The replication connection: socket to frames. The only file that names the client crate.
//!
//! Rule: the server is told what `tell` was given, and nothing else; the client by itself only repeats it.

use std::time::Duration;

use bytes::Bytes;
use pgwire_replication::client::{ReplicationClient, ReplicationEvent};
use pgwire_replication::config::ReplicationConfig;
use pgwire_replication::error::PgWireError;
use tokio::time::timeout;

use super::position::Lsn;
use super::session::{self, CONNECT_TIMEOUT};
use super::{Settings, ident, relay, verdict, wire};
use crate::Error;

/// Rows can be large and the buffer counts frames, not bytes: a small one. The socket holds the rest.
const BUFFERED_FRAMES: usize = 64;

/// How soon a confirmed position goes to the server.
const STATUS_INTERVAL: Duration = Duration::from_millis(200);

/// One thing that the server sent.
#[derive(Debug)]
pub(super) enum Frame {
    KeepAlive {
        /// The server has sent everything before this.
        end: Lsn,
        wants_reply: bool,
        /// By the server's clock, in microseconds.
        sent: i64,
    },
    Begin {
        xid: u32,
        /// When it was committed, by the server's clock, in microseconds since 2000.
        committed: i64,
    },
    Commit {
        end: Lsn,
    },
    Data(Bytes),
    /// A message that an application put into the log.
    Other,
}

/// What the server says about itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct System {
    pub identifier: String,
    pub timeline: u32,
    /// Up to here its log is safe on disk.
    pub flushed: Lsn,
}

/// A replication connection. Dropping it closes the socket at once.
struct Client(ReplicationClient);

impl Drop for Client {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What the client is to connect to: the server itself, or the socket behind which we speak TLS.
async fn address(settings: &Settings) -> Result<(String, u16), Error> {
    let [server] = settings.servers.as_slice() else {
        // Each session could be with another server, and a slot is on one of them.
        return Err(Error::transient("no server was chosen for the replication"));
    };
    // Without TLS a session for SQL was there first: what it was not to tell in clear text, nobody asks of the stream either, for the
    // same line of pg_hba.conf decides about both.
    if settings.tls.config().is_none() || server.is_socket() {
        return Ok((server.host.clone(), server.port));
    }
    let wire = match timeout(CONNECT_TIMEOUT, wire::open(settings, server)).await {
        Ok(opened) => opened?,
        Err(_) => return Err(session::no_answer(settings, CONNECT_TIMEOUT)),
    };
    let folder = relay::begin(wire)?;
    Ok((folder.display().to_string(), relay::PORT))
}

/// A connection on which replication has not begun yet.
pub(super) struct Gate {
    client: Client,
    settings: Settings,
}

impl Gate {
    /// Nothing is asked of `slot` before `start`; replication will begin at `start_at`.
    pub(super) async fn open(
        settings: &Settings,
        slot: &str,
        start_at: Lsn,
    ) -> Result<Gate, Error> {
        Gate::open_as(settings, slot, start_at, true).await
    }

    /// With values in their binary form where they have one, or all as text.
    pub(super) async fn open_as(
        settings: &Settings,
        slot: &str,
        start_at: Lsn,
        binary: bool,
    ) -> Result<Gate, Error> {
        let password = settings.password()?.unwrap_or_default();
        let (host, port) = address(settings).await?;
        let mut config = ReplicationConfig::new(
            host,
            settings.user.clone(),
            password,
            settings.database.clone(),
            ident(slot),
            ident(&settings.publication),
        );
        config.port = port;
        config.start_lsn = pgwire_replication::lsn::Lsn(start_at.0);
        // By itself the client would confirm that at once, and before version 18 this can move a slot backwards.
        config.ack_lsn = Some(pgwire_replication::lsn::Lsn::ZERO);
        config.status_interval = STATUS_INTERVAL;
        // A status that nobody asked for makes the server put off its ping, and without pings a quiet server looks dead.
        config.idle_wakeup_interval = settings.silence_timeout;
        config.buffer_events = BUFFERED_FRAMES;
        config.binary = binary;
        config.application_name = Some(session::application(settings));
        config.options = Some(session::options(&[
            (
                "wal_sender_timeout",
                &sender_timeout(settings.silence_timeout),
            ),
            ("statement_timeout", "0"),
            ("lock_timeout", "0"),
        ]));
        let client = ReplicationClient::connect_gated(config)
            .await
            .map_err(|e| failed(&e, settings))?;
        let mut gate = Gate {
            client: Client(client),
            settings: settings.clone(),
        };
        // The client has no time limit for connecting and logging in, and what comes next may have a long one.
        gate.run("SELECT 1", CONNECT_TIMEOUT).await?;
        Ok(gate)
    }

    pub(super) async fn identify(&mut self) -> Result<System, Error> {
        let answer = timeout(CONNECT_TIMEOUT, self.client.0.identify_system()).await;
        let system = self.settled(answer)?;
        Ok(System {
            identifier: system.system_id,
            timeline: system.timeline,
            flushed: Lsn(system.xlogpos.as_u64()),
        })
    }

    /// The history file of a timeline: where it and its ancestors began.
    pub(super) async fn history(&mut self, timeline: u32) -> Result<String, Error> {
        let answer = timeout(CONNECT_TIMEOUT, self.client.0.timeline_history(timeline)).await;
        let history = self.settled(answer)?;
        Ok(String::from_utf8_lossy(&history.content).into_owned())
    }

    /// A role's limit on the length of transactions (since version 17) would end the decoding of long ones.
    pub(super) async fn no_time_limit(&mut self, version: i32) -> Result<(), Error> {
        if version >= 170_000 {
            let set = "SET transaction_timeout = 0";
            self.run(set, CONNECT_TIMEOUT).await?;
        }
        Ok(())
    }

    pub(super) async fn run(&mut self, sql: &str, limit: Duration) -> Result<(), Error> {
        let answer = timeout(limit, self.client.0.simple_query(sql)).await;
        self.settled(answer).map(|_rows| ())
    }

    /// Makes a slot that ends with the connection; where it begins, and the name of a snapshot that sees exactly what is committed before
    /// that. The name can be used until the next command.
    pub(super) async fn temporary_slot(
        &mut self,
        slot: &str,
        version: i32,
        limit: Duration,
    ) -> Result<(Lsn, String), Error> {
        let export = if version >= 150_000 {
            "(SNAPSHOT 'export')"
        } else {
            "EXPORT_SNAPSHOT"
        };
        let sql = format!(
            "CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput {export}",
            ident(slot)
        );
        let answer = timeout(limit, self.client.0.simple_query(&sql)).await;
        let rows = self.settled(answer)?;
        let cell = |place: usize| {
            let cell = rows.first()?.get(place)?.as_ref()?;
            String::from_utf8(cell.to_vec()).ok()
        };
        let begins = cell(1).and_then(|lsn| lsn.parse().ok());
        begins
            .zip(cell(2))
            .ok_or_else(|| Error::transient("the server exported no snapshot"))
    }

    /// Begins replication: from then on the slot is ours.
    pub(super) async fn start(mut self) -> Result<Stream, Error> {
        let client = &mut self.client.0;
        let answer = timeout(CONNECT_TIMEOUT, async {
            client.start().await?;
            client.wait_started().await
        })
        .await;
        self.settled(answer)?;
        Ok(Stream {
            client: self.client,
            settings: self.settings,
        })
    }

    fn settled<T>(
        &self,
        answer: Result<Result<T, PgWireError>, tokio::time::error::Elapsed>,
    ) -> Result<T, Error> {
        match answer {
            Ok(Ok(value)) => Ok(value),
            Ok(Err(e)) => Err(failed(&e, &self.settings)),
            Err(_) => Err(Error::transient(
                "the server did not answer on the replication connection",
            )),
        }
    }
}

/// A running replication.
pub(super) struct Stream {
    client: Client,
    settings: Settings,
}

impl Stream {
    /// Cancel-safe.
    pub(super) async fn next(&mut self) -> Result<Frame, Error> {
        match self.client.0.recv().await {
            Ok(Some(event)) => Ok(frame(event)),
            Ok(None) => Err(Error::transient("the server ended the replication")),
            Err(e) => Err(failed(&e, &self.settings)),
        }
    }

    /// The position that the server will be told, soon.
    pub(super) fn tell(&self, position: Lsn) {
        let lsn = pgwire_replication::lsn::Lsn(position.0);
        self.client.0.update_applied_lsn(lsn);
    }

    /// The position that was last sent to the server.
    pub(super) fn told(&self) -> Lsn {
        Lsn(self.client.0.metrics().last_applied_lsn().as_u64())
    }

    /// Ends the replication as the protocol wants it; what was buffered is forgotten.
    pub(super) async fn close(mut self, limit: Duration) {
        // A server that does not answer is left by closing the socket, which dropping does.
        let _ended = timeout(limit, self.client.0.shutdown()).await;
    }
}

fn frame(event: ReplicationEvent) -> Frame {
    match event {
        ReplicationEvent::XLogData { data, .. } => Frame::Data(data),
        ReplicationEvent::Begin {
            xid,
            commit_time_micros,
            ..
        } => Frame::Begin {
            xid,
            committed: commit_time_micros,
        },
        ReplicationEvent::Commit { end_lsn, .. } => Frame::Commit {
            end: Lsn(end_lsn.as_u64()),
        },
        ReplicationEvent::KeepAlive {
            wal_end,
            reply_requested,
            server_time_micros,
        } => Frame::KeepAlive {
            end: Lsn(wal_end.as_u64()),
            wants_reply: reply_requested,
            sent: server_time_micros,
        },
        ReplicationEvent::Message { .. } | ReplicationEvent::StoppedAt { .. } => Frame::Other,
    }
}

/// A quiet server speaks at half of this time, well before we would call it silent. Not shorter than it must be: while
/// the server decodes a neighbour's huge transaction it hears nothing of us either, and would give us up.
fn sender_timeout(silence: Duration) -> String {
    let timeout = (silence * 2 / 3).clamp(Duration::from_secs(1), Duration::from_mins(1));
    format!("{}ms", timeout.as_millis())
}

fn failed(error: &PgWireError, settings: &Settings) -> Error {
    match error {
        PgWireError::Server(text) => verdict::of_text(text, settings),
        PgWireError::Auth(text) => verdict::of_authentication(text, settings),
        other => Error::transient(format!("the replication connection broke: {other}")),
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::setup::tests::settings;
    use super::*;
    use crate::{Server, Tls, TlsMode};

    /// The kernel takes the connection, and nobody ever answers it.
    #[tokio::test(start_paused = true)]
    async fn a_server_that_takes_connections_and_says_nothing_is_given_up() {
        let silent = TcpListener::bind("127.0.0.1:0").unwrap();
        let server = Server {
            host: "127.0.0.1".into(),
            port: silent.local_addr().unwrap().port(),
        };
        let encrypted = Tls::load(TlsMode::Require, None, None).unwrap();
        for tls in [Tls::disabled(), encrypted] {
            let mut settings = settings().at(&server);
            settings.tls = tls;
            let begun = tokio::time::Instant::now();
            let opened = Gate::open(&settings, "slot", Lsn(0)).await;
            assert!(matches!(opened, Err(Error::Transient(_))));
            assert_eq!(begun.elapsed().as_secs(), CONNECT_TIMEOUT.as_secs());
        }
    }
}
