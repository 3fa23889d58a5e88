//! Where rows come from.

use std::fmt::Display;
use std::future::Future;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::positions::{Record, Snapshot};
use crate::row::Row;
use crate::trouble::Trouble;

/// One thing that a log has to say.
#[derive(Debug)]
pub enum Item<P> {
    Row(Row),
    /// Every row up to here has been handed over, and the log can be resumed here.
    Mark(P),
    /// The server waits for our confirmation before it can go on (it is shutting down): do not put it off.
    Hurry,
    /// All rows were handed over, and nothing will come after this. A log has no end; a snapshot has.
    End,
}

/// A log that is being read.
pub trait Source: Send {
    /// Greater is later in the log; of two that cannot be put in order (sets of GTIDs) neither is.
    type Position: Clone
        + Display
        + PartialOrd
        + Serialize
        + DeserializeOwned
        + Send
        + Sync
        + 'static;
    type Error: Trouble;

    /// Which log this is, as it goes into the position record; `Origin::open` compares it at the next start.
    fn identity(&self) -> serde_json::Value;

    /// Cancel-safe: dropping the future loses nothing.
    fn next(&mut self) -> impl Future<Output = Result<Item<Self::Position>, Self::Error>> + Send;

    /// Returns when the log is lost though nobody reads it: `next` is not asked while there is no room. Hands over
    /// nothing. Cancel-safe.
    fn lost(&mut self) -> impl Future<Output = Self::Error> + Send {
        std::future::pending()
    }

    /// Whether this may still turn out to be another log than the one that the position belongs to: what comes next will tell.
    fn is_doubtful(&self) -> bool {
        false
    }

    /// When the transaction of the last row was committed, in microseconds since 1970; none where the log does not tell.
    fn committed_at(&self) -> Option<i64> {
        None
    }

    /// What the database calls the transaction of the last row; none where the log does not tell.
    fn transaction(&self) -> Option<String> {
        None
    }

    /// Where the log ends, as far as its server told, in bytes; none where a log is not counted in bytes.
    fn end(&self) -> Option<u64> {
        None
    }

    /// A position, counted as the end is.
    fn place(_: &Self::Position) -> Option<u64> {
        None
    }

    /// Writes a position into the record that is to be remembered.
    fn enter(position: &Self::Position, record: &mut Record) {
        record.position = serde_json::to_value(position).unwrap_or_default();
    }

    /// Tells the database that everything up to `position` is done with. Only the ledger's word may come here.
    fn confirm(
        &mut self,
        position: Self::Position,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Ends the reading once what was confirmed has reached the server (waiting a few seconds at most).
    fn close(self) -> impl Future<Output = ()> + Send;
}

/// A database whose log can be opened, again and again.
pub trait Origin: Send {
    type Source: Source;
    /// The rows that were there before the log began; it is confirmed what was remembered of it, as a log is.
    type Snapshot: Source<Position = Snapshot, Error = <Self::Source as Source>::Error>;

    /// Waits until this pipeline is ours alone (others stand by meanwhile), or makes sure that it still is.
    fn lock(&mut self) -> impl Future<Output = Result<(), <Self::Source as Source>::Error>> + Send;

    /// Opens the log where `record` says, or refuses: a log that cannot serve that position any more, or is another log,
    /// is fatal. Never starts over or jumps ahead by itself.
    fn open(
        &mut self,
        record: &Record,
    ) -> impl Future<Output = Result<Self::Source, <Self::Source as Source>::Error>> + Send;

    /// Takes a view of the table, behind the row that was published last. The first view belongs to a place in the log: position,
    /// source and snapshot of `record` say so from then on, and `record` is remembered before a row is asked for. A log that can not
    /// be read from there any more is fatal, as it is for `open`.
    fn snapshot(
        &mut self,
        record: &mut Record,
    ) -> impl Future<Output = Result<Self::Snapshot, <Self::Source as Source>::Error>> + Send;
}
