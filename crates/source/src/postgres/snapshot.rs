//! The rows that were there before the log began, as events.
//!
//! The first view is the snapshot that a temporary slot exports where it begins: the log is read from there on afterwards, so that no
//! row is in both and none in neither. A later view, after an interruption, sees more than that: what was committed meanwhile comes twice.

use std::sync::Arc;

use headwater_core::positions::{Record, Snapshot};
use headwater_core::source::{Item, Source};
use tokio::sync::watch::Receiver;
use tracing::info;

use super::facts::{self, Facts, SlotFacts};
use super::lock::{Lock, is_lost, lock_lost};
use super::look::temporary_name;
use super::position::{Identity, Lsn};
use super::session::{Session, application, cell};
use super::stream::Gate;
use super::view::View;
use super::watch::{Watch, until_lost};
use super::{Settings, remembered, resume, same_log, setup, verdict};
use crate::Error;
use crate::course::Course;

/// Rows are counted up to here; of a larger table the server's own estimate will do.
const COUNT: u64 = 200_000;

/// The rows that were there before.
pub struct Existing {
    view: View,
    course: Course,
    session: Arc<Session>,
    settings: Settings,
    lost: Receiver<bool>,
    watch: Watch,
    identity: Identity,
    /// Where the log is read from afterwards.
    position: Lsn,
    /// The slot stands there.
    told: bool,
}

impl Existing {
    pub(super) async fn open(lock: &Lock, record: &mut Record) -> Result<Existing, Error> {
        let (then, position) = remembered(record)?;
        let settings = lock.settings();
        // Counting rows and moving a slot take their time.
        let patient = [("statement_timeout", "0")];
        let session = Session::open_as(settings, &application(settings), &patient).await?;
        let facts = Facts::read(&session, settings).await?;
        resume::fit_server(&facts.server)?;
        let mut gate = Gate::open(settings, &temporary_name("snapshot"), Lsn(0)).await?;
        let system = gate.identify().await?;
        same_log(&then, position, &mut gate, &system, settings).await?;
        resume::fit(&facts, settings)?;
        resume::same_objects(&then, &facts, settings)?;
        let slot = resume::slot(&facts, settings)?;
        resume::free(slot, settings)?;
        resume::not_moved(Some(slot), position, settings)?;

        let mut at = record.snapshot.clone().unwrap_or_default();
        let (view, position) = match at.begun {
            Some(_) => (again(settings, &at).await?, position),
            None => first(settings, &session, &mut gate, (&facts, &mut at)).await?,
        };
        at.views += 1;
        let identity = Identity {
            timeline: system.timeline,
            ..then
        };
        record.position = serde_json::to_value(position).unwrap_or_default();
        record.source = serde_json::to_value(&identity).unwrap_or_default();
        record.snapshot = Some(at.clone());
        let session = Arc::new(session);
        Ok(Existing {
            view,
            course: Course::begin(at),
            watch: Watch::begin(Arc::clone(&session), settings.clone(), identity.clone()),
            session,
            settings: settings.clone(),
            lost: lock.lost(),
            identity,
            position,
            told: false,
        })
    }
}

/// The slot follows to where the log is read from afterwards, so that nothing before that comes from it. Before it is told, the record
/// has it.
async fn move_slot(session: &Session, settings: &Settings, position: Lsn) -> Result<(), Error> {
    let slot = facts::slot(session, settings).await?;
    let stands = |slot: &SlotFacts| slot.confirmed.is_some_and(|at| at >= position);
    if slot.as_ref().is_some_and(stands) {
        return Ok(());
    }
    let advance = "SELECT pg_replication_slot_advance($1::text::name, $2::text::pg_lsn)";
    let position = position.to_string();
    let moved = session.execute(advance, &[&settings.slot, &position]).await;
    moved.map_err(|e| verdict::of_sql(&e, settings))?;
    Ok(())
}

/// The view that belongs to a place in the log.
async fn first(
    settings: &Settings,
    session: &Session,
    gate: &mut Gate,
    (facts, at): (&Facts, &mut Snapshot),
) -> Result<(View, Lsn), Error> {
    let what = "a view of the table";
    let begins = setup::beginning(gate, facts.server.version, what).await?;
    let view = View::open(settings, &at.window(), Some(&begins.snapshot)).await?;
    at.begun = Some(now(session).await?);
    at.expected = expected(session, settings).await?;
    info!(position = %begins.position, expected = at.expected, "publishing the rows that are there");
    Ok((view, begins.position))
}

async fn again(settings: &Settings, at: &Snapshot) -> Result<View, Error> {
    info!(
        rows = at.rows,
        "going on with the rows that were there; what was committed since the snapshot began may come twice"
    );
    View::open(settings, &at.window(), None).await
}

/// The server's clock, which wrote the events' dates more likely than ours.
async fn now(session: &Session) -> Result<String, Error> {
    let sql =
        "SELECT to_char(clock_timestamp() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI:SS.US\"Z\"')";
    match session.row(sql, &[]).await? {
        Some(row) => cell(&row, 0),
        None => Err(Error::transient("the server does not tell the time")),
    }
}

/// About how many events there are, if that can be known without reading them all.
async fn expected(session: &Session, settings: &Settings) -> Result<Option<u64>, Error> {
    let counted = setup::count(session, settings, COUNT).await?;
    if counted < COUNT {
        return Ok(Some(counted));
    }
    let estimate = facts::estimate(session, settings).await?;
    Ok(estimate.filter(|estimate| *estimate >= COUNT))
}

impl Source for Existing {
    type Position = Snapshot;
    type Error = Error;

    fn identity(&self) -> serde_json::Value {
        serde_json::to_value(&self.identity).unwrap_or_default()
    }

    async fn next(&mut self) -> Result<Item<Snapshot>, Error> {
        if is_lost(&self.lost) {
            return Err(lock_lost());
        }
        if let Some(mark) = self.course.mark() {
            return Ok(mark);
        }
        let next = tokio::select! {
            biased;
            error = until_lost(Some(&mut self.lost), Some(&mut self.watch)) => return Err(error),
            next = self.view.next() => next?,
        };
        Ok(self.course.item(next))
    }

    async fn lost(&mut self) -> Error {
        until_lost(Some(&mut self.lost), Some(&mut self.watch)).await
    }

    fn enter(position: &Snapshot, record: &mut Record) {
        record.snapshot = Some(position.clone());
    }

    /// Whatever was remembered of the snapshot, the record has had its place in the log since it began.
    async fn confirm(&mut self, _: Snapshot) -> Result<(), Error> {
        if !self.told {
            move_slot(&self.session, &self.settings, self.position).await?;
            self.told = true;
        }
        Ok(())
    }

    async fn close(self) {}
}
