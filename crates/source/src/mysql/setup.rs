//! Where a pipeline begins in a log that keeps no account of its readers (`init`, `adopt`), and a look at it (`check`).
//!
//! Rule: nothing is made and nothing is changed in the database.

mod check;
mod last;
mod named;
mod prepared;

use std::sync::Arc;
use std::time::Duration;

use headwater_core::event::Role;

use super::answer::{Answer, text};
use super::facts::{self, Facts, TableFacts};
use super::gtid::{GtidList, GtidSet, Gtids};
use super::position::{Identity, Position};
use super::session::Session;
use super::verdict::{self, Refusal};
use super::{Flavor, Settings, ident, literal, resume};
use crate::Error;

pub use check::check;
pub use named::named;

/// For open transactions, and for a count of many rows.
const LIMIT: Duration = Duration::from_mins(1);
const ASK_EVERY: Duration = Duration::from_secs(1);
/// So often a position is taken while the table is being changed.
const TRIES: u32 = 3;

/// Where a pipeline begins.
#[derive(Debug, Clone, PartialEq)]
pub enum Begun {
    At {
        position: Box<Position>,
        identity: Box<Identity>,
        /// What could not be made sure of.
        notices: Vec<String>,
    },
    /// The table holds so many events that the position would pass over.
    Holds(u64),
}

/// Takes the server's present position. With `count_to`, only if no event is committed before it; else events are counted up to
/// there. Whoever asks holds the lock.
pub async fn init(settings: &Settings, count_to: Option<u64>) -> Result<Begun, Error> {
    let mut begun = begin(settings, count_to).await?;
    if let Begun::At {
        position, identity, ..
    } = &mut begun
    {
        position.last = last::of(position, identity, settings).await;
    }
    Ok(begun)
}

async fn begin(settings: &Settings, count_to: Option<u64>) -> Result<Begun, Error> {
    let mut session = Session::open(settings).await?;
    session.limit(LIMIT).await?;
    let mut facts = Facts::read(&mut session).await?;
    fit(&facts, session.settings())?;
    for _ in 0..TRIES {
        let (taken, held) = take(&mut session, &facts, count_to).await?;
        if held > 0 {
            return Ok(Begun::Holds(held));
        }
        let identity = identity(&facts);
        let now = facts::layout(&mut session).await?;
        // Columns that were told before the position need not be those that it begins with.
        if identity.layout.as_ref().is_none_or(|then| *then == now) {
            session.close().await;
            return Ok(Begun::At {
                position: Box::new(taken.position),
                identity: Box::new(identity),
                notices: taken.notices,
            });
        }
        facts.table = facts.table.map(|table| TableFacts {
            layout: now,
            ..table
        });
    }
    Err(Error::transient(
        "the table's columns were changed whenever a position was taken",
    ))
}

/// Where the server's log ends now, which log that is, and what could not be made sure of. Whoever asks holds the lock.
pub async fn present(settings: &Settings) -> Result<(Position, Identity, Vec<String>), Error> {
    at(init(settings, None).await?)
}

/// The same, for whoever only looks.
pub(super) async fn now(settings: &Settings) -> Result<(Position, Identity), Error> {
    at(begin(settings, None).await?).map(|(position, identity, _)| (position, identity))
}

fn at(begun: Begun) -> Result<(Position, Identity, Vec<String>), Error> {
    match begun {
        Begun::At {
            position,
            identity,
            notices,
        } => Ok((*position, *identity, notices)),
        Begun::Holds(_) => Err(Error::transient("rows were counted that nobody asked for")),
    }
}

/// How many events the table holds already, counted up to `limit`.
pub async fn count_events(settings: &Settings, limit: u64) -> Result<u64, Error> {
    let mut session = Session::open(settings).await?;
    session.limit(LIMIT).await?;
    let facts = Facts::read(&mut session).await?;
    fit(&facts, session.settings())?;
    let events = count(&mut session, limit).await?;
    session.close().await;
    Ok(events)
}

/// What is needed of the server and the table, whatever the position.
fn fit(facts: &Facts, settings: &Settings) -> Result<(), Error> {
    resume::fit_server(facts, settings)?;
    resume::fit_table(facts.table.as_ref(), settings).map(drop)
}

/// Which log this is. Columns that the log does not name are remembered as they are now.
fn identity(facts: &Facts) -> Identity {
    let named = facts.server.is("binlog_row_metadata", "FULL");
    let layout = facts.table.as_ref().map(|table| table.layout.clone());
    Identity {
        flavor: facts.server.flavor,
        server: facts.server.identity.clone(),
        layout: layout.filter(|_| !named),
    }
}

struct Taken {
    position: Position,
    notices: Vec<String>,
}

/// A position, and the end of all prepared XA transactions that were open there: what they wrote stands before it in the log,
/// and counts as committed before the pipeline began. The log has their ends behind it, so their names are kept.
async fn take(
    session: &mut Session,
    facts: &Facts,
    count_to: Option<u64>,
) -> Result<(Taken, u64), Error> {
    let before = prepared::open(session).await?;
    let (mut position, mut held) = match facts.server.flavor {
        Flavor::MySql => mysql(session, facts, count_to, before.is_some()).await?,
        Flavor::MariaDb => mariadb(session, count_to).await?,
    };
    let after = prepared::open(session).await?;
    let mut notices = Vec::new();
    match before.zip(after) {
        // In an empty table nobody's row is locked: there is none.
        None if count_to.is_some() && held == 0 => {}
        None => notices.push(prepared::NOT_SEEN.to_owned()),
        Some((mut open, after)) => {
            // Each may have seen one that the other has not.
            open.extend(after);
            if held == 0 && !open.is_empty() {
                prepared::ended(session, &open).await?;
                if let Some(limit) = count_to {
                    held = count(session, limit).await?;
                }
            }
            position.prepared = Arc::new(open);
        }
    }
    Ok((Taken { position, notices }, held))
}

/// `gtid_executed` grows after the engine's commit, so whatever is in it is seen by a later count; a file's end grows before that.
async fn mysql(
    session: &mut Session,
    facts: &Facts,
    count_to: Option<u64>,
    may_look: bool,
) -> Result<(Position, u64), Error> {
    let (file, offset) = facts::end(session).await?;
    let gtids = if facts.server.names_transactions() {
        let answer = session.rows("SELECT @@global.gtid_executed").await?;
        Gtids::MySql(parsed::<GtidSet>(&answer)?)
    } else {
        Gtids::None
    };
    let by_place = match &gtids {
        Gtids::MySql(set) => set.has_tags(),
        _ => true,
    };
    let held = match count_to {
        None => 0,
        Some(limit) => {
            if by_place || !may_look {
                wait_for_writers(session).await?;
            }
            count(session, limit).await?
        }
    };
    Ok((Position::new(gtids, &file, offset), held))
}

/// Whether a position is a place in a file: that is ahead of what the engine has committed.
pub(super) async fn needs_a_lock(session: &mut Session, facts: &Facts) -> Result<bool, Error> {
    if facts.server.flavor == Flavor::MariaDb {
        return Ok(false);
    }
    if !facts.server.names_transactions() {
        return Ok(true);
    }
    let answer = session.rows("SELECT @@global.gtid_executed").await?;
    Ok(parsed::<GtidSet>(&answer)?.has_tags())
}

/// A snapshot, and the place in the log that is exactly its own (the manual's "START TRANSACTION WITH CONSISTENT SNAPSHOT").
async fn mariadb(session: &mut Session, count_to: Option<u64>) -> Result<(Position, u64), Error> {
    session
        .run("START TRANSACTION WITH CONSISTENT SNAPSHOT")
        .await?;
    let answer = session
        .rows("SHOW STATUS LIKE 'binlog\\_snapshot\\_%'")
        .await?;
    let status = |name: &str| {
        let row = answer.rows.iter().find(|row| {
            let found = text(row, 0).unwrap_or_default();
            found.eq_ignore_ascii_case(name)
        });
        row.and_then(|row| text(row, 1))
    };
    let file = status("binlog_snapshot_file").filter(|file| !file.is_empty());
    let offset = status("binlog_snapshot_position").and_then(|offset| offset.parse::<u64>().ok());
    let (Some(file), Some(offset)) = (file, offset) else {
        return Err(Error::transient(
            "the server does not say where its snapshot is in the log",
        ));
    };
    let held = match count_to {
        None => 0,
        Some(limit) => count(session, limit).await?,
    };
    session.run("COMMIT").await?;
    let ask = format!("SELECT BINLOG_GTID_POS({}, {offset})", literal(&file));
    let list = parsed::<GtidList>(&session.rows(&ask).await?)?;
    Ok((Position::new(Gtids::MariaDb(list), &file, offset), held))
}

fn parsed<T: std::str::FromStr<Err: std::fmt::Display>>(answer: &Answer) -> Result<T, Error> {
    // NULL is no answer: what is empty would mean that the log is read from its beginning.
    let text = answer.first();
    let text =
        text.ok_or_else(|| Error::transient("the server does not say where its log ends"))?;
    text.parse()
        .map_err(|e| Error::transient(format!("the server answered strangely: {e}")))
}

/// A row whose transaction is in the log already (or prepared), but not yet committed, is locked: reading it with a lock waits for the commit.
/// With the weaker isolation no gap and no other row stays locked meanwhile.
async fn wait_for_writers(session: &mut Session) -> Result<(), Error> {
    let settings = session.settings().clone();
    session
        .run("SET SESSION innodb_lock_wait_timeout = 55")
        .await?;
    session
        .run("SET TRANSACTION ISOLATION LEVEL READ COMMITTED")
        .await?;
    let ask = format!("{} LIMIT 1 LOCK IN SHARE MODE", events(&settings));
    match session.ask_within(&ask, 2 * LIMIT).await? {
        Ok(_) => Ok(()),
        Err(Refusal {
            code: 1205 | 3024, ..
        }) => Err(Error::fatal(
            "no position could be taken: transactions that wrote to the table earlier are still open",
            "end them, or try again later: SELECT * FROM information_schema.innodb_trx ORDER BY trx_started;",
        )),
        Err(refusal) => Err(verdict::of(&refusal, &settings)),
    }
}

fn events(settings: &Settings) -> String {
    format!(
        "SELECT 1 FROM {}.{} WHERE {} IS NOT NULL",
        ident(&settings.schema),
        ident(&settings.table),
        ident(Role::EventType.name())
    )
}

pub(super) async fn count(session: &mut Session, limit: u64) -> Result<u64, Error> {
    let ask = format!(
        "SELECT count(*) FROM ({} LIMIT {limit}) events",
        events(session.settings())
    );
    match session.ask_within(&ask, 2 * LIMIT).await? {
        Ok(answer) => Ok(answer.first().and_then(|it| it.parse().ok()).unwrap_or(0)),
        Err(refusal) => Err(verdict::of(&refusal, session.settings())),
    }
}
