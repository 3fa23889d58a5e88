//! The rows of the table behind a number.
//!
//! In: a connection inside a read transaction, so that the definition, the check and the rows are of one moment.
//! Rule: rows are handed out only if the table still goes on from the position that was handed out before.

use std::sync::Arc;

use headwater_core::row::{Change, Row, Table, Value};
use rusqlite::{Connection, OptionalExtension};

use super::position::{Position, remembered};
use super::stream::Setback;
use super::value::{Declared, value};
use crate::Error;

/// At most this many rows at once; and no further row once there are this many bytes.
pub(super) const MAX_ROWS: usize = 512;
pub(super) const MAX_BYTES: usize = 1 << 20;

/// One definition of the table.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    pub table: Arc<Table>,
    pub declared: Vec<Declared>,
    /// The index of the AUTOINCREMENT column.
    number: usize,
    /// The index of the column that a position remembers.
    id: Option<usize>,
}

/// Rows in the order of their numbers.
#[derive(Debug)]
pub(super) struct Batch {
    pub rows: Vec<Row>,
    /// The last of them; where it began, if there are none.
    pub end: Position,
    /// There may be more.
    pub full: bool,
}

impl Layout {
    pub fn read(connection: &Connection, table: &str) -> Result<Layout, Setback> {
        let name = name_of(connection, table)?;
        let mut query = connection.prepare(
            // Hidden columns (1) belong to virtual tables; 2 and 3 are generated ones, which can be read like others.
            "SELECT name, type, pk FROM pragma_table_xinfo(?1, 'main') WHERE hidden <> 1 ORDER BY cid",
        )?;
        let columns: Vec<(String, String, i64)> = query
            .query_map([&name], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?
            .collect::<Result<_, _>>()?;
        let number = columns.iter().position(|(_, _, key)| *key == 1);
        let Some(number) = number.filter(|index| {
            columns
                .get(*index)
                .is_some_and(|(column, ..)| counts(connection, &name, column))
        }) else {
            return Err(Setback::Told(not_autoincrement(&name)));
        };
        Ok(Layout {
            number,
            id: columns.iter().position(|(column, ..)| column == "id"),
            declared: columns
                .iter()
                .map(|(_, declared, _)| Declared::as_type(declared))
                .collect(),
            table: Arc::new(Table {
                schema: "main".into(),
                name,
                columns: columns.into_iter().map(|(column, ..)| column).collect(),
            }),
        })
    }

    /// Keeps the `Table` of an earlier reading if its columns are the same.
    pub fn settle_on(mut self, before: Option<&Layout>) -> Layout {
        if let Some(before) = before.filter(|it| it.table == self.table) {
            self.table = Arc::clone(&before.table);
        }
        self
    }

    /// Refuses unless the table goes on from `position`.
    pub fn verify(&self, connection: &Connection, position: &Position) -> Result<(), Setback> {
        let table = &self.table.name;
        let last = self.last(connection)?;
        if last < position.seq {
            return Err(Setback::Told(another_table(format!(
                "the numbers of table {table} end at {last}, and the pipeline is at {position} already"
            ))));
        }
        let Some(id) = &position.id else {
            return Ok(());
        };
        // A deleted row is no reason to refuse: outboxes are pruned.
        let Some(cell) = self.id_at(connection, position.seq)? else {
            return Ok(());
        };
        let found = remembered(&cell);
        if found.as_ref() == Some(id) {
            return Ok(());
        }
        Err(Setback::Told(another_table(format!(
            "the row with {position} of table {table} has id {}, and the pipeline remembers id {id}",
            found.as_deref().unwrap_or("null"),
        ))))
    }

    /// Where the table ends: the largest number ever given out, whether or not its row is still there.
    pub fn end(&self, connection: &Connection) -> Result<Position, Setback> {
        let seq = self.last(connection)?;
        Ok(Position {
            seq,
            id: self.id_at(connection, seq)?.as_ref().and_then(remembered),
        })
    }

    fn last(&self, connection: &Connection) -> Result<i64, Setback> {
        let sql = format!(
            "SELECT max(coalesce((SELECT max({}) FROM {}), 0),
                        coalesce((SELECT max(seq) FROM main.sqlite_sequence WHERE name = ?1), 0))",
            self.number_column(),
            self.table_name()
        );
        Ok(connection.query_row(&sql, [&self.table.name], |row| row.get(0))?)
    }

    /// The id of a row, if there is such a row.
    fn id_at(&self, connection: &Connection, seq: i64) -> Result<Option<Value>, Setback> {
        let Some((id, declared)) = self
            .id
            .and_then(|index| Some((self.table.columns.get(index)?, *self.declared.get(index)?)))
        else {
            return Ok(None);
        };
        let sql = format!(
            "SELECT {} FROM {} WHERE {} = ?1",
            quoted(id),
            self.table_name(),
            self.number_column()
        );
        let found = connection.query_row(&sql, [seq], |row| Ok(value(row.get_ref(0)?, declared)));
        Ok(found.optional()?)
    }

    /// The rows after `after`, as many as a batch may have.
    pub fn batch(&self, connection: &Connection, after: &Position) -> Result<Batch, Setback> {
        let sql = format!(
            "SELECT {} FROM {} WHERE {number} > ?1 ORDER BY {number} LIMIT {MAX_ROWS}",
            self.columns(),
            self.table_name(),
            number = self.number_column()
        );
        let mut query = connection.prepare(&sql)?;
        let mut found = query.query([after.seq])?;
        let mut batch = Batch {
            rows: Vec::new(),
            end: after.clone(),
            full: false,
        };
        let mut bytes = 0;
        while let Some(found) = found.next()? {
            let row = self.row(found, Change::Insert)?;
            batch.end = Position {
                seq: found.get(self.number)?,
                id: self
                    .id
                    .and_then(|index| row.cells.get(index))
                    .and_then(remembered),
            };
            bytes += weight(&row);
            batch.rows.push(row);
            if batch.rows.len() >= MAX_ROWS || bytes >= MAX_BYTES {
                batch.full = true;
                break;
            }
        }
        Ok(batch)
    }

    /// The last rows of the table, the oldest of them first.
    pub fn latest(&self, connection: &Connection, limit: usize) -> Result<Vec<Row>, Setback> {
        let sql = format!(
            "SELECT {} FROM {} ORDER BY {} DESC LIMIT {limit}",
            self.columns(),
            self.table_name(),
            self.number_column()
        );
        let mut query = connection.prepare(&sql)?;
        let mut found = query.query([])?;
        let mut rows = Vec::new();
        while let Some(found) = found.next()? {
            rows.push(self.row(found, Change::Read)?);
        }
        rows.reverse();
        Ok(rows)
    }

    /// The rows before a number, the newest first: as many as a batch may have, and where they begin.
    pub fn before(
        &self,
        connection: &Connection,
        number: i64,
        limit: usize,
    ) -> Result<(Vec<Row>, i64), Setback> {
        let sql = format!(
            "SELECT {} FROM {} WHERE {number} < ?1 ORDER BY {number} DESC LIMIT {}",
            self.columns(),
            self.table_name(),
            limit.min(MAX_ROWS),
            number = self.number_column()
        );
        let mut query = connection.prepare(&sql)?;
        let mut found = query.query([number])?;
        let (mut rows, mut first, mut bytes) = (Vec::new(), number, 0);
        while let Some(found) = found.next()? {
            let row = self.row(found, Change::Read)?;
            first = found.get(self.number)?;
            bytes += weight(&row);
            rows.push(row);
            if bytes >= MAX_BYTES {
                break;
            }
        }
        Ok((rows, first))
    }

    pub fn row(&self, found: &rusqlite::Row<'_>, change: Change) -> Result<Row, Setback> {
        let cells = self.declared.iter().enumerate();
        Ok(Row {
            table: Arc::clone(&self.table),
            change,
            cells: cells
                .map(|(index, declared)| Ok(value(found.get_ref(index)?, *declared)))
                .collect::<Result<_, rusqlite::Error>>()?,
        })
    }

    pub fn columns(&self) -> String {
        let columns: Vec<String> = self.table.columns.iter().map(|it| quoted(it)).collect();
        columns.join(", ")
    }

    pub fn number_column(&self) -> String {
        let name = self.table.columns.get(self.number);
        name.map(|it| quoted(it)).unwrap_or_default()
    }

    pub fn table_name(&self) -> String {
        format!("main.{}", quoted(&self.table.name))
    }
}

/// The table's name as it was created; SQLite compares names without regard to case, and `sqlite_sequence` has this one.
fn name_of(connection: &Connection, table: &str) -> Result<String, Setback> {
    let found = connection.query_row(
        "SELECT name FROM main.sqlite_schema WHERE type = 'table' AND name = ?1 COLLATE NOCASE",
        [table],
        |row| row.get(0),
    );
    found.optional()?.ok_or_else(|| {
        Setback::Told(Error::fatal(
            format!("the SQLite file has no table {table}"),
            "create it with schemas/outbox/sqlite.sql, or name the right table in source.table",
        ))
    })
}

/// Whether SQLite counts this column up.
fn counts(connection: &Connection, table: &str, column: &str) -> bool {
    connection
        .column_metadata(Some("main"), table, column)
        .is_ok_and(|(_, _, _, _, autoincrement)| autoincrement)
}

fn not_autoincrement(table: &str) -> Error {
    Error::fatal(
        format!("table {table} has no column INTEGER PRIMARY KEY AUTOINCREMENT"),
        "without AUTOINCREMENT SQLite gives the numbers of deleted rows to new rows, which would then be passed over: \
         make the table anew as in schemas/outbox/sqlite.sql and copy its rows in the order of their commits",
    )
}

fn another_table(what: String) -> Error {
    Error::lost(
        what,
        "the file was restored from a copy, or the table was made anew, and new rows may have been given numbers that were \
         passed already; put the right file back, or let `headwater recover` publish what the table has and the topics do not; \
         `headwater adopt` goes on at the table's end without that",
    )
}

pub(super) fn weight(row: &Row) -> usize {
    let of = |cell: &Value| match cell {
        Value::Text(text) => text.len(),
        Value::Bytes(bytes) => bytes.len(),
        _ => 0,
    };
    row.cells.iter().map(|it| size_of::<Value>() + of(it)).sum()
}

pub(super) fn quoted(name: &str) -> String {
    format!("\"{}\"", name.replace('"', "\"\""))
}
