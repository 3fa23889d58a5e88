//! The table's events in the order of their dates, by one statement in one transaction: all of them as one moment saw them.
//!
//! COPY sends rows as fast as they are read, where a cursor would wait to be asked for each page; and in binary form, in which the log
//! has them too.
//! Rule: few rows are in memory at any time, and nothing is read twice, whoever drops a question.

use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{Stream, StreamExt, TryFutureExt};
use headwater_core::event::Role;
use headwater_core::row::{Change, Row, Table, Value};
use headwater_core::window::{Key, Window};
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::catalog::Catalog;
use super::copied::{Copied, Malformed};
use super::decode::Cell;
use super::facts::Facts;
use super::session::{Session, application, cell};
use super::value::{self, Kind};
use super::{Settings, ident, resume, verdict};
use crate::Error;
use crate::part::{NoPart, Part, one_of, uuid};

/// How many rows are asked for at once: more and more, as long as they are small together.
const FIRST_PAGE: usize = 8;
const LAST_PAGE: usize = 512;
const PAGE_BYTES: usize = 1 << 20;

/// The columns of the table as they are today, and a session that reads them.
pub(super) struct Shape {
    pub(super) session: Arc<Session>,
    pub(super) table: Arc<Table>,
    kinds: Vec<Kind>,
}

impl Shape {
    pub(super) async fn ask(session: Session, settings: &Settings) -> Result<Shape, Error> {
        let facts = Facts::read(&session, settings).await?;
        resume::fit_table(facts.table.as_ref(), settings)?;
        let catalog = Catalog::new(session, settings, &facts);
        let (columns, kinds) = catalog.columns().await?.into_iter().unzip();
        Ok(Shape {
            session: catalog.session,
            table: Arc::new(Table {
                schema: settings.schema.clone(),
                name: settings.table.clone(),
                columns,
            }),
            kinds,
        })
    }

    /// All columns, from the table.
    pub(super) fn select(&self) -> String {
        let names: Vec<String> = self.table.columns.iter().map(|name| ident(name)).collect();
        format!(
            "SELECT {} FROM {}.{}",
            names.join(", "),
            ident(&self.table.schema),
            ident(&self.table.name)
        )
    }

    pub(super) fn row(&self, row: &SimpleQueryRow) -> Result<Row, tokio_postgres::Error> {
        Ok(Row {
            table: Arc::clone(&self.table),
            change: Change::Read,
            cells: cells(row, &self.kinds)?,
        })
    }
}

/// The rows of an answer.
pub(super) fn rows(answer: Vec<SimpleQueryMessage>) -> impl Iterator<Item = SimpleQueryRow> {
    answer.into_iter().filter_map(|message| match message {
        SimpleQueryMessage::Row(row) => Some(row),
        _ => None,
    })
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

/// How many bytes a row holds, about.
pub(super) fn weight(row: &Row) -> usize {
    let of = |cell: &Value| match cell {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    row.cells.iter().map(of).sum()
}

/// How many rows are asked for next.
#[derive(Debug, Clone, Copy)]
pub(super) struct Page(pub usize);

impl Page {
    pub(super) fn first() -> Page {
        Page(FIRST_PAGE)
    }

    /// After a page of so many bytes.
    pub(super) fn next(self, bytes: usize) -> Page {
        if bytes < PAGE_BYTES {
            Page((2 * self.0).min(LAST_PAGE))
        } else {
            Page(1.max(self.0 / 2))
        }
    }
}

type Copying = Pin<Box<dyn Stream<Item = Result<Bytes, tokio_postgres::Error>> + Send>>;

/// Which database this is. Its standbys and backups are the same one.
pub async fn which(settings: &Settings) -> Result<String, Error> {
    let session = Session::open(settings).await?;
    let ask = "SELECT system_identifier::text FROM pg_control_system()";
    let Some(row) = session.row(ask, &[]).await? else {
        return Err(Error::transient("the server does not say which it is"));
    };
    let system: String = cell(&row, 0)?;
    Ok(format!(
        "database {} of the server with system identifier {system}",
        settings.database
    ))
}

/// A part of the table, of today.
pub async fn part(settings: &Settings, window: &Window) -> Result<Part, NoPart> {
    if !window.equal.is_empty() {
        let shape = Shape::ask(Session::open(settings).await?, settings).await?;
        NoPart::unless_there(&shape.table.columns, window)?;
    }
    let view = View::open(settings, window, None).await?;
    Ok(Part::postgres(view))
}

/// A part of the table, as one moment saw it.
pub(crate) struct View {
    shape: Shape,
    settings: Settings,
    /// Begins when the first row is asked for, and says nothing before the server has sorted them all.
    copying: Copying,
    copied: Copied,
    over: bool,
}

impl Drop for View {
    /// Nobody wants the rest, and the session would still read all of it before it ends.
    fn drop(&mut self) {
        if !self.over {
            self.shape.session.break_off();
        }
    }
}

impl View {
    /// With `exported`, what the snapshot of that name sees; else what is committed now.
    pub(super) async fn open(
        settings: &Settings,
        window: &Window,
        exported: Option<&str>,
    ) -> Result<View, Error> {
        // Sorting a large table takes its time. While Kafka is away nothing is read, and the server must wait with its next row.
        let patient = [
            ("statement_timeout", "0"),
            ("lock_timeout", "60s"),
            ("tcp_user_timeout", "0"),
        ];
        let session = Session::open_as(settings, &application(settings), &patient).await?;
        let settings = session.settings().clone();
        let failed = |error| verdict::of_sql(&error, &settings);
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        session.batch_execute(begin).await.map_err(failed)?;
        if let Some(name) = exported {
            let set = format!("SET TRANSACTION SNAPSHOT {}", literal(name));
            session.batch_execute(&set).await.map_err(failed)?;
        }
        // From here on nobody can change the table's form, or put another file in its place.
        let lock = format!(
            "LOCK TABLE {}.{} IN ACCESS SHARE MODE",
            ident(&settings.schema),
            ident(&settings.table)
        );
        session.batch_execute(&lock).await.map_err(failed)?;
        if exported.is_some() {
            same_file(&session, &settings).await?;
        }
        let shape = Shape::ask(session, &settings).await?;
        let copy = format!("COPY ({}) TO STDOUT (FORMAT binary)", query(&shape, window));
        let session = Arc::clone(&shape.session);
        let copying = async move { session.copy_out(&copy).await };
        Ok(View {
            shape,
            settings,
            copying: Box::pin(copying.try_flatten_stream()),
            copied: Copied::default(),
            over: false,
        })
    }

    /// The next row, or none after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(Row, Key)>, Error> {
        while !self.over {
            let Some(message) = self.copying.next().await else {
                self.over = true;
                break;
            };
            let message = message.map_err(|e| verdict::of_sql(&e, &self.settings))?;
            if let Some(next) = self.take(message).map_err(strange)? {
                return Ok(Some(next));
            }
        }
        Ok(None)
    }

    fn take(&mut self, message: Bytes) -> Result<Option<(Row, Key)>, Malformed> {
        let Some(mut copied) = self.copied.row(message)? else {
            return Ok(None);
        };
        let mut cells = Vec::with_capacity(self.shape.kinds.len());
        for kind in &self.shape.kinds {
            cells.push(match copied.next()? {
                None => Value::Null,
                Some(bytes) if is_asked_for_as_text(kind) => value::read(kind, Cell::Text(bytes)),
                Some(bytes) => value::read(kind, Cell::Binary(bytes)),
            });
        }
        let mut text = || {
            let bytes = copied.next()?;
            let text = bytes.map(|bytes| String::from_utf8(bytes.into()));
            text.transpose().map_err(|_| Malformed)
        };
        let key = Key {
            event_date: text()?,
            id: text()?,
        };
        let row = Row {
            table: Arc::clone(&self.shape.table),
            change: Change::Read,
            cells,
        };
        Ok(Some((row, key)))
    }
}

/// A table that was rewritten (TRUNCATE, many an ALTER TABLE) looks empty to a snapshot that is older than that. A query on the catalog is answered as
/// of the snapshot, and the function as of now.
async fn same_file(session: &Session, settings: &Settings) -> Result<(), Error> {
    let sql = "SELECT EXISTS (
                 SELECT FROM pg_class c
                  WHERE c.relfilenode <> pg_relation_filenode(c.oid)
                    AND (c.oid = $1::text::regclass
                         OR c.oid IN (SELECT relid FROM pg_partition_tree($1::text::regclass))))";
    let table = format!("{}.{}", ident(&settings.schema), ident(&settings.table));
    let row = session.row(sql, &[&table]).await?;
    match row.map(|row| cell(&row, 0)).transpose()? {
        Some(false) => Ok(()),
        _ => Err(Error::transient(
            "the table was rewritten (TRUNCATE, ALTER TABLE) while the snapshot began",
        )),
    }
}

fn strange(_: Malformed) -> Error {
    Error::transient("the server answered strangely")
}

/// Not every type has a binary form, and of few it is known.
fn is_asked_for_as_text(kind: &Kind) -> bool {
    matches!(kind, Kind::Other(_))
}

/// A row without a date is no event that could be published, but it is not passed over either: it comes last.
fn query(shape: &Shape, window: &Window) -> String {
    let date = ident(Role::EventDate.name());
    let id = ident(Role::Id.name());
    let mut wanted = vec![format!("{} IS NOT NULL", ident(Role::EventType.name()))];
    if let Some(from) = window.from {
        wanted.push(format!("{date} >= '{from}'"));
    }
    if let Some(to) = window.to {
        wanted.push(format!("{date} < '{to}'"));
    }
    wanted.extend(window.after.as_ref().map(|key| behind(key, &date, &id)));
    for (column, value) in &window.equal {
        wanted.push(format!("{}::text = {}", ident(column), literal(value)));
    }
    if !window.ids.is_empty() {
        wanted.push(one_of_the_ids(shape, &window.ids));
    }
    let columns = shape.table.columns.iter().zip(&shape.kinds);
    let columns = columns.map(|(name, kind)| {
        let cast = if is_asked_for_as_text(kind) {
            "::text"
        } else {
            ""
        };
        format!("t.{}{cast}", ident(name))
    });
    let columns: Vec<String> = columns.collect();
    format!(
        // A cast keeps its column's name, and an order by that name alone would be by the text.
        "SELECT {}, t.{date}::text, t.{id}::text FROM {}.{} AS t WHERE {} ORDER BY t.{date} NULLS LAST, t.{id}",
        columns.join(", "),
        ident(&shape.table.schema),
        ident(&shape.table.name),
        wanted.join(" AND ")
    )
}

/// Which rows stand behind this one: what is null stands last. Ids that are null have no order, so all of them may come again.
fn behind(key: &Key, date: &str, id: &str) -> String {
    let of_its_date = match &key.id {
        Some(last) => format!("({id} > {} OR {id} IS NULL)", literal(last)),
        None => format!("{id} IS NULL"),
    };
    match key.event_date.as_deref().map(literal) {
        Some(at) => {
            format!("({date} > {at} OR {date} = {at} AND {of_its_date} OR {date} IS NULL)")
        }
        None => format!("{date} IS NULL AND {of_its_date}"),
    }
}

/// In the column's own type, so that an index serves; an id that this type cannot have is no row's.
fn one_of_the_ids(shape: &Shape, ids: &[String]) -> String {
    let id = ident(Role::Id.name());
    let mut columns = shape.table.columns.iter().zip(&shape.kinds);
    let kind = columns.find(|(name, _)| *name == Role::Id.name());
    let literal = |text: &String| match kind.map(|(_, kind)| kind) {
        Some(Kind::Uuid) => uuid(text).map(|digits| literal(&digits)),
        Some(Kind::Bytea) => uuid(text).map(|digits| format!("'\\x{digits}'")),
        Some(Kind::Int) => text.parse::<i64>().ok().map(|number| number.to_string()),
        _ => Some(literal(text)),
    };
    one_of(&id, ids.iter().filter_map(literal))
}

/// A text as an SQL literal; every session takes a backslash for what it is.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
