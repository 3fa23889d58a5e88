//! The outbox of a MySQL or MariaDB database, by the binlog.

mod answer;
mod began;
#[cfg(feature = "bench")]
#[doc(hidden)]
pub mod bench;
#[cfg(test)]
mod captured;
mod charset;
mod decode;
mod facts;
mod flavor;
mod gtid;
mod indexes;
mod inflate;
mod json;
mod keeping;
mod learned;
mod lock;
mod login;
mod look;
#[cfg(any(test, feature = "bench"))]
mod made;
mod packet;
mod payload;
mod position;
mod reader;
mod resume;
mod rights;
mod rows;
mod session;
mod settings;
mod setup;
mod snapshot;
mod statement;
mod stream;
mod table;
mod value;
mod verdict;
mod view;
mod walk;
mod watch;

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::positions::Record;
use headwater_core::row::Row;
use headwater_core::source::{Item, Origin, Source};
use tokio::sync::watch::Receiver;
use tokio::task::yield_now;
use tracing::info;

pub use flavor::Flavor;
pub use gtid::{Gtid, GtidList, GtidSet, Gtids, MariaDbGtid, MySqlGtid, NotAGtid, Sid};
pub use look::{definition, each_latest, follow, latest};
pub use position::{Identity, Last, Layout, LayoutColumn, Position, Prepared};
pub use rights::rights;
pub use settings::Settings;
pub use setup::{Begun, check, count_events, init, named, present};
pub use snapshot::Existing;
pub(crate) use view::View;
pub use view::{part, which};

use crate::Error;
use crate::silence::Silence;
use facts::Facts;
use learned::Learned;
use lock::{Lock, is_lost, lock_lost, until_lost};
use rows::Rows;
use session::Session;
use stream::{Ended, Stream};

/// A name as an SQL identifier.
fn ident(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text as an SQL literal; every session takes a backslash for what it is by default.
fn literal(text: &str) -> String {
    let mut literal = String::with_capacity(text.len() + 2);
    literal.push('\'');
    for char in text.chars() {
        if matches!(char, '\\' | '\'') {
            literal.push('\\');
        }
        literal.push(char);
    }
    literal.push('\'');
    literal
}

/// A MySQL or MariaDB database with an outbox.
pub struct MySql {
    settings: Settings,
    lock: Option<Lock>,
    learned: Arc<Learned>,
}

impl MySql {
    pub fn new(settings: Settings) -> MySql {
        MySql {
            settings,
            lock: None,
            learned: Arc::default(),
        }
    }
}

impl Origin for MySql {
    type Source = Log;
    type Snapshot = Existing;

    async fn lock(&mut self) -> Result<(), Error> {
        if self.lock.as_ref().is_some_and(|lock| !lock.is_lost()) {
            return Ok(());
        }
        self.lock = None;
        self.lock = Some(Lock::take(&self.settings).await?);
        Ok(())
    }

    async fn open(&mut self, record: &Record) -> Result<Log, Error> {
        let (then, position) = remembered(record)?;
        let lock = self.lock.as_ref().ok_or_else(lock_lost)?;
        let settings = lock.settings();
        let lost = lock.lost();

        let mut session = Session::open(settings).await?;
        let facts = Facts::read(&mut session).await?;
        // The address may lead to another server by now, and the lock counts on its own only.
        if facts.server.holder != Some(lock.id()) {
            self.lock = None;
            return Err(lock_lost());
        }
        resume::fit_server(&facts, settings)?;
        let start = resume::start(&then, &position, &facts, settings)?;
        resume::fit_table(facts.table.as_ref(), settings)?;
        if then.server != facts.server.identity {
            info!(
                before = then.server,
                now = facts.server.identity,
                "another server has everything up to the position: reading on there"
            );
        }
        let stream = Stream::begin(session, &start.from).await?;
        let identity = Identity {
            server: facts.server.identity,
            ..then
        };
        Ok(Log {
            stream,
            rows: Rows::new(
                identity.flavor,
                &settings.schema,
                &settings.table,
                start.position,
                identity.layout.clone(),
                start.again,
            )
            .on(&identity.server, &self.learned),
            silence: Silence::new(settings.silence_timeout),
            lost: Some((lost, lock.id())),
            identity: Some(identity),
            learned: Arc::clone(&self.learned),
            ended: None,
        })
    }

    async fn snapshot(&mut self, record: &mut Record) -> Result<Existing, Error> {
        let lock = self.lock.as_ref().ok_or_else(lock_lost)?;
        Existing::open(lock, record).await
    }
}

/// The identity and position of a record.
fn remembered(record: &Record) -> Result<(Identity, Position), Error> {
    let unreadable = |e: serde_json::Error| {
        Error::fatal(
            format!(
                "the position record of pipeline {} is none of a MySQL or MariaDB source: {e}",
                record.name
            ),
            "give this pipeline another name, or take the server's present position with `headwater adopt`",
        )
    };
    let identity = serde_json::from_value(record.source.clone()).map_err(unreadable)?;
    let position = serde_json::from_value(record.position.clone()).map_err(unreadable)?;
    Ok((identity, position))
}

/// The log of one server, being read.
pub struct Log {
    stream: Stream,
    rows: Rows,
    silence: Silence,
    /// Tells when the lock is lost, and which session holds it. Whoever only looks needs none.
    lost: Option<(Receiver<bool>, u64)>,
    /// Nor is anything remembered of that.
    identity: Option<Identity>,
    learned: Arc<Learned>,
    /// An event that could not be understood was taken off the log: nothing may come after it, whoever asks again.
    ended: Option<Error>,
}

impl Log {
    /// For somebody who only looks: nothing is remembered, and no lock is held.
    fn looking(stream: Stream, rows: Rows, silence: Silence) -> Log {
        Log {
            stream,
            rows,
            silence,
            lost: None,
            identity: None,
            learned: Arc::default(),
            ended: None,
        }
    }

    /// The next row before a place of the log; none once all of them were handed over.
    async fn row_before(&mut self, file: &str, offset: u64) -> Result<Option<Row>, Error> {
        loop {
            match self.rows.item()? {
                Some(Item::Row(row)) => return Ok(Some(row)),
                Some(_) => {}
                None if self.rows.has_reached(file, offset) => return Ok(None),
                None => {
                    let event = self.event().await?;
                    self.rows.take(event)?;
                }
            }
        }
    }

    async fn event(&mut self) -> Result<Bytes, Error> {
        if self.lost.as_ref().is_some_and(|(lost, _)| is_lost(lost)) {
            return Err(lock_lost());
        }
        let event = if let Some(event) = self.at_once().await {
            event
        } else {
            self.waited_for().await?
        };
        self.silence.broken();
        match event {
            Ok(event) => Ok(event),
            Err(Ended::Broken(error)) => Err(error),
            Err(Ended::Refused(refusal)) => {
                let (file, offset) = self.rows.place();
                let place = format!("{file}:{offset}");
                let (error, clash) = verdict::of_stream(&refusal, self.stream.settings(), &place);
                if clash && self.replaced().await {
                    return Err(lock_lost());
                }
                if verdict::is_of_the_mode(&refusal) {
                    return Err(self.learned.unread(&place, error));
                }
                Err(error)
            }
        }
    }

    /// One that is not there yet.
    async fn waited_for(&mut self) -> Result<Result<Bytes, Ended>, Error> {
        let waiting = self.silence.begin();
        let lost = self.lost.as_mut().map(|(lost, _)| lost);
        let silent = tokio::select! {
            biased;
            error = until_lost(lost) => return Err(error),
            event = self.stream.next() => return Ok(event),
            () = waiting.too_long() => waiting.error(),
        };
        drop(waiting);
        // A process that was paused finds its time over before it hears what was said meanwhile.
        yield_now().await;
        self.at_once().await.ok_or(silent)
    }

    fn end(&mut self, error: Error) {
        let (file, offset) = self.rows.place();
        let error = if self.rows.is_malformed() {
            self.learned.unread(&format!("{file}:{offset}"), error)
        } else {
            error
        };
        self.ended = Some(error);
    }

    /// An event that is there already: under load no clock is read for it.
    async fn at_once(&mut self) -> Option<Result<Bytes, Ended>> {
        tokio::select! {
            biased;
            event = self.stream.next() => Some(event),
            () = std::future::ready(()) => None,
        }
    }

    /// Whether it was another instance of this pipeline that came to the server with our number: one that was paused for
    /// long wakes up to that, perhaps before it hears that its lock is gone.
    async fn replaced(&mut self) -> bool {
        let Some((_, ours)) = self.lost else {
            return false;
        };
        let settings = self.stream.settings().clone();
        let holder = async {
            let mut session = Session::open(&settings).await?;
            lock::holder(&mut session).await
        };
        match holder.await {
            Ok(holder) => holder != Some(ours),
            Err(_) => true,
        }
    }
}

impl Source for Log {
    type Position = Position;
    type Error = Error;

    fn is_doubtful(&self) -> bool {
        self.rows.is_reading_again()
    }

    async fn next(&mut self) -> Result<Item<Position>, Error> {
        loop {
            if let Some(error) = &self.ended {
                return Err(error.clone());
            }
            match self.rows.item() {
                Ok(Some(item)) => return Ok(item),
                Ok(None) => {}
                Err(error) => {
                    self.end(error);
                    continue;
                }
            }
            let event = self.event().await?;
            if let Err(error) = self.rows.take(event) {
                self.end(error);
            }
        }
    }

    /// A server that is being stopped ends the lock's session, too.
    async fn lost(&mut self) -> Error {
        until_lost(self.lost.as_mut().map(|(lost, _)| lost)).await
    }

    fn committed_at(&self) -> Option<i64> {
        self.rows.committed_at()
    }

    fn transaction(&self) -> Option<String> {
        self.rows.transaction()
    }

    /// The server may be another than the record's was.
    fn identity(&self) -> serde_json::Value {
        serde_json::to_value(&self.identity).unwrap_or_default()
    }

    /// The server keeps no account of its replicas: its logs go when their time is over.
    async fn confirm(&mut self, _: Position) -> Result<(), Error> {
        Ok(())
    }

    async fn close(self) {}
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

    use super::*;
    use crate::{Server, Tls};

    pub fn settings() -> Settings {
        Settings {
            name: "shop".into(),
            flavor: Flavor::MySql,
            servers: vec![Server {
                host: "localhost".into(),
                port: 3306,
            }],
            tls: Tls::disabled(),
            user: "cdc".into(),
            password: Arc::new(|| Ok(None)),
            schema: "eventlog".into(),
            table: "events".into(),
            server_id: 5400,
            silence_timeout: Duration::from_secs(30),
        }
    }

    /// A server with everything that a run needs.
    pub fn sound(flavor: Flavor) -> Facts {
        Facts {
            server: facts::Server::sound(flavor),
            log: facts::Log {
                files: Some(vec![facts::File {
                    name: "binlog.000001".into(),
                    size: 1000,
                }]),
                ..facts::Log::default()
            },
            table: Some(facts::TableFacts::sound()),
        }
    }

    pub fn identity(flavor: Flavor) -> Identity {
        Identity {
            flavor,
            server: facts::Server::sound(flavor).identity,
            layout: None,
        }
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(ident("a`b"), "`a``b`");
        assert_eq!(literal(r"it's \ 'so'"), r"'it\'s \\ \'so\''");
    }
}
