//! Rows for a person to look at: the latest ones of the table, and new ones through a temporary slot.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::sync::Arc;

use headwater_core::event::Role;
use headwater_core::row::{Row, Table};
use tokio::time::timeout;
use tokio_postgres::error::SqlState;

use super::catalog::Catalog;
use super::facts::Facts;
use super::pace::Pace;
use super::position::Lsn;
use super::rows::Rows;
use super::session::{ANSWER_TIMEOUT, Session, application, no_answer};
use super::setup::SLOT_LIMIT;
use super::stream::Gate;
use super::view::{self, Page, Shape};
use super::{Log, Settings, ident, resume, setup, verdict};
use crate::Error;
use crate::silence::Silence;

/// What one statement of a look that nobody asked for by name may take of the server.
const STATEMENT_LIMIT: &str = "5s";

/// The latest rows of the table, the oldest of them first.
pub async fn latest(settings: &Settings, limit: u32) -> Result<Vec<Row>, Error> {
    let latest = Latest::open(Session::open(settings).await?, settings, limit).await?;
    let mut rows = latest.rows(&latest.query).await?;
    rows.reverse();
    Ok(rows)
}

/// Hands over the latest rows of the table one by one, the newest first. No statement may keep the server for long, and
/// few rows are in memory at any time: each may be as large as a payload can be.
pub async fn each_latest(
    settings: &Settings,
    limit: u32,
    mut each: impl FnMut(&Row),
) -> Result<(), Error> {
    let short = [("statement_timeout", STATEMENT_LIMIT)];
    let session = Session::open_as(settings, &application(settings), &short).await?;
    let latest = Latest::open(session, settings, limit).await?;
    let begin = format!(
        "BEGIN READ ONLY; DECLARE headwater_latest NO SCROLL CURSOR FOR {}",
        latest.query
    );
    latest.rows(&begin).await?;
    let mut page = Page::first();
    loop {
        let fetch = format!("FETCH {} FROM headwater_latest", page.0);
        let rows = latest.rows(&fetch).await?;
        rows.iter().for_each(&mut each);
        if rows.len() < page.0 {
            return Ok(());
        }
        page = page.next(rows.iter().map(view::weight).sum());
    }
}

/// The table's columns as they are today.
pub async fn definition(settings: &Settings) -> Result<Arc<Table>, Error> {
    let shape = Shape::ask(Session::open(settings).await?, settings).await?;
    Ok(shape.table)
}

/// The question for the table's latest rows.
struct Latest<'s> {
    shape: Shape,
    settings: &'s Settings,
    query: String,
}

impl<'s> Latest<'s> {
    async fn open(
        session: Session,
        settings: &'s Settings,
        limit: u32,
    ) -> Result<Latest<'s>, Error> {
        let shape = Shape::ask(session, settings).await?;
        let query = format!(
            "{} ORDER BY {} DESC, {} DESC LIMIT {limit}",
            shape.select(),
            ident(Role::EventDate.name()),
            ident(Role::Id.name())
        );
        Ok(Latest {
            shape,
            settings,
            query,
        })
    }

    /// Without parameters the server answers in text, the form in which the log has it too.
    async fn rows(&self, sql: &str) -> Result<Vec<Row>, Error> {
        let asked = self.shape.session.simple_query(sql);
        let answer = match timeout(ANSWER_TIMEOUT, asked).await {
            Ok(answer) => answer.map_err(|e| slow(&e, self.settings))?,
            Err(_) => return Err(no_answer(self.settings, ANSWER_TIMEOUT)),
        };
        let rows = view::rows(answer).map(|row| self.shape.row(&row));
        rows.collect::<Result<_, _>>()
            .map_err(|e| verdict::of_sql(&e, self.settings))
    }
}

fn slow(error: &tokio_postgres::Error, settings: &Settings) -> Error {
    if error.code() != Some(&SqlState::QUERY_CANCELED) {
        return verdict::of_sql(error, settings);
    }
    Error::fatal(
        "finding the latest rows took the server too long: the table has no index for it, or is locked",
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
    let settings = &session.settings().clone();
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
