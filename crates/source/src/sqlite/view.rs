//! The table's events in the order of their dates, in one read transaction: all of them as one moment saw them.
//!
//! Rule: few rows are in memory at any time. While it is read, a file that is not in WAL mode cannot be written to.

use std::thread;

use headwater_core::event::Role;
use headwater_core::row::{Change, Row, Value};
use headwater_core::window::{Key, Window};
use rusqlite::Connection;
use tokio::sync::{mpsc, oneshot};

use super::order::{self, Order};
use super::position::{Identity, Position};
use super::rows::{Layout, MAX_BYTES, MAX_ROWS, quoted, weight};
use super::setup;
use super::stream::{LAST_PAUSE, Setback, connect};
use super::{Settings, literal};
use crate::Error;
use crate::part::{NoPart, Part, one_of, uuid};

type Batch = Vec<(Row, Key)>;

/// Which database this is.
pub fn which(settings: &Settings) -> String {
    format!("file {}", Identity::of(settings).path)
}

/// A part of the table, of today.
pub async fn part(settings: &Settings, window: &Window) -> Result<Part, NoPart> {
    NoPart::unless_there(&setup::columns(settings).await?, window)?;
    let (view, _) = View::open(settings, window, None).await?;
    Ok(Part::sqlite(view))
}

/// A part of the table, as one moment saw it.
pub(crate) struct View {
    batches: mpsc::Receiver<Result<Batch, Error>>,
    /// What is left of the batch that was received last.
    rows: std::vec::IntoIter<(Row, Key)>,
}

/// What a view found at its beginning.
pub(super) struct Begun {
    /// No row behind it is handed over.
    pub position: Position,
    pub rows: u64,
    /// When that was, ISO-8601.
    pub at: String,
}

/// Which rows: those of a window, up to a number if there is one, else to the last that is there.
struct Wanted {
    settings: Settings,
    window: Window,
    up_to: Option<Position>,
}

impl View {
    pub(super) async fn open(
        settings: &Settings,
        window: &Window,
        up_to: Option<Position>,
    ) -> Result<(View, Begun), Error> {
        let wanted = Wanted {
            settings: settings.clone(),
            window: window.clone(),
            up_to,
        };
        let (sender, batches) = mpsc::channel(1);
        let (tell, begun) = oneshot::channel();
        thread::Builder::new()
            .name("sqlite view".into())
            .spawn(move || read_all(&wanted, tell, &sender))
            .map_err(|error| Error::transient(format!("no thread could be started ({error})")))?;
        let begun = begun.await.unwrap_or_else(|_| Err(ended()))?;
        let rows = Vec::new().into_iter();
        Ok((View { batches, rows }, begun))
    }

    /// The next row, or none after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(Row, Key)>, Error> {
        if let Some(next) = self.rows.next() {
            return Ok(Some(next));
        }
        // The only place to wait, and what it returns is kept before anything else can happen.
        let batch = self.batches.recv().await.unwrap_or_else(|| Err(ended()))?;
        self.rows = batch.into_iter();
        Ok(self.rows.next())
    }
}

fn ended() -> Error {
    Error::transient("the reader of the SQLite file has ended")
}

fn read_all(
    wanted: &Wanted,
    tell: oneshot::Sender<Result<Begun, Error>>,
    batches: &mpsc::Sender<Result<Batch, Error>>,
) {
    let mut tell = Some(tell);
    loop {
        match read(wanted, &mut tell, batches) {
            Ok(()) => return,
            // Before anything was seen the writer's locks are waited for; later there are none.
            Err(setback)
                if setback.is_lock() && tell.as_ref().is_some_and(|it| !it.is_closed()) =>
            {
                thread::sleep(LAST_PAUSE);
            }
            Err(setback) => {
                let error = setback.into_error(&wanted.settings.path);
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
    wanted: &Wanted,
    tell: &mut Option<oneshot::Sender<Result<Begun, Error>>>,
    batches: &mpsc::Sender<Result<Batch, Error>>,
) -> Result<(), Setback> {
    let mut connection = connect(&wanted.settings.path)?;
    order::teach(&connection)?;
    let transaction = connection.transaction()?;
    let layout = Layout::read(&transaction, &wanted.settings.table)?;
    let position = match &wanted.up_to {
        Some(position) => {
            layout.verify(&transaction, position)?;
            position.clone()
        }
        None => layout.end(&transaction)?,
    };
    let mut filter = filter(&layout, &position, &wanted.window);
    let after = wanted.window.after.as_ref();
    let order = Order::of(&transaction, (&layout, &filter), after)?;
    if let Some(after) = after {
        filter = format!("{filter} AND {}", order.behind(after));
    }
    let begun = begin(&transaction, &layout, position, &filter)?;
    if let Some(tell) = tell.take() {
        let _ = tell.send(Ok(begun));
    }
    let rows = (&layout, filter.as_str(), order);
    hand_over(&transaction, rows, &wanted.window, batches)
}

fn begin(
    connection: &Connection,
    layout: &Layout,
    position: Position,
    filter: &str,
) -> Result<Begun, Setback> {
    let count = format!(
        "SELECT count(*), strftime('%Y-%m-%dT%H:%M:%fZ', 'now') FROM {} WHERE {filter}",
        layout.table_name()
    );
    let (rows, at): (i64, String) =
        connection.query_row(&count, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
    Ok(Begun {
        position,
        rows: rows.unsigned_abs(),
        at,
    })
}

fn hand_over(
    connection: &Connection,
    (layout, filter, order): (&Layout, &str, Order),
    window: &Window,
    batches: &mpsc::Sender<Result<Batch, Error>>,
) -> Result<(), Setback> {
    let (date, id) = (quoted(Role::EventDate.name()), quoted(Role::Id.name()));
    let sql = format!(
        "SELECT {}, quote({date}), quote({id}) FROM {} WHERE {filter} ORDER BY {}",
        layout.columns(),
        layout.table_name(),
        order.columns()
    );
    let mut query = connection.prepare(&sql)?;
    let mut found = query.query([])?;
    let (mut batch, mut bytes) = (Batch::new(), 0);
    let columns = layout.declared.len();
    while let Some(found) = found.next()? {
        let row = layout.row(found, Change::Read)?;
        if !is_within(&row, window) {
            continue;
        }
        let key = Key {
            event_date: literal_of(found, columns)?,
            id: literal_of(found, columns + 1)?,
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

/// What `quote` made of a column; none of null.
fn literal_of(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<String>> {
    let literal: String = row.get(column)?;
    Ok(Some(literal).filter(|literal| literal != "NULL"))
}

/// By the date as it is read: applications write it in several forms, and SQLite compares their letters.
fn is_within(row: &Row, window: &Window) -> bool {
    if window.from.is_none() && window.to.is_none() {
        return true;
    }
    let columns = &row.table.columns;
    let place = columns.iter().position(|it| it == Role::EventDate.name());
    match place.and_then(|place| row.cells.get(place)) {
        Some(Value::Micros(date)) => window.has(*date),
        _ => false,
    }
}

/// Which rows, but for those that stand before the first.
fn filter(layout: &Layout, up_to: &Position, window: &Window) -> String {
    let mut wanted = vec![
        format!("{} IS NOT NULL", quoted(Role::EventType.name())),
        format!("{} <= {}", layout.number_column(), up_to.seq),
    ];
    for (column, value) in &window.equal {
        let column = quoted(column);
        wanted.push(format!("CAST({column} AS TEXT) = {}", literal(value)));
    }
    if !window.ids.is_empty() {
        // A uuid is a text or a blob, as the application likes.
        let blobs = window.ids.iter().filter_map(|id| uuid(id));
        let blobs = blobs.map(|digits| format!("X'{digits}'"));
        let literals = window.ids.iter().map(|id| literal(id)).chain(blobs);
        wanted.push(one_of(&quoted(Role::Id.name()), literals));
    }
    wanted.join(" AND ")
}
