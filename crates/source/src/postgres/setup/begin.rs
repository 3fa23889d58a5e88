//! `init`: makes what is missing, and finds out which rows the log will never have.

use std::time::Duration;

use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::error::SqlState;

use super::super::facts::Facts;
use super::super::look::temporary_name;
use super::super::position::{Identity, Lsn};
use super::super::session::{self, Session};
use super::super::stream::Gate;
use super::super::{Settings, ident, resume, verdict};
use super::{SLOT_LIMIT, Step, count, make_slot, plan, position_of, primary, still_open};
use crate::Error;

const ANSWER_LIMIT: Duration = Duration::from_secs(20);
const HELD: Duration = Duration::from_millis(500);

/// What came of `init`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Begun {
    At {
        /// One phrase for each thing that was made; empty if all was there.
        made: Vec<String>,
        position: Lsn,
        identity: Identity,
    },
    /// The table holds so many events that a new slot would pass over. No slot was made.
    Holds(u64),
}

/// Makes the publication, then the slot, where they are missing. With `count_to`, a slot is made only if no event is committed
/// before it begins; else events are counted up to there.
pub async fn init(settings: &Settings, count_to: Option<u64>) -> Result<Begun, Error> {
    let limit = format!("{}s", SLOT_LIMIT.as_secs());
    let options = [("statement_timeout", limit.as_str()), ("lock_timeout", "0")];
    let application = session::application(settings);
    let session = Session::open_as(settings, &application, &options).await?;
    let settings = session.settings();
    let facts = Facts::read(&session, settings).await?;
    let slot = make_slot(settings, &facts);
    let mut made = Vec::new();
    for step in plan(settings, &facts)? {
        let done = match count_to {
            Some(limit) if step == slot => {
                match slot_for_an_empty_table(&session, settings, &facts, limit).await? {
                    Slot::Made => true,
                    Slot::Existed => false,
                    Slot::WouldPassOver(events) => return Ok(Begun::Holds(events)),
                }
            }
            _ => run(&session, settings, &step).await?,
        };
        if done {
            made.push(step.makes);
        }
    }
    // With the publication that was just made.
    let facts = Facts::read(&session, settings).await?;
    let (position, identity) = position_of(&session, settings, &facts).await?;
    Ok(Begun::At {
        made,
        position,
        identity,
    })
}

/// Drops this pipeline's slot, if there is one, so that `init` makes it anew. What the old one would still have given is lost with it.
pub async fn drop_slot(settings: &Settings) -> Result<(), Error> {
    let session = Session::open(settings).await?;
    let settings = session.settings();
    let facts = Facts::read(&session, settings).await?;
    primary(&facts)?;
    let Some(slot) = &facts.slot else {
        return Ok(());
    };
    // What `init` would refuse afterwards is refused while the slot is still there.
    resume::fit_table(facts.table.as_ref(), settings)?;
    if facts.publication.is_some() {
        resume::fit_publication(facts.publication.as_ref(), settings)?;
    }
    resume::of_this_database(slot, settings)?;
    let drop = "SELECT pg_drop_replication_slot($1::text::name)";
    let deadline = Instant::now() + ANSWER_LIMIT;
    loop {
        let Err(error) = session.execute(drop, &[&settings.slot]).await else {
            return Ok(());
        };
        // A reader that has just gone may still hold it.
        let is_held = error.code() == Some(&SqlState::OBJECT_IN_USE);
        if !is_held || Instant::now() > deadline {
            return Err(verdict::of_sql(&error, settings));
        }
        sleep(HELD).await;
    }
}

/// False if somebody else made it in the meantime.
async fn run(session: &Session, settings: &Settings, step: &Step) -> Result<bool, Error> {
    let asked = session.batch_execute(&step.sql);
    let Ok(done) = timeout(SLOT_LIMIT * 2, asked).await else {
        return Err(Error::transient("the server did not answer"));
    };
    let Err(error) = done else { return Ok(true) };
    match error.code().map(tokio_postgres::error::SqlState::code) {
        Some("42710") => Ok(false),
        Some("57014") => Err(still_open(&step.makes)),
        // The table's owner can do it instead. A slot that somebody else made could not be read by this role.
        Some("42501") if step.sql.starts_with("CREATE PUBLICATION") => Err(Error::fatal(
            format!("role {} may not make {}", settings.user, step.makes),
            format!(
                "let one who may run this, then `headwater init` again: {};",
                step.sql
            ),
        )),
        _ => Err(verdict::of_sql(&error, settings)),
    }
}

enum Slot {
    Made,
    Existed,
    WouldPassOver(u64),
}

/// A transaction that is open now can commit an event before the slot begins: only the snapshot that belongs to the beginning sees it.
/// The slot is a temporary one until the count is known, so that one that was killed in between leaves none behind that looks
/// as if it had been counted.
async fn slot_for_an_empty_table(
    session: &Session,
    settings: &Settings,
    facts: &Facts,
    limit: u64,
) -> Result<Slot, Error> {
    let version = facts.server.version;
    let mut gate = Gate::open(settings, &temporary_name("init"), Lsn(0)).await?;
    let what = format!("slot {}", settings.slot);
    let Beginning {
        temporary,
        snapshot,
        ..
    } = beginning(&mut gate, version, &what).await?;
    let events = count_seen_by(&snapshot, session, settings, limit).await?;
    if events > 0 {
        return Ok(Slot::WouldPassOver(events));
    }
    let copy = Step {
        makes: format!("slot {}", settings.slot),
        sql: format!(
            "SELECT pg_copy_logical_replication_slot('{temporary}', '{}', false)",
            settings.slot.replace('\'', "''")
        ),
    };
    if !run(session, settings, &copy).await? {
        return Ok(Slot::Existed);
    }
    // A copy is not kept on standbys until it is told so.
    if version >= 170_000 {
        let alter = format!(
            "ALTER_REPLICATION_SLOT {} (FAILOVER true)",
            ident(&settings.slot)
        );
        gate.run(&alter, ANSWER_LIMIT).await?;
    }
    Ok(Slot::Made)
}

/// Where a slot could begin, and what is committed before that.
pub(in super::super) struct Beginning {
    /// The slot that begins there, as long as the connection lasts.
    pub temporary: String,
    pub position: Lsn,
    /// It can be used until the connection's next command.
    pub snapshot: String,
}

pub(in super::super) async fn beginning(
    gate: &mut Gate,
    version: i32,
    what: &str,
) -> Result<Beginning, Error> {
    let temporary = temporary_name("begin");
    gate.no_time_limit(version).await?;
    // We give up first; this makes the server give up too, instead of keeping the slot until the others have ended.
    let server_limit = (SLOT_LIMIT + Duration::from_secs(5)).as_millis();
    let set = format!("SET lock_timeout = {server_limit}");
    gate.run(&set, ANSWER_LIMIT).await?;
    let making = gate.temporary_slot(&temporary, version, 2 * SLOT_LIMIT);
    let Ok(made) = timeout(SLOT_LIMIT, making).await else {
        return Err(still_open(what));
    };
    let (position, snapshot) = made?;
    Ok(Beginning {
        temporary,
        position,
        snapshot,
    })
}

async fn count_seen_by(
    snapshot: &str,
    session: &Session,
    settings: &Settings,
    limit: u64,
) -> Result<u64, Error> {
    let begin = format!(
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET TRANSACTION SNAPSHOT '{}'",
        snapshot.replace('\'', "''")
    );
    let failed = |error| verdict::of_sql(&error, settings);
    session.batch_execute(&begin).await.map_err(failed)?;
    let events = count(session, settings, limit).await?;
    session.batch_execute("COMMIT").await.map_err(failed)?;
    Ok(events)
}
