//! `headwater init`: makes what `run` needs, once.

mod topics;

use std::time::Duration;

use headwater_core::positions::{self, FORMAT, Positions, Record};
use headwater_core::rights::Rights;
use headwater_core::source::Origin;
use headwater_source::mysql::{self, MySql};
use headwater_source::postgres::{self, Begun, Postgres};
use headwater_source::sqlite;
use serde_json::Value;

use super::Exit;
use crate::clock;
use crate::config::{self, Config, Snapshot};
use crate::parts::{self, AnyPositions, Database, Outlet};

/// Rows that are already there are counted up to here.
const COUNT: u64 = 10_000_000;

/// Between two tries at servers that are not up yet.
const PAUSE: Duration = Duration::from_secs(1);

/// Where a pipeline begins: the position, and the log that it belongs to.
pub struct Beginning {
    /// The position, for people.
    pub at: String,
    pub position: Value,
    pub source: Value,
}

pub async fn init(config: &Config, dry_run: bool) -> Result<(), Exit> {
    if dry_run {
        return plan(config).await;
    }
    let outlet = Outlet::new(config)?;
    let database = parts::database(config)?;
    parts::columns::fit(config, &database).await?;
    let (sink, mut positions) = outlet.connect().await?;
    let mut made = first(config, &outlet, &mut positions).await?;
    if made.is_empty() {
        made = again(config, &mut positions).await?;
    }
    if let Some(kafka) = sink.makes_topics() {
        let found = topics::find(config, &database).await?;
        eprintln!("{}", found.told());
        for topic in &found.topics {
            if kafka.make(topic).await? {
                made.push(format!("topic {topic}: created"));
            }
        }
    }
    for line in &made {
        eprintln!("{line}");
    }
    if made.is_empty() {
        eprintln!("nothing to do: pipeline {} is ready", config.name());
    }
    Ok(())
}

/// For `run --init`: waits for servers that are not up yet, and the log says what was made. A pipeline that has a position
/// ran before, and nothing is made for it.
pub async fn if_it_never_ran(config: &Config) -> Result<(), Exit> {
    let mut last_trouble = String::new();
    loop {
        let trouble = match try_first(config).await {
            Err(Exit::Unexpected(trouble)) => trouble,
            Err(exit) => return Err(exit),
            Ok(made) => {
                for line in made {
                    tracing::info!("{line}");
                }
                return Ok(());
            }
        };
        if trouble != last_trouble {
            tracing::warn!(trouble, "not ready for init yet: trying again");
            last_trouble = trouble;
        }
        tokio::time::sleep(PAUSE).await;
    }
}

async fn try_first(config: &Config) -> Result<Vec<String>, Exit> {
    let outlet = Outlet::new(config)?;
    let (_sink, mut positions) = outlet.connect().await?;
    first(config, &outlet, &mut positions).await
}

/// Makes everything for a pipeline that has no position yet, and says what it made.
async fn first(
    config: &Config,
    outlet: &Outlet,
    positions: &mut AnyPositions,
) -> Result<Vec<String>, Exit> {
    let topic = outlet.init(positions).await?;
    let record = positions.read().await?;
    if record.is_some_and(|record| record.has_position()) {
        return Ok(topic.into_iter().collect());
    }
    match parts::database(config)? {
        // Alone: of two that are started at once, the second one waits, and then finds everything made.
        Database::Postgres(settings) => {
            let mut origin = Postgres::new(settings);
            origin.lock().await?;
            make(config, topic, positions).await
        }
        Database::MySql(settings) => {
            let mut origin = MySql::new(settings);
            origin.lock().await?;
            make(config, topic, positions).await
        }
        Database::Sqlite(_) => make(config, topic, positions).await,
    }
}

/// A record without a position is written before anything is made in the database: killed in the middle, the next call
/// finds it and knows that the slot there is its own and has served nobody, so it can go on. Without a slot nothing has begun,
/// and rows that are there would be passed over: they are looked for again.
async fn make(
    config: &Config,
    topic: Option<String>,
    positions: &mut AnyPositions,
) -> Result<Vec<String>, Exit> {
    let mut made: Vec<String> = topic.into_iter().collect();
    let database = parts::database(config)?;
    let record = positions.read().await?;
    if record.as_ref().is_some_and(Record::has_position) {
        return Ok(made);
    }
    let slot = slot(&database).await?;
    if record.is_none()
        && let Some(position) = &slot
    {
        return Err(somebodys_slot(config, &database, position));
    }
    if slot.is_none() {
        existing_rows(config, &database).await?;
    }
    if record.is_none() {
        write(positions, &empty_record(config)).await?;
    }
    let (beginning, done) = begin(config, &database, count_to(config)).await?;
    let at = beginning.at.clone();
    made.extend(done);
    let record = Record {
        snapshot: snapshot(config),
        ..first_record(config, 0, beginning)
    };
    made.push(match record.snapshot {
        Some(_) => format!(
            "position record of pipeline {}: begins with a snapshot of the rows that are there",
            config.name()
        ),
        None => format!(
            "position record of pipeline {}: begins at {at}",
            config.name()
        ),
    });
    write(positions, &record).await?;
    Ok(made)
}

/// For a pipeline that has a position: makes publication and slot if they are gone, and leaves the position as it is. A
/// new slot is ahead of it, so `run` refuses until a person decides.
async fn again(config: &Config, positions: &mut AnyPositions) -> Result<Vec<String>, Exit> {
    let Database::Postgres(_) = parts::database(config)? else {
        return Ok(Vec::new());
    };
    let record = positions.read().await?;
    let (beginning, mut made) = begin(config, &parts::database(config)?, None).await?;
    if !made.is_empty() {
        made.push(format!(
            "the position record was left as it is, at {}; a new slot begins at {}, and what was committed between the two is \
             not in it: headwater recover publishes it from the table, headwater adopt goes on from the slot without it",
            record.map(|record| record.position).unwrap_or_default(),
            beginning.at
        ));
    }
    Ok(made)
}

/// Publication, slot, and where the slot begins; with `count_to`, only if a new slot passes over no event.
pub async fn begin(
    config: &Config,
    database: &Database,
    count_to: Option<u64>,
) -> Result<(Beginning, Vec<String>), Exit> {
    match database {
        Database::Postgres(settings) => match postgres::init(settings, count_to).await? {
            Begun::Holds(events) => Err(rows_are_there(config, events)),
            Begun::At {
                made,
                position,
                identity,
            } => {
                let beginning = Beginning {
                    at: position.to_string(),
                    position: serde_json::to_value(position).unwrap_or_default(),
                    source: serde_json::to_value(&identity).unwrap_or_default(),
                };
                Ok((beginning, made))
            }
        },
        Database::MySql(settings) => match mysql::init(settings, count_to).await? {
            mysql::Begun::Holds(events) => Err(rows_are_there(config, events)),
            mysql::Begun::At {
                position,
                identity,
                notices,
            } => {
                let beginning = Beginning {
                    at: position.to_string(),
                    position: serde_json::to_value(position).unwrap_or_default(),
                    source: serde_json::to_value(&identity).unwrap_or_default(),
                };
                Ok((beginning, notices))
            }
        },
        Database::Sqlite(settings) => {
            let (position, identity) = sqlite::setup::start(settings).await?;
            let beginning = Beginning {
                at: position.to_string(),
                position: serde_json::to_value(position).unwrap_or_default(),
                source: identity.to_json(),
            };
            Ok((beginning, Vec::new()))
        }
    }
}

/// Up to where existing rows are counted, if the user has to know of them: they are never passed over without a word.
fn count_to(config: &Config) -> Option<u64> {
    config.source().snapshot.is_none().then_some(COUNT)
}

/// Rows that are there will be published by `run`, before anything else.
fn snapshot(config: &Config) -> Option<positions::Snapshot> {
    match config.source().snapshot {
        Some(Snapshot::Initial | Snapshot::Only) => Some(positions::Snapshot::default()),
        Some(Snapshot::Never) | None => None,
    }
}

/// A first look, before anything is made.
async fn existing_rows(config: &Config, database: &Database) -> Result<(), Exit> {
    let Some(limit) = count_to(config) else {
        return Ok(());
    };
    let count = match database {
        Database::Postgres(settings) => postgres::count_events(settings, limit).await?,
        Database::MySql(settings) => mysql::count_events(settings, limit).await?,
        Database::Sqlite(settings) => sqlite::setup::count_events(settings).await?,
    };
    match count {
        0 => Ok(()),
        count => Err(rows_are_there(config, count)),
    }
}

fn rows_are_there(config: &Config, count: u64) -> Exit {
    let count = match count {
        1 => "1 event".into(),
        COUNT.. => format!("{COUNT} events or more"),
        count => format!("{count} events"),
    };
    Exit::Configuration(format!(
        "the table {} holds {count} already, and source.snapshot is not set. snapshot = \"initial\": they are published first, in \
         the order of event_date, then those committed from now on. snapshot = \"only\": they are published, and nothing else. \
         snapshot = \"never\": they are not published, only those committed from now on. {}",
        config.source().table,
        match config.source().database {
            config::Database::Postgres(_) => "No slot was made, and no position",
            _ => "No position was taken",
        }
    ))
}

/// Where the slot stands, if there is one.
async fn slot(database: &Database) -> Result<Option<String>, Exit> {
    let Database::Postgres(settings) = database else {
        return Ok(None);
    };
    let slot = postgres::slot_position(settings).await?;
    Ok(slot.map(|(position, _)| position.to_string()))
}

/// A slot without a record is somebody's: its position is adopted only after a person decided so.
fn somebodys_slot(config: &Config, database: &Database, position: &str) -> Exit {
    let slot = match database {
        Database::Postgres(settings) => settings.slot.as_str(),
        Database::MySql(_) | Database::Sqlite(_) => "",
    };
    Exit::Person(format!(
        "the slot {slot} exists already, at {position}, but pipeline {} has no position record. If the slot's position is \
         right for it: headwater adopt. If the slot is left over: SELECT pg_drop_replication_slot('{slot}'); then headwater init",
        config.name(),
    ))
}

fn empty_record(config: &Config) -> Record {
    let nothing = Beginning {
        at: String::new(),
        position: Value::Null,
        source: Value::Null,
    };
    first_record(config, 0, nothing)
}

pub fn first_record(config: &Config, run: u64, beginning: Beginning) -> Record {
    Record {
        format: FORMAT,
        name: config.name().to_owned(),
        run,
        source: beginning.source,
        position: beginning.position,
        event_time: None,
        written_at: clock::now().to_string(),
        headwater: env!("CARGO_PKG_VERSION").into(),
        blocked: None,
        snapshot: None,
    }
}

pub async fn write(positions: &mut AnyPositions, record: &Record) -> Result<(), Exit> {
    positions.write(record)?;
    positions.written().await?;
    Ok(())
}

/// Nothing but SQL and its comments. The rights come first: without them nobody can look at the database.
async fn plan(config: &Config) -> Result<(), Exit> {
    let outlet = Outlet::new(config)?;
    let database = parts::database(config)?;
    parts::columns::fit(config, &database).await?;
    for Rights { whose, grants } in parts::rights(config, &database, &outlet)? {
        println!("-- To be run once by an administrator, not by init: what suffices for {whose}");
        for grant in grants {
            println!("--   {grant}");
        }
    }
    if let Database::Postgres(settings) = &database {
        println!("-- What init runs; the publication is the table's owner's to make");
        for sql in postgres::dry_run(settings).await? {
            println!("{sql};");
        }
    }
    println!("-- {}", outlet.plan());
    if outlet.makes_topics() {
        let found = topics::find(config, &database).await?;
        println!("-- {}; each is made unless it is there", found.told());
        for topic in &found.topics {
            println!("--   {topic}");
        }
    }
    Ok(())
}
