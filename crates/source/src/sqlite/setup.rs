//! A look at the file for `check`, `init` and `peek`; nothing is changed.

use std::sync::Arc;
use std::time::Duration;

use headwater_core::event::{Outbox, Role};
use headwater_core::positions::Record;
use headwater_core::row::{Change, Row, Table, Value};
use rusqlite::Connection;

use super::position::resume;
use super::rows::{Layout, quoted};
use super::stream::{Setback, connect, patiently};
use super::value::Declared;
use super::{Identity, Position, Settings};
use crate::keys::{self, Keys, Mend};
use crate::{Error, Finding};

/// How long a command waits for the writer's locks.
const PATIENCE: Duration = Duration::from_secs(10);

/// Everything that a run will need of the file.
pub async fn check(settings: &Settings, outbox: &Outbox, record: Option<&Record>) -> Vec<Finding> {
    let outbox = outbox.clone();
    let ours = Identity::of(settings);
    let remembered = record.map(|record| resume(record, &ours));
    let look = read(settings, move |connection, settings| {
        let mode: String =
            connection.query_row("PRAGMA main.journal_mode", [], |row| row.get(0))?;
        let layout = Layout::read(connection, &settings.table)?;
        let mut findings = vec![journal(&mode), table(&layout)];
        findings.extend(keys(connection, &layout)?);
        findings.extend(roles(&layout, &outbox));
        match &remembered {
            None => {}
            Some(Err(error)) => findings.push(error.clone().into()),
            Some(Ok(position)) => findings.push(match layout.verify(connection, position) {
                Err(Setback::Told(error)) => error.into(),
                Err(setback) => return Err(setback),
                Ok(()) => Finding::ok(format!(
                    "the remembered position, {position}, can be resumed"
                )),
            }),
        }
        Ok(findings)
    });
    let path = settings.path.display();
    match look.await {
        Ok(findings) => {
            let mut all = vec![Finding::ok(format!("the SQLite file {path} can be read"))];
            all.extend(findings);
            all
        }
        Err(error) => vec![error.into()],
    }
}

/// The present end of the table, and which table that is: where a pipeline begins that leaves out what is there.
pub async fn start(settings: &Settings) -> Result<(Position, Identity), Error> {
    let position = read(settings, |connection, settings| {
        Layout::read(connection, &settings.table)?.end(connection)
    });
    Ok((position.await?, Identity::of(settings)))
}

/// The table's columns.
pub(super) async fn columns(settings: &Settings) -> Result<Vec<String>, Error> {
    read(settings, |connection, settings| {
        let layout = Layout::read(connection, &settings.table)?;
        Ok(layout.table.columns.clone())
    })
    .await
}

/// How many events the table holds already. Sentinels are none.
pub async fn count_events(settings: &Settings) -> Result<u64, Error> {
    let count = read(settings, |connection, settings| {
        let table = Layout::read(connection, &settings.table)?.table_name();
        let sql = format!("SELECT count(*) FROM {table} WHERE event_type IS NOT NULL");
        Ok(connection.query_row(&sql, [], |row| row.get::<_, i64>(0))?)
    });
    Ok(count.await?.unsigned_abs())
}

/// The last rows of the table, the oldest of them first.
pub async fn latest(settings: &Settings, limit: usize) -> Result<Vec<Row>, Error> {
    read(settings, move |connection, settings| {
        Layout::read(connection, &settings.table)?.latest(connection, limit)
    })
    .await
}

/// Hands over the last rows of the table one by one, the newest first; no more of them are in memory than a batch has.
pub async fn each_latest(
    settings: &Settings,
    limit: usize,
    mut each: impl FnMut(&Row),
) -> Result<(), Error> {
    let mut left = limit;
    let mut before = i64::MAX;
    loop {
        let page = read(settings, move |connection, settings| {
            Layout::read(connection, &settings.table)?.before(connection, before, left)
        });
        let (rows, first) = page.await?;
        rows.iter().for_each(&mut each);
        left = left.saturating_sub(rows.len());
        before = first;
        if left == 0 || rows.is_empty() {
            return Ok(());
        }
    }
}

/// The table's columns as they are today.
pub async fn definition(settings: &Settings) -> Result<Arc<Table>, Error> {
    let layout = read(settings, |connection, settings| {
        Layout::read(connection, &settings.table)
    });
    Ok(layout.await?.table)
}

/// Does `work` in one read transaction.
async fn read<T: Send + 'static>(
    settings: &Settings,
    work: impl Fn(&Connection, &Settings) -> Result<T, Setback> + Clone + Send + 'static,
) -> Result<T, Error> {
    let path = settings.path.clone();
    let settings = settings.clone();
    let attempt = move || {
        let mut connection = connect(&settings.path)?;
        let transaction = connection.transaction()?;
        work(&transaction, &settings)
    };
    let done = tokio::time::timeout(PATIENCE, patiently(&path, attempt)).await;
    done.unwrap_or_else(|_| {
        Err(Error::transient(format!(
            "the SQLite file {} is locked by its writer",
            path.display()
        )))
    })
}

fn journal(mode: &str) -> Finding {
    if mode == "wal" {
        Finding::ok("the journal mode is wal: reading and writing do not wait for each other")
    } else {
        Finding::warning(
            format!(
                "the journal mode is {mode}: reading and writing wait for each other, and a writer without a busy timeout can get SQLITE_BUSY"
            ),
            "PRAGMA journal_mode = WAL;",
        )
    }
}

fn table(layout: &Layout) -> Finding {
    let name = &layout.table.name;
    Finding::ok(format!("table {name} is numbered by AUTOINCREMENT"))
}

/// What it costs to read the table in the order of its dates.
fn keys(connection: &Connection, layout: &Layout) -> Result<Vec<Finding>, Setback> {
    let (date, id) = (Role::EventDate.name(), Role::Id.name());
    let has = |name: &str| layout.table.columns.iter().any(|column| column == name);
    if !has(date) || !has(id) {
        return Ok(Vec::new());
    }
    // Of the file: SQLite does not tell it of one table.
    let bytes: i64 = connection.query_row(
        "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
        [],
        |row| row.get(0),
    )?;
    let (mut unique, mut ordered) = (false, false);
    for columns in indexes(connection, &layout.table.name)? {
        let mut names = columns.names.iter().map(String::as_str);
        let mut of_the_id = columns.names.clone();
        of_the_id.sort_unstable();
        unique |= columns.unique && (of_the_id == [id] || of_the_id == [date, id]);
        ordered |= names.next() == Some(date) && names.next() == Some(id);
    }
    let keys = Keys {
        bytes: bytes.unsigned_abs(),
        // Of the number, or there would be no layout.
        primary: true,
        unique,
        ordered,
    };
    let name = &layout.table.name;
    let table = quoted(name);
    let mend = Mend {
        unique: Some(format!(
            "CREATE UNIQUE INDEX {} ON {table} ({id});",
            quoted(&format!("{name}_id"))
        )),
        ordered: format!(
            "CREATE INDEX {} ON {table} ({});",
            quoted(&format!("{name}_in_order")),
            keys::order()
        ),
    };
    Ok(keys.findings(name, mend))
}

/// An index of all rows, and its columns in their order.
struct Index {
    unique: bool,
    names: Vec<String>,
}

fn indexes(connection: &Connection, table: &str) -> Result<Vec<Index>, Setback> {
    let mut query = connection
        .prepare("SELECT name, \"unique\" FROM pragma_index_list(?1, 'main') WHERE NOT partial")?;
    let found: Vec<(String, bool)> = query
        .query_map([table], |row| Ok((row.get(0)?, row.get(1)?)))?
        .collect::<Result<_, _>>()?;
    let mut indexes = Vec::new();
    for (name, unique) in found {
        // A part that counts downwards is none of those that are meant, and one that is an expression has no name.
        let mut query = connection.prepare(
            "SELECT CASE WHEN \"desc\" THEN '' ELSE coalesce(name, '') END FROM pragma_index_xinfo(?1, 'main') WHERE key ORDER BY seqno",
        )?;
        let names = query.query_map([&name], |row| row.get(0))?;
        indexes.push(Index {
            unique,
            names: names.collect::<Result<_, _>>()?,
        });
    }
    Ok(indexes)
}

fn roles(layout: &Layout, outbox: &Outbox) -> Vec<Finding> {
    let roles = match outbox.bind(&layout.table) {
        Ok(roles) => roles,
        Err(missing) => {
            let what = format!(
                "table {} has no column {}",
                missing.table,
                missing.columns.join(", ")
            );
            let mend = "add the columns as in schemas/outbox/sqlite.sql, or name the right table in source.table";
            return vec![Finding::problem(what, mend)];
        }
    };
    // A row of the columns' places, so that a role tells which column plays it.
    let places = Row {
        table: Arc::clone(&layout.table),
        change: Change::Read,
        cells: (0..).take(layout.declared.len()).map(Value::Int).collect(),
    };
    let dates = [Role::StartedDate, Role::CompletionDate, Role::EventDate];
    let undated: Vec<&str> = dates
        .into_iter()
        .filter_map(|role| match roles.cell(&places, role) {
            Value::Int(place) => usize::try_from(*place).ok(),
            _ => None,
        })
        .filter(|place| layout.declared.get(*place) != Some(&Declared::Date))
        .filter_map(|place| layout.table.columns.get(place).map(String::as_str))
        .collect();
    if undated.is_empty() {
        vec![Finding::ok("all columns of an outbox are there")]
    } else {
        vec![Finding::problem(
            format!(
                "column {} is not declared TIMESTAMP or DATETIME: its values would not be taken for dates",
                undated.join(", ")
            ),
            "declare the columns as in schemas/outbox/sqlite.sql",
        )]
    }
}
