//! The outbox of a PostgreSQL database, by logical replication.

mod catalog;
mod confirm;
mod copied;
mod decode;
mod facts;
mod learned;
mod lock;
mod look;
mod pace;
mod position;
mod relay;
mod resume;
mod rights;
mod rows;
mod session;
mod settings;
mod setup;
mod snapshot;
mod strain;
mod stream;
mod timeline;
mod value;
mod verdict;
mod view;
mod watch;
mod wire;

use std::sync::Arc;

use headwater_core::positions::Record;
use headwater_core::source::{Item, Origin, Source};
use tokio::sync::watch::Receiver;
use tokio::task::yield_now;
use tracing::info;

pub use look::{definition, each_latest, follow, latest};
pub use position::{Identity, Lsn, NotAnLsn};
pub use rights::rights;
pub use settings::Settings;
pub use setup::{Begun, check, count_events, drop_slot, dry_run, init, slot_position};
pub use snapshot::Existing;
pub(crate) use view::View;
pub use view::{part, which};

use crate::Error;
use crate::silence::Silence;
use catalog::{Catalog, Looking};
use decode::Malformed;
use facts::Facts;
use learned::Learned;
use lock::{Lock, is_lost, lock_lost};
use pace::Pace;
use rows::{Rows, Step};
use session::Session;
use stream::{Frame, Gate, Stream, System};
use timeline::History;
use watch::{Watch, until_lost};

/// A name as an SQL identifier.
fn ident(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}

/// A PostgreSQL database with an outbox.
pub struct Postgres {
    settings: Settings,
    lock: Option<Lock>,
    learned: Arc<Learned>,
}

impl Postgres {
    pub fn new(settings: Settings) -> Postgres {
        Postgres {
            settings,
            lock: None,
            learned: Arc::default(),
        }
    }
}

impl Origin for Postgres {
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
        // The lock counts on its own server only.
        let settings = lock.settings();
        let lost = lock.lost();

        let session = Session::open(settings).await?;
        let facts = Facts::read(&session, settings).await?;
        resume::fit_server(&facts.server)?;
        let learned = &self.learned;
        let start = resume::start(facts.slot.as_ref(), position, learned.told());
        let mut gate = Gate::open_as(settings, &settings.slot, start, learned.binary()).await?;
        let system = gate.identify().await?;
        // Whose log it is comes first: on another server the slot is missing too, but that is not what is wrong.
        same_log(&then, position, &mut gate, &system, settings).await?;
        resume::fit(&facts, settings)?;
        resume::same_objects(&then, &facts, settings)?;
        resume::free(resume::slot(&facts, settings)?, settings)?;
        resume::not_moved(facts.slot.as_ref(), position, settings)?;
        gate.no_time_limit(facts.server.version).await?;
        let stream = gate.start().await?;
        // Now the slot is ours; but before that, someone may have moved it since we looked.
        let slot = facts::slot(&session, settings).await?;
        resume::not_moved(slot.as_ref(), position, settings)?;
        stream.tell(start);
        if start < position {
            info!(
                slot = %start,
                record = %position,
                "the slot is behind the position record: reading on from the slot"
            );
        } else {
            // A slot that is behind was not put there by this process: the next reading begins there again.
            learned.tell(start);
        }

        let identity = Identity {
            timeline: system.timeline,
            publication: facts
                .publication
                .as_ref()
                .map(|publication| publication.oid),
            table: facts.table.as_ref().map(|table| table.oid),
            ..then
        };
        let catalog = Catalog::new(session, settings, &facts);
        let session = Arc::clone(&catalog.session);
        Ok(Log {
            stream,
            rows: Rows::new(&settings.schema, &settings.table, start),
            watch: Some(Watch::begin(session, settings.clone(), identity.clone())),
            catalog,
            looking: None,
            pace: Pace::default(),
            silence: Silence::new(settings.silence_timeout),
            lost: Some(lost),
            identity: Some(identity),
            confirmed: None,
            learned: Arc::clone(learned),
        })
    }

    async fn snapshot(&mut self, record: &mut Record) -> Result<Existing, Error> {
        let lock = self.lock.as_ref().ok_or_else(lock_lost)?;
        Existing::open(lock, record).await
    }
}

/// The identity and position of a record.
fn remembered(record: &Record) -> Result<(Identity, Lsn), Error> {
    let unreadable = |e: serde_json::Error| {
        Error::fatal(
            format!(
                "the position record of pipeline {} is none of a PostgreSQL source: {e}",
                record.name
            ),
            "give this pipeline another name, or take the slot's position with `headwater adopt`",
        )
    };
    let identity = serde_json::from_value(record.source.clone()).map_err(unreadable)?;
    let position = serde_json::from_value(record.position.clone()).map_err(unreadable)?;
    Ok((identity, position))
}

/// The server's log is the one that the position was taken from, or a continuation of it.
async fn same_log(
    then: &Identity,
    position: Lsn,
    gate: &mut Gate,
    system: &System,
    settings: &Settings,
) -> Result<(), Error> {
    resume::same_log(then, position, system, settings)?;
    if then.timeline != system.timeline {
        let history = history(gate, system.timeline).await?;
        resume::on_the_way(then, position, system.timeline, &history)?;
    }
    Ok(())
}

async fn history(gate: &mut Gate, timeline: u32) -> Result<History, Error> {
    // The first timeline has no history file.
    if timeline <= 1 {
        return Ok(History::default());
    }
    Ok(History::parse(&gate.history(timeline).await?))
}

/// The log of one database, being read.
pub struct Log {
    stream: Stream,
    rows: Rows,
    catalog: Catalog,
    /// A question to the catalog under way. It is kept here, so that dropping `next` does not begin it anew.
    looking: Option<Looking>,
    pace: Pace,
    silence: Silence,
    /// A temporary slot needs no lock.
    lost: Option<Receiver<bool>>,
    /// Nor is anything remembered of it that could be replaced.
    watch: Option<Watch>,
    /// A temporary slot has none that could be remembered.
    identity: Option<Identity>,
    confirmed: Option<Lsn>,
    learned: Arc<Learned>,
}

impl Log {
    async fn frame(&mut self) -> Result<Frame, Error> {
        if self.lost.as_ref().is_some_and(is_lost) {
            return Err(lock_lost());
        }
        if let Some(error) = self.watch.as_ref().and_then(Watch::found) {
            return Err(error);
        }
        loop {
            if let Some(frame) = self.at_once().await {
                return frame;
            }
            // The client reads in a task of its own: it has its turn before anything is waited for.
            yield_now().await;
            if let Some(frame) = self.at_once().await {
                return frame;
            }
            if !self.pace.rest() {
                break;
            }
        }
        let waiting = self.silence.begin();
        let frame = tokio::select! {
            biased;
            error = until_lost(self.lost.as_mut(), self.watch.as_mut()) => return Err(error),
            frame = self.stream.next() => frame,
            () = waiting.too_long() => return Err(waiting.error()),
        };
        drop(waiting);
        self.silence.broken();
        self.pace.came();
        frame
    }

    /// A frame that is there already: under load no clock is read for it.
    async fn at_once(&mut self) -> Option<Result<Frame, Error>> {
        tokio::select! {
            biased;
            frame = self.stream.next() => {
                self.silence.broken();
                self.pace.came();
                Some(frame)
            }
            () = std::future::ready(()) => None,
        }
    }

    /// Nobody will ask for anything of a temporary slot again: it must not hold back the server's log.
    fn let_go(&self, item: &Item<Lsn>) {
        if self.identity.is_none()
            && let Item::Mark(position) = item
        {
            self.stream.tell(*position);
        }
    }

    /// Finishes a question to the catalog before another frame is read.
    async fn finish_looking(&mut self) -> Result<(), Error> {
        let Some(looking) = &mut self.looking else {
            return Ok(());
        };
        match looking.await {
            Ok((question, answer)) => {
                self.looking = None;
                self.rows.learn(&question.relation, answer);
                Ok(())
            }
            Err(error) => {
                // Rows of that relation cannot be understood: this is how the log stays, whoever asks again.
                let again = error.clone();
                self.looking = Some(Box::pin(std::future::ready(Err(again))));
                Err(error)
            }
        }
    }
}

fn unreadable(malformed: Malformed) -> Error {
    Error::fatal(
        format!("the server sent what Headwater cannot read as pgoutput: {malformed}"),
        "nothing was passed over; start again, and if it comes again report it with the server's version",
    )
}

impl Source for Log {
    type Position = Lsn;
    type Error = Error;

    async fn next(&mut self) -> Result<Item<Lsn>, Error> {
        loop {
            if let Some(item) = self.rows.afterwards() {
                return Ok(item);
            }
            self.finish_looking().await?;
            let frame = self.frame().await;
            let frame = frame.inspect_err(|error| self.learned.learn(error))?;
            match self.rows.take(frame).map_err(unreadable)? {
                Step::Nothing => {}
                Step::Doubt(table) => {
                    let error = catalog::doubtful(&table, &self.catalog.settings);
                    // The row has been taken off the log: nothing may come after it, whoever asks again.
                    let again = error.clone();
                    self.looking = Some(Box::pin(std::future::ready(Err(again))));
                    return Err(error);
                }
                Step::Item(item) => {
                    self.let_go(&item);
                    return Ok(item);
                }
                Step::Ask(question) => self.looking = Some(self.catalog.look(question)),
            }
        }
    }

    /// A server that is being stopped ends the lock's session first, and then waits for us.
    async fn lost(&mut self) -> Error {
        until_lost(self.lost.as_mut(), self.watch.as_mut()).await
    }

    fn committed_at(&self) -> Option<i64> {
        self.rows.committed_at()
    }

    fn transaction(&self) -> Option<String> {
        self.rows.transaction()
    }

    fn end(&self) -> Option<u64> {
        let seen = self.watch.as_ref().map_or(Lsn(0), Watch::end);
        Some(seen.max(self.rows.last_mark()).0)
    }

    fn place(position: &Lsn) -> Option<u64> {
        Some(position.0)
    }

    /// The timeline may be another than the record's was.
    fn identity(&self) -> serde_json::Value {
        serde_json::to_value(&self.identity).unwrap_or_default()
    }

    async fn confirm(&mut self, position: Lsn) -> Result<(), Error> {
        self.stream.tell(position);
        self.learned.tell(position);
        self.confirmed = Some(position);
        Ok(())
    }

    async fn close(self) {
        let Log {
            stream,
            catalog,
            confirmed,
            watch,
            ..
        } = self;
        drop(watch);
        confirm::finish(stream, &catalog.session, &catalog.settings, confirmed).await;
    }
}
