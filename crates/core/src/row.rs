//! A changed row of any table, in no dialect.

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;

/// One definition of a table. A changed definition is a new `Table`, so that whoever resolved columns to indexes can tell
/// by the pointer that it has to do so again.
#[derive(Debug, PartialEq, Eq)]
pub struct Table {
    pub schema: String,
    pub name: String,
    pub columns: Vec<String>,
}

/// What happened to the row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    Insert,
    /// Found in the table by a snapshot.
    Read,
    Update,
    Delete,
    /// All rows of the table at once.
    Truncate,
}

/// A row as it came out of a database's log. Its cells share the bytes that were received.
#[derive(Debug, Clone)]
pub struct Row {
    pub table: Arc<Table>,
    pub change: Change,
    /// In the order of `table.columns`. Empty unless the change is an insert or a read: nobody looks at the others.
    pub cells: Vec<Value>,
}

/// The value of one cell.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    Null,
    /// The log did not carry it (PostgreSQL: an unchanged value stored out of line).
    Absent,
    Bool(bool),
    Int(i64),
    Text(ByteString),
    Uuid([u8; 16]),
    Bytes(Bytes),
    /// Microseconds since 1970-01-01T00:00:00Z, proleptic Gregorian.
    Micros(i64),
    /// It is there, but it has no meaning that a message could carry (`infinity`): the sentence says what it is.
    Unreadable(String),
}

impl Value {
    /// What kind of value this is, for a sentence about it.
    pub fn kind(&self) -> &'static str {
        match self {
            Value::Null => "null",
            Value::Absent => "absent",
            Value::Bool(_) => "a boolean",
            Value::Int(_) => "a number",
            Value::Text(_) => "text",
            Value::Uuid(_) => "a uuid",
            Value::Bytes(_) => "bytes",
            Value::Micros(_) => "a date and time",
            Value::Unreadable(_) => "unreadable",
        }
    }
}
