//! Rows for a person to look at: the latest ones of the table, and new ones as they are written to the log.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::event::Role;
use headwater_core::row::{Row, Table};

use super::facts::Facts;
use super::position::{Identity, Position};
use super::rows::Rows;
use super::session::Session;
use super::stream::{From, Stream};
use super::verdict::{self, Refusal};
use super::view::Shape;
use super::{Gtids, Log, Settings, ident, resume, setup};
use crate::Error;
use crate::silence::Silence;

/// What one statement of a look that nobody asked for by name may take of the server.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// The latest rows of the table, the oldest of them first.
pub async fn latest(settings: &Settings, limit: u32) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let session = Session::open(settings).await?;
    read(session, limit, |row| rows.push(row)).await?;
    rows.reverse();
    Ok(rows)
}

/// Hands over the latest rows of the table one by one, the newest first. No statement may keep the server for long, and
/// no row stays in memory: each may be as large as a payload can be.
pub async fn each_latest(
    settings: &Settings,
    limit: u32,
    mut each: impl FnMut(&Row),
) -> Result<(), Error> {
    let mut session = Session::open(settings).await?;
    session.limit(STATEMENT_LIMIT).await?;
    read(session, limit, |row| each(&row)).await
}

async fn read(mut session: Session, limit: u32, mut each: impl FnMut(Row)) -> Result<(), Error> {
    let facts = Facts::read(&mut session).await?;
    let settings = session.settings().clone();
    let shape = Shape::of(&facts, &settings)?;
    let ask = format!(
        "{} ORDER BY {} DESC, {} DESC LIMIT {limit}",
        shape.select(),
        ident(Role::EventDate.name()),
        ident(Role::Id.name())
    );
    let answer = session
        .each(&ask, |_, cells| each(shape.row(cells)))
        .await?;
    session.close().await;
    answer
        .map(drop)
        .map_err(|refusal| slow(&refusal, &settings))
}

fn slow(refusal: &Refusal, settings: &Settings) -> Error {
    // Each flavor has its own number for a statement that took too long.
    if ![3024, 1969, 1205, 1317].contains(&refusal.code) {
        return verdict::of(refusal, settings);
    }
    Error::fatal(
        "finding the latest rows took the server too long: the table has no index for it, or is locked",
        format!(
            "an index makes it quick: CREATE INDEX events_latest ON {} ({}, {});",
            settings.qualified(),
            Role::EventDate.name(),
            Role::Id.name()
        ),
    )
}

/// The table's columns as they are today.
pub async fn definition(settings: &Settings) -> Result<Arc<Table>, Error> {
    let mut session = Session::open(settings).await?;
    let facts = Facts::read(&mut session).await?;
    let shape = Shape::of(&facts, session.settings())?;
    session.close().await;
    Ok(shape.table)
}

/// New rows from now on. Changes nothing, and needs no lock.
pub async fn follow(settings: &Settings) -> Result<Log, Error> {
    let (position, identity) = setup::now(settings).await?;
    from(settings, &position, &identity).await
}

/// The log from a position on, under another number than the pipeline's own.
pub(super) async fn from(
    settings: &Settings,
    position: &Position,
    identity: &Identity,
) -> Result<Log, Error> {
    let mut session = Session::open(settings).await?;
    let facts = Facts::read(&mut session).await?;
    resume::fit_table(facts.table.as_ref(), settings)?;
    let from = match &position.gtids {
        Gtids::MySql(set) if !set.has_tags() => From::After(set.clone()),
        Gtids::MariaDb(list) => From::AfterList(list.to_string()),
        _ => From::At(position.file.to_string(), position.offset),
    };
    let stream = Stream::begin(session.guest(), &from).await?;
    let (schema, table) = (&settings.schema, &settings.table);
    Ok(Log::looking(
        stream,
        Rows::new(
            identity.flavor,
            schema,
            table,
            position.clone(),
            identity.layout.clone(),
            false,
        ),
        Silence::new(settings.silence_timeout),
    ))
}
