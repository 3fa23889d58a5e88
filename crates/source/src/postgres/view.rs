//! The table's events in the order of their dates, by one cursor in one transaction: all of them as one moment saw them.
//!
//! Rule: few rows are in memory at any time, and nothing is read twice, whoever drops a question.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::event::Role;
use headwater_core::row::{Change, Row, Table, Value};
use headwater_core::window::{Key, Window};
use tokio_postgres::{SimpleQueryMessage, SimpleQueryRow};

use super::catalog::Catalog;
use super::decode::Cell;
use super::facts::Facts;
use super::session::{Session, application};
use super::value::{self, Kind};
use super::{Settings, ident, resume, verdict};
use crate::Error;
use crate::part::{NoPart, Part};

/// How many rows are asked for at once: more and more, as long as they are small together.
const FIRST_PAGE: usize = 8;
const LAST_PAGE: usize = 512;
const PAGE_BYTES: usize = 1 << 20;

/// The columns of the table as they are today, and a session that reads them.
pub(super) struct Shape {
    pub(super) session: Arc<Session>,
    table: Arc<Table>,
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
    pub(super) fn select(&self, more: &str) -> String {
        let names: Vec<String> = self.table.columns.iter().map(|name| ident(name)).collect();
        format!(
            "SELECT {}{more} FROM {}.{}",
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

type Fetching =
    Pin<Box<dyn Future<Output = Result<Vec<SimpleQueryMessage>, tokio_postgres::Error>> + Send>>;

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
    page: Page,
    read: VecDeque<(Row, Key)>,
    /// A page under way. It is kept here, so that dropping a question loses no row.
    fetching: Option<Fetching>,
    over: bool,
}

impl View {
    /// With `exported`, what the snapshot of that name sees; else what is committed now.
    pub(super) async fn open(
        settings: &Settings,
        window: &Window,
        exported: Option<&str>,
    ) -> Result<View, Error> {
        // Sorting a large table takes its time, and so does Kafka while it is away.
        let patient = [("statement_timeout", "0"), ("lock_timeout", "60s")];
        let session = Session::open_as(settings, &application(settings), &patient).await?;
        let settings = session.settings().clone();
        let failed = |error| verdict::of_sql(&error, &settings);
        let begin = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY";
        session.batch_execute(begin).await.map_err(failed)?;
        if let Some(name) = exported {
            let set = format!("SET TRANSACTION SNAPSHOT {}", literal(name));
            session.batch_execute(&set).await.map_err(failed)?;
        }
        let shape = Shape::ask(session, &settings).await?;
        let declare = format!(
            "DECLARE headwater_view NO SCROLL CURSOR FOR {}",
            query(&shape, window)
        );
        let declared = shape.session.batch_execute(&declare).await;
        declared.map_err(failed)?;
        Ok(View {
            shape,
            settings,
            page: Page::first(),
            read: VecDeque::new(),
            fetching: None,
            over: false,
        })
    }

    /// The next row, or none after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(Row, Key)>, Error> {
        while self.read.is_empty() && !self.over {
            let (session, size) = (Arc::clone(&self.shape.session), self.page.0);
            let fetching = self.fetching.get_or_insert_with(|| {
                let fetch = format!("FETCH {size} FROM headwater_view");
                Box::pin(async move { session.simple_query(&fetch).await })
            });
            let answer = fetching.await;
            self.fetching = None;
            let answer = answer.map_err(|e| verdict::of_sql(&e, &self.settings))?;
            self.take(answer)
                .map_err(|e| verdict::of_sql(&e, &self.settings))?;
        }
        Ok(self.read.pop_front())
    }

    fn take(&mut self, answer: Vec<SimpleQueryMessage>) -> Result<(), tokio_postgres::Error> {
        let columns = self.shape.kinds.len();
        for row in rows(answer) {
            let text = |place| Ok(row.try_get(place)?.unwrap_or_default().to_owned());
            let key = Key {
                event_date: text(columns)?,
                id: text(columns + 1)?,
            };
            self.read.push_back((self.shape.row(&row)?, key));
        }
        self.over = self.read.len() < self.page.0;
        self.page = self
            .page
            .next(self.read.iter().map(|(row, _)| weight(row)).sum());
        Ok(())
    }
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
    if let Some(after) = &window.after {
        let (at, behind) = (literal(&after.event_date), literal(&after.id));
        wanted.push(format!(
            "(({date}, {id}) > ({at}, {behind}) OR {date} IS NULL)"
        ));
    }
    for (column, value) in &window.equal {
        wanted.push(format!("{}::text = {}", ident(column), literal(value)));
    }
    format!(
        "{} WHERE {} ORDER BY {date} NULLS LAST, {id}",
        // A cast keeps its column's name, and an order by that name would be ambiguous.
        shape.select(&format!(
            ", {date}::text AS \"the date\", {id}::text AS \"the id\""
        )),
        wanted.join(" AND ")
    )
}

/// A text as an SQL literal; every session takes a backslash for what it is.
pub(super) fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}
