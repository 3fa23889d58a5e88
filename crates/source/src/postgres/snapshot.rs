//! Rows for a person to look at: the latest ones of the table, and new ones through a temporary slot.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::event::Role;
use headwater_core::row::{Change, Row, Table, Value};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::catalog::Catalog;
use super::decode::Cell;
use super::facts::Facts;
use super::pace::{Pace, Silence};
use super::position::Lsn;
use super::rows::Rows;
use super::session::Session;
use super::setup::SLOT_LIMIT;
use super::stream::Gate;
use super::value::{self, Kind};
use super::{Log, Settings, ident, resume, setup, verdict};
use crate::Error;

/// The latest rows of the table, the oldest of them first.
pub async fn latest(settings: &Settings, limit: u32) -> Result<Vec<Row>, Error> {
    let session = Session::open(settings).await?;
    let facts = Facts::read(&session, settings).await?;
    resume::fit_table(facts.table.as_ref(), settings)?;
    let catalog = Catalog::new(session, settings, &facts);
    let columns = catalog.columns().await?;
    // Without parameters the server answers in text, the form in which the log has it too.
    let sql = format!(
        "SELECT {} FROM {}.{} ORDER BY {} DESC, {} DESC LIMIT {limit}",
        list(columns.iter().map(|(name, _)| name)),
        ident(&settings.schema),
        ident(&settings.table),
        ident(Role::EventDate.name()),
        ident(Role::Id.name())
    );
    let answer = catalog.session.simple_query(&sql).await;
    let answer = answer.map_err(|e| slow(&e, settings))?;
    let (names, kinds): (Vec<String>, Vec<Kind>) = columns.into_iter().unzip();
    let table = Arc::new(Table {
        schema: settings.schema.clone(),
        name: settings.table.clone(),
        columns: names,
    });
    let mut rows = Vec::new();
    for message in answer.into_iter().rev() {
        if let SimpleQueryMessage::Row(row) = message {
            let cells = cells(&row, &kinds).map_err(|e| verdict::of_sql(&e, settings))?;
            rows.push(Row {
                table: Arc::clone(&table),
                change: Change::Read,
                cells,
            });
        }
    }
    Ok(rows)
}

fn list<'a>(names: impl Iterator<Item = &'a String>) -> String {
    let names: Vec<String> = names.map(|name| ident(name)).collect();
    names.join(", ")
}

fn cells(row: &SimpleQueryRow, kinds: &[Kind]) -> Result<Vec<Value>, tokio_postgres::Error> {
    let cell = |(place, kind): (usize, &Kind)| {
        Ok(match row.try_get(place)? {
            None => Value::Null,
            Some(text) => {
                let bytes = Bytes::copy_from_slice(text.as_bytes());
                value::read(kind, Cell::Text(bytes))
            }
        })
    };
    kinds.iter().enumerate().map(cell).collect()
}

fn slow(error: &tokio_postgres::Error, settings: &Settings) -> Error {
    if error.code() != Some(&SqlState::QUERY_CANCELED) {
        return verdict::of_sql(error, settings);
    }
    Error::fatal(
        "finding the latest rows took the server too long",
        format!(
            "an index makes it quick: CREATE INDEX CONCURRENTLY ON {} ({}, {});",
            settings.qualified(),
            Role::EventDate.name(),
            Role::Id.name()
        ),
    )
}

/// New rows from now on, through a slot that ends with the connection. Changes nothing, and needs no lock.
pub async fn follow(settings: &Settings) -> Result<Log, Error> {
    let session = Session::open(settings).await?;
    let facts = Facts::read(&session, settings).await?;
    resume::fit_server(&facts.server)?;
    resume::fit_table(facts.table.as_ref(), settings)?;
    resume::fit_publication(facts.publication.as_ref(), settings)?;
    let slot = temporary_name("peek");
    let mut gate = Gate::open(settings, &slot, Lsn(0)).await?;
    gate.no_time_limit(facts.server.version).await?;
    let make = format!(
        "CREATE_REPLICATION_SLOT {} TEMPORARY LOGICAL pgoutput NOEXPORT_SNAPSHOT",
        ident(&slot)
    );
    match timeout(SLOT_LIMIT, gate.run(&make, 2 * SLOT_LIMIT)).await {
        Ok(answer) => answer?,
        Err(_) => return Err(setup::still_open("a temporary slot")),
    }
    Ok(Log {
        stream: gate.start().await?,
        rows: Rows::new(&settings.schema, &settings.table, Lsn(0)),
        catalog: Catalog::new(session, settings, &facts),
        looking: None,
        pace: Pace::default(),
        silence: Silence::new(settings.silence_timeout),
        lost: None,
        watch: None,
        identity: None,
        confirmed: None,
        learned: Arc::default(),
    })
}

/// A name that nobody else takes: the hasher's keys are random.
pub(super) fn temporary_name(purpose: &str) -> String {
    format!(
        "headwater_{purpose}_{:016x}",
        RandomState::new().build_hasher().finish()
    )
}
