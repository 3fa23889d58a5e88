//! The rows that were there before the log began, as events.
//!
//! The log is read afterwards from a position that was taken before the first view. What was committed between the two is in both, so it
//! is read from the log first, and left to it. A later view, after an interruption, sees more than that: what was committed since comes twice.

use std::collections::HashSet;
use std::time::Duration;

use headwater_core::event::Role;
use headwater_core::positions::{Record, Snapshot};
use headwater_core::row::{Row, Value};
use headwater_core::source::{Item, Source};
use tokio::sync::watch::Receiver;
use tokio::time::timeout;
use tracing::{info, warn};

use super::facts::{self, Facts};
use super::lock::{Lock, is_lost, lock_lost, until_lost};
use super::look;
use super::position::{Identity, Position};
use super::session::Session;
use super::setup;
use super::verdict::{self, Refusal};
use super::view::View;
use super::watch::Watch;
use super::{Settings, ident, literal, remembered, resume, rights};
use crate::Error;
use crate::course::Course;

/// Rows are counted up to here; of a larger table the server's own estimate will do.
const COUNT: u64 = 200_000;
/// What is committed between a position and the view behind it must be few rows, and soon read.
const WINDOW_ROWS: usize = 1_000_000;
const WINDOW_LIMIT: Duration = Duration::from_mins(2);

/// The rows that were there before.
pub struct Existing {
    view: View,
    course: Course,
    /// Ids of rows that the view sees and the log has.
    left_to_the_log: HashSet<Vec<u8>>,
    /// Which cell of a row is its id.
    id: Option<usize>,
    lost: Receiver<bool>,
    watch: Watch,
    identity: Identity,
}

impl Existing {
    pub(super) async fn open(lock: &Lock, record: &mut Record) -> Result<Existing, Error> {
        let (then, position) = remembered(record)?;
        let settings = lock.settings();
        let mut session = Session::open(settings).await?;
        let facts = Facts::read(&mut session).await?;
        resume::fit_server(&facts, settings)?;
        resume::fit_table(facts.table.as_ref(), settings)?;
        let mut at = record.snapshot.clone().unwrap_or_default();
        let begun = match at.begun {
            Some(_) => again(settings, &facts, (then, position), &at).await?,
            None => first(&mut session, &facts, &mut at).await?,
        };
        at.views += 1;
        let Begun {
            view,
            position,
            identity,
            left_to_the_log,
        } = begun;
        record.position = serde_json::to_value(&position).unwrap_or_default();
        record.source = serde_json::to_value(&identity).unwrap_or_default();
        record.snapshot = Some(at.clone());
        let since = at.begun.as_ref().and_then(|begun| begun.parse().ok());
        Ok(Existing {
            id: view.id(),
            view,
            course: Course::begin(at),
            left_to_the_log,
            lost: lock.lost(),
            watch: Watch::begin(session, identity.clone(), position, since),
            identity,
        })
    }

    fn is_left_to_the_log(&self, row: &Row) -> bool {
        let id = self.id.and_then(|place| row.cells.get(place));
        !self.left_to_the_log.is_empty()
            && id.is_some_and(|id| self.left_to_the_log.contains(&bytes(id)))
    }
}

/// A view, and where the log is read from afterwards.
struct Begun {
    view: View,
    position: Position,
    identity: Identity,
    left_to_the_log: HashSet<Vec<u8>>,
}

async fn first(session: &mut Session, facts: &Facts, at: &mut Snapshot) -> Result<Begun, Error> {
    let settings = session.settings().clone();
    at.begun = Some(facts::now(session).await?);
    at.expected = expected(session).await?;
    let locked = setup::needs_a_lock(session, facts).await?;
    if locked {
        lock(session).await?;
    }
    let (position, identity, notices) = setup::present(&settings).await?;
    for notice in notices {
        warn!(notice, "the snapshot's place in the log is not sure");
    }
    let mut view = View::open(&settings).await?;
    let left_to_the_log = if locked {
        session.run("UNLOCK TABLES").await?;
        HashSet::new()
    } else {
        let end = facts::end(session).await?;
        between(&settings, &position, &identity, &end).await?
    };
    info!(%position, expected = at.expected, "publishing the rows that are there");
    view.ask(&at.window()).await?;
    Ok(Begun {
        view,
        position,
        identity,
        left_to_the_log,
    })
}

/// Without GTIDs the end of the log is ahead of what the engine has committed, so the table's writers are made to wait for a moment: the
/// lock is given once all of them have committed.
async fn lock(session: &mut Session) -> Result<(), Error> {
    let settings = session.settings().clone();
    let (schema, table) = (ident(&settings.schema), ident(&settings.table));
    let lock = format!("LOCK TABLES {schema}.{table} READ");
    match session.ask(&lock).await? {
        Ok(_) => Ok(()),
        Err(Refusal {
            code: 1044 | 1142,
            text,
        }) => Err(Error::fatal(
            format!(
                "without GTIDs a snapshot begins with a lock on the table, and that is refused: {text}"
            ),
            rights::to_lock(&settings),
        )),
        Err(refusal) => Err(verdict::of(&refusal, &settings)),
    }
}

async fn again(
    settings: &Settings,
    facts: &Facts,
    (then, position): (Identity, Position),
    at: &Snapshot,
) -> Result<Begun, Error> {
    // Now, and not after hours: what the log has lost by now will be missing.
    resume::start(&then, &position, facts, settings)?;
    info!(
        rows = at.rows,
        "going on with the rows that were there; what was committed since the snapshot began may come twice"
    );
    let mut view = View::open(settings).await?;
    view.ask(&at.window()).await?;
    Ok(Begun {
        view,
        position,
        identity: Identity {
            server: facts.server.identity.clone(),
            ..then
        },
        left_to_the_log: HashSet::new(),
    })
}

/// The ids of the rows that the log has between a position and a place behind it.
async fn between(
    settings: &Settings,
    position: &Position,
    identity: &Identity,
    (file, offset): &(String, u64),
) -> Result<HashSet<Vec<u8>>, Error> {
    let mut ids = HashSet::new();
    if *position.file == **file && position.offset >= *offset {
        return Ok(ids);
    }
    let mut log = look::from(settings, position, identity).await?;
    let reading = async {
        while let Some(row) = log.row_before(file, *offset).await? {
            let place = row
                .table
                .columns
                .iter()
                .position(|it| it == Role::Id.name());
            if let Some(id) = place.and_then(|place| row.cells.get(place)) {
                ids.insert(bytes(id));
            }
            if ids.len() > WINDOW_ROWS {
                return Err(Error::transient(
                    "too much was written while the snapshot began",
                ));
            }
        }
        Ok(())
    };
    match timeout(WINDOW_LIMIT, reading).await {
        Ok(read) => read?,
        Err(_) => {
            return Err(Error::transient(
                "the log could not be read up to where the snapshot begins",
            ));
        }
    }
    Ok(ids)
}

/// An id, however its cell is typed: the log does not tell a uuid from other bytes.
fn bytes(id: &Value) -> Vec<u8> {
    match id {
        Value::Text(text) => text.as_bytes().to_vec(),
        Value::Uuid(bytes) => bytes.to_vec(),
        Value::Bytes(bytes) => bytes.to_vec(),
        Value::Int(number) => number.to_be_bytes().to_vec(),
        other => format!("{other:?}").into_bytes(),
    }
}

/// About how many events there are, if that can be known without reading them all.
async fn expected(session: &mut Session) -> Result<Option<u64>, Error> {
    let counted = setup::count(session, COUNT).await?;
    if counted < COUNT {
        return Ok(Some(counted));
    }
    let Settings { schema, table, .. } = session.settings();
    let ask = format!(
        "SELECT table_rows FROM information_schema.tables WHERE table_schema = {} AND table_name = {}",
        literal(schema),
        literal(table)
    );
    let estimate = session.rows(&ask).await?.first();
    let estimate = estimate.and_then(|it| it.parse::<u64>().ok());
    Ok(estimate.filter(|estimate| *estimate >= COUNT))
}

impl Source for Existing {
    type Position = Snapshot;
    type Error = Error;

    fn identity(&self) -> serde_json::Value {
        serde_json::to_value(&self.identity).unwrap_or_default()
    }

    async fn next(&mut self) -> Result<Item<Snapshot>, Error> {
        loop {
            if is_lost(&self.lost) {
                return Err(lock_lost());
            }
            if let Some(mark) = self.course.mark() {
                return Ok(mark);
            }
            let next = tokio::select! {
                biased;
                error = until_lost(Some(&mut self.lost)) => return Err(error),
                error = self.watch.until_found() => return Err(error),
                next = self.view.next() => next?,
            };
            if next
                .as_ref()
                .is_some_and(|(row, _)| self.is_left_to_the_log(row))
            {
                continue;
            }
            return Ok(self.course.item(next));
        }
    }

    async fn lost(&mut self) -> Error {
        tokio::select! {
            error = until_lost(Some(&mut self.lost)) => error,
            error = self.watch.until_found() => error,
        }
    }

    fn enter(position: &Snapshot, record: &mut Record) {
        record.snapshot = Some(position.clone());
    }

    /// The server keeps no account of its replicas.
    async fn confirm(&mut self, _: Snapshot) -> Result<(), Error> {
        Ok(())
    }

    async fn close(self) {}
}
