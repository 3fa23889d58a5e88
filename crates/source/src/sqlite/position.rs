//! Where a table can be resumed, and which table that is.

use std::fmt;

use headwater_core::positions::Record;
use headwater_core::row::Value;
use serde::{Deserialize, Serialize};

use super::Settings;
use super::file::canonical;
use crate::Error;

/// The number of the last row that was handed over.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Serialize, Deserialize)]
pub struct Position {
    pub seq: i64,
    /// The id of that row: when another row has the number, this is another table. `None` if there was no such row (the
    /// table was empty, or the row deleted already).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<String>,
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seq {}", self.seq)
    }
}

/// Which table of which file. A path is all that a copy of a file does not share with the original.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identity {
    pub database: Database,
    pub path: String,
    pub table: String,
}

/// So that a record of another kind of database is not taken for ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Database {
    Sqlite,
}

impl Identity {
    pub(super) fn of(settings: &Settings) -> Identity {
        let path = canonical(&settings.path)
            .or_else(|_| std::path::absolute(&settings.path))
            .unwrap_or_else(|_| settings.path.clone());
        Identity {
            database: Database::Sqlite,
            path: path.to_string_lossy().into_owned(),
            table: settings.table.clone(),
        }
    }

    pub fn to_json(&self) -> serde_json::Value {
        serde_json::json!(self)
    }
}

/// The position of a record, if the record is about this table.
pub(super) fn resume(record: &Record, ours: &Identity) -> Result<Position, Error> {
    let theirs = &record.source;
    if !Identity::deserialize(theirs).is_ok_and(|it| it == *ours) {
        return Err(Error::fatal(
            format!(
                "the position record belongs to another log: it is about {theirs}, and source.url and source.table say {}",
                ours.to_json()
            ),
            "correct them, give this pipeline another name, or, if it is the same table under a new path, take it over with headwater adopt",
        ));
    }
    Position::deserialize(&record.position).map_err(|error| {
        Error::fatal(
            format!(
                "the position {} in the position record cannot be read ({error})",
                record.position
            ),
            "use the version of Headwater that wrote it, or take the table over with headwater adopt",
        )
    })
}

/// The content of an id cell, as a position remembers it.
pub(super) fn remembered(id: &Value) -> Option<String> {
    match id {
        Value::Text(text) => Some(text.to_string()),
        Value::Int(number) => Some(number.to_string()),
        Value::Bytes(bytes) => Some(format!("{bytes:x}")),
        _ => None,
    }
}
