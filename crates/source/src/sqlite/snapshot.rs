//! The rows that were there before the pipeline began, as events: in the order of their dates, in one read transaction.
//!
//! Rule: the number of the last row of the first view is where the table is followed from afterwards, and no view hands over a row behind it,
//! so that none comes twice. While it is read, a file that is not in WAL mode cannot be written to.

use std::thread;

use headwater_core::event::Role;
use headwater_core::positions::{Record, Snapshot};
use headwater_core::row::{Change, Row};
use headwater_core::source::{Item, Source};
use headwater_core::window::Key;
use tokio::sync::{mpsc, oneshot};
use tracing::info;

use super::Settings;
use super::position::{Identity, Position, resume};
use super::rows::{Layout, MAX_BYTES, MAX_ROWS, quoted, weight};
use super::stream::{LAST_PAUSE, Setback, connect};
use crate::Error;
use crate::course::Course;

type Batch = Vec<(Row, Key)>;

/// The rows that were there before.
pub struct Existing {
    course: Course,
    batches: mpsc::Receiver<Result<Batch, Error>>,
    /// What is left of the batch that was received last.
    rows: std::vec::IntoIter<(Row, Key)>,
    identity: Identity,
}

/// Which rows: those up to a number (the last one, in the first view), behind the last that was published.
struct Part {
    settings: Settings,
    up_to: Option<Position>,
    after: Option<Key>,
}

impl Existing {
    pub(super) async fn open(settings: &Settings, record: &mut Record) -> Result<Existing, Error> {
        let identity = Identity::of(settings);
        let position = resume(record, &identity)?;
        let mut at = record.snapshot.clone().unwrap_or_default();
        let part = Part {
            settings: settings.clone(),
            up_to: at.begun.is_some().then_some(position),
            after: at.after.clone(),
        };
        let (sender, batches) = mpsc::channel(1);
        let (tell, begun) = oneshot::channel();
        thread::Builder::new()
            .name("sqlite snapshot".into())
            .spawn(move || read_all(&part, tell, &sender))
            .map_err(|error| Error::transient(format!("no thread could be started ({error})")))?;
        let begun = begun.await.unwrap_or_else(|_| Err(ended()))?;
        if at.begun.is_none() {
            at.begun = Some(begun.at);
            at.expected = Some(begun.rows);
            info!(position = %begun.position, expected = at.expected, "publishing the rows that are there");
        }
        // A later view is a part of the first.
        at.views = 1;
        record.position = serde_json::to_value(&begun.position).unwrap_or_default();
        record.source = identity.to_json();
        record.snapshot = Some(at.clone());
        Ok(Existing {
            course: Course::begin(at),
            batches,
            rows: Vec::new().into_iter(),
            identity,
        })
    }
}

fn ended() -> Error {
    Error::transient("the reader of the SQLite file has ended")
}

/// What the view found at its beginning.
struct Begun {
    position: Position,
    rows: u64,
    /// When that was, ISO-8601.
    at: String,
}

fn read_all(
    part: &Part,
    tell: oneshot::Sender<Result<Begun, Error>>,
    batches: &mpsc::Sender<Result<Batch, Error>>,
) {
    let mut tell = Some(tell);
    loop {
        match read(part, &mut tell, batches) {
            Ok(()) => return,
            // Before anything was seen the writer's locks are waited for; later there are none.
            Err(setback)
                if setback.is_lock() && tell.as_ref().is_some_and(|it| !it.is_closed()) =>
            {
                thread::sleep(LAST_PAUSE);
            }
            Err(setback) => {
                let error = setback.into_error(&part.settings.path);
                // If nobody listens any more, nobody has to know.
                match tell.take() {
                    Some(tell) => drop(tell.send(Err(error))),
                    None => drop(batches.blocking_send(Err(error))),
                }
                return;
            }
        }
    }
}

fn read(
    part: &Part,
    tell: &mut Option<oneshot::Sender<Result<Begun, Error>>>,
    batches: &mpsc::Sender<Result<Batch, Error>>,
) -> Result<(), Setback> {
    let mut connection = connect(&part.settings.path)?;
    let transaction = connection.transaction()?;
    let layout = Layout::read(&transaction, &part.settings.table)?;
    let position = match &part.up_to {
        Some(position) => {
            layout.verify(&transaction, position)?;
            position.clone()
        }
        None => layout.end(&transaction)?,
    };
    let wanted = wanted(&layout, &position, part.after.as_ref());
    let count = format!(
        "SELECT count(*), strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM {} WHERE {wanted}",
        layout.table_name()
    );
    let (rows, at): (i64, String) =
        transaction.query_row(&count, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    let begun = Begun {
        position,
        rows: rows.unsigned_abs(),
        at,
    };
    if let Some(tell) = tell.take() {
        let _ = tell.send(Ok(begun));
    }
    let (date, id) = (quoted(Role::EventDate.name()), quoted(Role::Id.name()));
    let sql = format!(
        "SELECT {}, quote({date}), quote({id}) FROM {} WHERE {wanted} ORDER BY {date}, {id}",
        layout.columns(),
        layout.table_name()
    );
    let mut query = transaction.prepare(&sql)?;
    let mut found = query.query([])?;
    let (mut batch, mut bytes) = (Batch::new(), 0);
    let columns = layout.declared.len();
    while let Some(found) = found.next()? {
        let row = layout.row(found, Change::Read)?;
        let key = Key {
            event_date: found.get(columns)?,
            id: found.get(columns + 1)?,
        };
        bytes += weight(&row);
        batch.push((row, key));
        if batch.len() >= MAX_ROWS || bytes >= MAX_BYTES {
            bytes = 0;
            if batches
                .blocking_send(Ok(std::mem::take(&mut batch)))
                .is_err()
            {
                return Ok(());
            }
        }
    }
    // The last one may be empty: it says that there is no more.
    for last in [batch, Batch::new()] {
        let _ = batches.blocking_send(Ok(last));
    }
    Ok(())
}

fn wanted(layout: &Layout, up_to: &Position, after: Option<&Key>) -> String {
    let (date, id) = (quoted(Role::EventDate.name()), quoted(Role::Id.name()));
    let behind = after.map(
        |Key {
             event_date,
             id: last,
         }| { format!(" AND ({date}, {id}) > ({event_date}, {last})") },
    );
    format!(
        "{} IS NOT NULL AND {} <= {}{}",
        quoted(Role::EventType.name()),
        layout.number_column(),
        up_to.seq,
        behind.unwrap_or_default()
    )
}

impl Source for Existing {
    type Position = Snapshot;
    type Error = Error;

    fn identity(&self) -> serde_json::Value {
        self.identity.to_json()
    }

    async fn next(&mut self) -> Result<Item<Snapshot>, Error> {
        if let Some(mark) = self.course.mark() {
            return Ok(mark);
        }
        if let Some(next) = self.rows.next() {
            return Ok(self.course.item(Some(next)));
        }
        // The only place to wait, and what it returns is kept before anything else can happen: cancel-safe.
        let batch = self.batches.recv().await.unwrap_or_else(|| Err(ended()))?;
        self.rows = batch.into_iter();
        Ok(self.course.item(self.rows.next()))
    }

    fn enter(position: &Snapshot, record: &mut Record) {
        record.snapshot = Some(position.clone());
    }

    async fn confirm(&mut self, _: Snapshot) -> Result<(), Error> {
        Ok(())
    }

    async fn close(self) {}
}
