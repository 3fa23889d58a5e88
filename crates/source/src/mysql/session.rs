//! Sessions for SQL, and the settings that every session is pinned to.

use std::time::Duration;

use bytes::Bytes;
use headwater_core::trouble::Trouble;
use tokio::time::timeout;
use tracing::debug;

use super::answer::{self, Answer, Cells, Column};
use super::login::{self, Login};
use super::packet::{Packets, Reader};
use super::verdict::{self, Refusal};
use super::{Flavor, Settings};
use crate::{Error, Server};

pub(super) const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);

/// A server that has been asked and says nothing for this long is gone.
pub(super) const ANSWER_TIMEOUT: Duration = Duration::from_secs(20);

const QUERY: u8 = 3;
const QUIT: u8 = 1;

/// The server or the user may have other settings, which would change what text looks like or cut sessions off.
const PINNED: &str = "SET NAMES utf8mb4, SESSION time_zone = '+00:00', SESSION sql_mode = '', SESSION autocommit = 1, \
     SESSION sql_select_limit = 18446744073709551615, SESSION lock_wait_timeout = 10, \
     SESSION innodb_lock_wait_timeout = 10, SESSION net_write_timeout = 60, SESSION wait_timeout = ";

/// What the server's lists of sessions call us.
pub(super) fn application(settings: &Settings) -> String {
    format!("headwater {}", settings.name)
}

/// A session for SQL. Dropping it closes the connection.
pub(super) struct Session {
    packets: Packets,
    flavor: Flavor,
    version: String,
    id: u64,
    settings: Settings,
    /// A question whose answer was not read to its end: nothing more can be asked.
    broken_off: bool,
    /// How many columns the rows have that are being read.
    width: usize,
}

impl Session {
    pub(super) async fn open(settings: &Settings) -> Result<Session, Error> {
        Session::open_as(settings, &application(settings), Duration::from_mins(10)).await
    }

    /// The server ends it once it has not been heard of for `patience`.
    pub(super) async fn open_as(
        settings: &Settings,
        application: &str,
        patience: Duration,
    ) -> Result<Session, Error> {
        if let [server] = settings.servers.as_slice() {
            return Session::open_at(settings.clone(), server, application, patience).await;
        }
        let mut refused = Vec::new();
        for server in &settings.servers {
            let at = settings.at(server);
            let session = match Session::open_at(at, server, application, patience).await {
                Ok(session) => session.if_primary().await,
                Err(error) => Err(error),
            };
            match session {
                Ok(session) => return Ok(session),
                Err(error) => {
                    debug!(%server, %error, "not the server to use");
                    refused.push(error);
                }
            }
        }
        Err(none_of(settings, &refused))
    }

    async fn open_at(
        settings: Settings,
        server: &Server,
        application: &str,
        patience: Duration,
    ) -> Result<Session, Error> {
        let connecting = login::open(&settings, server, application);
        let login = match timeout(CONNECT_TIMEOUT, connecting).await {
            Ok(login) => login?,
            Err(_) => return Err(no_answer(&settings, CONNECT_TIMEOUT)),
        };
        let Login {
            packets,
            flavor,
            version,
            id,
        } = login;
        same_flavor(&settings, flavor, &version)?;
        let mut session = Session {
            packets,
            flavor,
            version,
            id,
            settings,
            broken_off: false,
            width: 0,
        };
        let pinned = format!("{PINNED}{}", patience.as_secs());
        session.run(&pinned).await?;
        session
            .run("SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ")
            .await?;
        session.limit(Duration::from_secs(15)).await?;
        Ok(session)
    }

    /// How long one statement may take of the server.
    pub(super) async fn limit(&mut self, limit: Duration) -> Result<(), Error> {
        let set = match self.flavor {
            Flavor::MySql => format!("SET SESSION max_execution_time = {}", limit.as_millis()),
            Flavor::MariaDb => format!("SET SESSION max_statement_time = {}", limit.as_secs()),
        };
        self.run(&set).await
    }

    /// With the one server that this session is with.
    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    pub(super) fn flavor(&self) -> Flavor {
        self.flavor
    }

    /// As the server says it.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Its number in the server's lists.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    async fn if_primary(mut self) -> Result<Session, Error> {
        if self.is_primary().await? {
            return Ok(self);
        }
        let place = self.settings.place();
        Err(Error::transient(format!(
            "{place} is a replica (read_only)"
        )))
    }

    /// Whether others than its own replication may write to the server.
    pub(super) async fn is_primary(&mut self) -> Result<bool, Error> {
        let answer = self.rows("SELECT @@global.read_only").await?;
        Ok(answer.first().as_deref() == Some("0"))
    }

    /// A statement that has nothing to answer.
    pub(super) async fn run(&mut self, sql: &str) -> Result<(), Error> {
        self.rows(sql).await.map(drop)
    }

    pub(super) async fn rows(&mut self, sql: &str) -> Result<Answer, Error> {
        match self.ask(sql).await? {
            Ok(answer) => Ok(answer),
            Err(refusal) => Err(verdict::of(&refusal, &self.settings)),
        }
    }

    /// For whoever knows what to make of a refusal.
    pub(super) async fn ask(&mut self, sql: &str) -> Result<Result<Answer, Refusal>, Error> {
        self.ask_within(sql, ANSWER_TIMEOUT).await
    }

    pub(super) async fn ask_within(
        &mut self,
        sql: &str,
        limit: Duration,
    ) -> Result<Result<Answer, Refusal>, Error> {
        let mut rows = Vec::new();
        let asked = self.each(sql, |_, row| rows.push(row));
        match timeout(limit, asked).await {
            Ok(columns) => Ok(columns?.map(|columns| Answer { columns, rows })),
            Err(_) => Err(no_answer(&self.settings, limit)),
        }
    }

    /// Hands over the rows of an answer as they come: none of them is kept.
    pub(super) async fn each(
        &mut self,
        sql: &str,
        mut each: impl FnMut(&[Column], Cells),
    ) -> Result<Result<Vec<Column>, Refusal>, Error> {
        let columns = match self.begin_rows(sql).await? {
            Ok(columns) => columns,
            Err(refusal) => return Ok(Err(refusal)),
        };
        loop {
            match self.next_row().await? {
                Ok(Some(row)) => each(&columns, row),
                Ok(None) => return Ok(Ok(columns)),
                Err(refusal) => return Ok(Err(refusal)),
            }
        }
    }

    /// A question whose rows will be asked for one by one; nothing else can be asked before the last one.
    pub(super) async fn begin_rows(
        &mut self,
        sql: &str,
    ) -> Result<Result<Vec<Column>, Refusal>, Error> {
        if self.broken_off {
            return Err(Error::transient(
                "the session was left in the middle of an answer",
            ));
        }
        self.broken_off = true;
        let sent = self.packets.ask(QUERY, sql.as_bytes()).await;
        sent.map_err(|e| verdict::of_io(&e, &self.settings))?;
        let head = self.packet().await?;
        let columns = match head.first() {
            Some(0xFF) => {
                self.broken_off = false;
                return Ok(Err(Refusal::read(&head)));
            }
            Some(0) => Vec::new(),
            _ => self.columns(&head).await?,
        };
        self.width = columns.len();
        self.broken_off = self.width > 0;
        Ok(Ok(columns))
    }

    /// The next row of what was asked, or none after the last. Cancel-safe.
    pub(super) async fn next_row(&mut self) -> Result<Result<Option<Cells>, Refusal>, Error> {
        if !self.broken_off {
            return Ok(Ok(None));
        }
        let packet = self.packet().await?;
        match packet.first() {
            Some(0xFF) => {
                self.broken_off = false;
                Ok(Err(Refusal::read(&packet)))
            }
            Some(0xFE) if packet.len() < 9 => {
                self.broken_off = false;
                Ok(Ok(None))
            }
            _ => Ok(Ok(Some(
                answer::cells(&packet, self.width).ok_or_else(strange)?,
            ))),
        }
    }

    async fn columns(&mut self, head: &[u8]) -> Result<Vec<Column>, Error> {
        let count = Reader(head).counted().ok_or_else(strange)?;
        let mut columns = Vec::new();
        for _ in 0..count {
            let packet = self.packet().await?;
            columns.push(Column::read(&packet).ok_or_else(strange)?);
        }
        // The end of the columns.
        self.packet().await?;
        Ok(columns)
    }

    /// A command that is no question, and the packet that answers it.
    pub(super) async fn command_packet(
        &mut self,
        command: u8,
        request: &[u8],
    ) -> Result<Bytes, Error> {
        self.broken_off = true;
        let sent = self.packets.ask(command, request).await;
        sent.map_err(|e| verdict::of_io(&e, &self.settings))?;
        let packet = self.packet().await?;
        self.broken_off = false;
        Ok(packet)
    }

    async fn packet(&mut self) -> Result<Bytes, Error> {
        let packet = self.packets.next().await;
        packet.map_err(|e| verdict::of_io(&e, &self.settings))
    }

    /// Resolves when the session has ended: a server says nothing unasked but that. Cancel-safe.
    pub(super) async fn ended(&mut self) {
        let _farewell = self.packets.next().await;
        self.broken_off = true;
    }

    /// Says goodbye, so that the server does not count a broken connection.
    pub(super) async fn close(mut self) {
        if !self.broken_off {
            let _said = timeout(Duration::from_secs(1), self.packets.ask(QUIT, &[])).await;
        }
    }

    /// Under another number among the server's replicas than the pipeline's own.
    pub(super) fn guest(mut self) -> Session {
        self.settings.server_id ^= 0x8000_0000;
        self
    }

    /// For another use than questions and answers.
    pub(super) fn into_packets(self) -> (Packets, Settings) {
        (self.packets, self.settings)
    }
}

/// The rights to be granted, the settings and the log's form are different: what is meant has to be said.
fn same_flavor(settings: &Settings, found: Flavor, version: &str) -> Result<(), Error> {
    if found == settings.flavor {
        return Ok(());
    }
    let scheme = match found {
        Flavor::MySql => "mysql://",
        Flavor::MariaDb => "mariadb://",
    };
    Err(Error::fatal(
        format!(
            "the server at {} is {found} ({version}), not {}",
            settings.place(),
            settings.flavor
        ),
        format!("let source.url begin with {scheme}"),
    ))
}

fn strange() -> Error {
    Error::transient("the server answered strangely")
}

pub(super) fn no_answer(settings: &Settings, limit: Duration) -> Error {
    let (place, seconds) = (settings.place(), limit.as_secs());
    Error::transient(format!("no answer from {place} within {seconds} s"))
}

/// Waiting is useless only if it is for all of them.
fn none_of(settings: &Settings, refused: &[Error]) -> Error {
    let reasons: Vec<String> = refused.iter().map(ToString::to_string).collect();
    let what = format!("none of {} can be used", settings.place());
    let reasons = reasons.join("; ");
    if refused.iter().all(Trouble::is_fatal) {
        return Error::fatal(what, reasons);
    }
    Error::transient(format!("{what}: {reasons}"))
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::super::tests::settings;
    use super::*;
    use crate::{Tls, TlsMode};

    #[test]
    fn several_servers_are_given_up_only_if_waiting_is_useless_for_each() {
        let (away, wrong) = (Error::transient("away"), Error::fatal("wrong", "mend it"));
        let error = none_of(&settings(), &[away, wrong.clone()]);
        assert!(!error.is_fatal(), "{error}");
        let error = none_of(&settings(), &[wrong.clone(), wrong]);
        assert!(error.is_fatal(), "{error}");
    }

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
            let opened = Session::open(&settings).await;
            assert!(matches!(opened, Err(Error::Transient(_))));
            assert_eq!(begun.elapsed().as_secs(), CONNECT_TIMEOUT.as_secs());
        }
    }
}
