//! Where a pipeline's position is remembered, and which of several records counts.

use std::cmp::Ordering;
use std::fmt;
use std::future::Future;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::trouble::Trouble;
use crate::window::{Key, Window};

/// The version of the record's own layout.
pub const FORMAT: u32 = 1;

/// A pipeline's position, as it is remembered.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Record {
    pub format: u32,
    pub name: String,
    /// Each start of the pipeline takes the next number.
    pub run: u64,
    /// Which log the position belongs to; only its source can read this.
    pub source: Value,
    /// Where that log is to be resumed; only its source can read this.
    pub position: Value,
    /// The `event_date` of the last event before the position, or when that was committed, if the date is ahead; ISO-8601.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub event_time: Option<String>,
    /// When the record was written, ISO-8601.
    pub written_at: String,
    /// The version of Headwater that wrote it.
    pub headwater: String,
    /// The row that ended the last run, if one did: the next start tries it before anything is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub blocked: Option<Blocked>,
    /// The rows that were there before the log began are still to be published, all or some of them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub snapshot: Option<Snapshot>,
}

/// How far the rows that were there before the log began have been published.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Snapshot {
    /// When its first view of the table was taken, ISO-8601; the record's position is that of this view. None: it has not begun.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub begun: Option<String>,
    /// How many views were taken. In any but the first, rows are seen that the log has too.
    pub views: u32,
    /// How many events were published.
    pub rows: u64,
    /// About how many there were, when it began.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expected: Option<u64>,
    /// The last row that was published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<Key>,
    /// The log was lost: only what is not on the topics is published.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub recovery: Option<Recovery>,
}

/// A snapshot in place of a log that was lost.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub struct Recovery {
    /// Events of this date or later, ISO-8601; all of them, if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
}

impl Snapshot {
    /// Which rows of the table are still to be looked at.
    pub fn window(&self) -> Window {
        let since = self.recovery.as_ref().and_then(|it| it.since.as_ref());
        Window {
            from: since.and_then(|since| since.parse().ok()),
            after: self.after.clone(),
            ..Window::default()
        }
    }
}

impl fmt::Display for Snapshot {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.after {
            None => f.write_str("no row of the table"),
            Some(after) => write!(f, "{} rows of the table, up to {after}", self.rows),
        }
    }
}

impl PartialOrd for Snapshot {
    fn partial_cmp(&self, other: &Snapshot) -> Option<Ordering> {
        match self.rows.cmp(&other.rows) {
            Ordering::Equal if self != other => None,
            order => Some(order),
        }
    }
}

/// A row that could not be published.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Blocked {
    pub id: String,
    /// The last position before its transaction, for people.
    pub after: String,
    /// The kind of failure.
    pub kind: String,
    pub detail: String,
    /// When it first ended a run, ISO-8601.
    pub since: String,
}

impl Record {
    /// False while `init` is making what the pipeline needs: it has not begun yet.
    pub fn has_position(&self) -> bool {
        !self.position.is_null()
    }

    /// A recovery was begun, and is not complete.
    pub fn is_recovering(&self) -> bool {
        let snapshot = self.snapshot.as_ref();
        snapshot.is_some_and(|it| it.recovery.is_some())
    }
}

/// Of two records, in the order in which they were written, the one that counts: a record of an older run was written by
/// an instance that had been replaced already, and never counts.
pub fn newest(before: Option<Record>, after: Record) -> Record {
    match before {
        Some(before) if before.run > after.run => before,
        _ => after,
    }
}

pub trait Positions: Send {
    type Error: Trouble;

    /// The record that counts, if there is one.
    fn read(&mut self) -> impl Future<Output = Result<Option<Record>, Self::Error>> + Send;

    /// Begins to write a record; never waits. One at a time: call again only after `written` said so.
    fn write(&mut self, record: &Record) -> Result<(), Self::Error>;

    /// Returns when the record under way is safe; waits for ever when there is none. Cancel-safe.
    fn written(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(run: u64, position: &str) -> Record {
        Record {
            format: FORMAT,
            name: "shop".into(),
            run,
            source: Value::Null,
            position: position.into(),
            event_time: None,
            written_at: String::new(),
            headwater: String::new(),
            blocked: None,
            snapshot: None,
        }
    }

    fn counts(written: &[Record]) -> Option<Record> {
        written
            .iter()
            .cloned()
            .fold(None, |before, after| Some(newest(before, after)))
    }

    #[test]
    fn a_record_without_a_blocked_row_does_not_speak_of_one() {
        let text = serde_json::to_string(&record(1, "a")).expect("serialises");
        assert!(!text.contains("blocked"), "{text}");
        let read: Record = serde_json::from_str(&text).expect("reads");
        assert_eq!(read, record(1, "a"));
    }

    #[test]
    fn a_blocked_row_is_read_as_it_was_written() {
        let blocked = Blocked {
            id: "7".into(),
            after: "a".into(),
            kind: "bad_payload".into(),
            detail: "column payload is null".into(),
            since: "2026-01-01T00:00:00Z".into(),
        };
        let written = Record {
            blocked: Some(blocked),
            ..record(1, "a")
        };
        let text = serde_json::to_string(&written).expect("serialises");
        let read: Record = serde_json::from_str(&text).expect("reads");
        assert_eq!(read, written);
    }

    #[test]
    fn the_last_record_of_the_newest_run_counts() {
        let written = [record(1, "a"), record(2, "b"), record(2, "c")];
        assert_eq!(counts(&written), Some(record(2, "c")));
    }

    #[test]
    fn a_record_written_late_by_an_older_run_never_counts() {
        let written = [record(1, "a"), record(2, "b"), record(1, "z")];
        assert_eq!(counts(&written), Some(record(2, "b")));
    }
}
