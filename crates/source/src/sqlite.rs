//! The outbox of a SQLite file. SQLite has no log to read, so the table itself is followed by its AUTOINCREMENT number.
//!
//! Rule: the order of the numbers is the order of the commits. SQLite has one writer at a time, which takes its numbers and
//! commits before the next writer takes any; and a number above every number ever committed is all that AUTOINCREMENT gives
//! out (`sqlite_sequence` is rolled back together with its transaction, so a number is taken again only if nobody ever saw
//! it). A row behind a number that was read can therefore not appear later, unless the application chose its number itself.
//! Never: see an UPDATE or a DELETE. A row that is deleted before it was read is passed over (with a warning about its
//! missing number). Nothing is ever written to the file.

mod file;
mod lock;
mod order;
mod position;
mod rows;
pub mod setup;
mod snapshot;
mod stream;
mod value;
mod view;

use std::fs::File;
use std::path::PathBuf;

use headwater_core::positions::Record;
use headwater_core::row::Row;
use headwater_core::source::{Item, Origin, Source};

use crate::Error;
use stream::Stream;

pub use position::{Identity, Position};
pub use snapshot::Existing;
pub(crate) use view::View;
pub use view::{part, which};

/// A text as an SQL literal.
fn literal(text: &str) -> String {
    format!("'{}'", text.replace('\'', "''"))
}

/// Which table of which file to follow, and for which pipeline.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The pipeline's name; it names the lock.
    pub name: String,
    pub path: PathBuf,
    pub table: String,
}

/// A SQLite file whose outbox can be followed.
#[derive(Debug)]
pub struct Sqlite {
    settings: Settings,
    lock: Option<File>,
}

impl Sqlite {
    pub fn new(settings: Settings) -> Sqlite {
        Sqlite {
            settings,
            lock: None,
        }
    }

    /// Which log this is, as a position record remembers it.
    pub fn identity(&self) -> serde_json::Value {
        Identity::of(&self.settings).to_json()
    }
}

impl Origin for Sqlite {
    type Source = Tail;
    type Snapshot = Existing;

    async fn lock(&mut self) -> Result<(), Error> {
        let path = lock::path(&self.settings)?;
        if let Some(held) = &self.lock
            && lock::is_at(held, &path)
        {
            return Ok(());
        }
        self.lock = None;
        self.lock = Some(lock::take(&path).await?);
        Ok(())
    }

    async fn open(&mut self, record: &Record) -> Result<Tail, Error> {
        let identity = Identity::of(&self.settings);
        let position = position::resume(record, &identity)?;
        Ok(Tail {
            identity,
            stream: Stream::open(self.settings.clone(), position).await?,
            rows: Vec::new().into_iter(),
            mark: None,
        })
    }

    async fn snapshot(&mut self, record: &mut Record) -> Result<Existing, Error> {
        Existing::open(&self.settings, record).await
    }
}

/// The end of the table, as it grows.
#[derive(Debug)]
pub struct Tail {
    identity: Identity,
    stream: Stream,
    /// What is left of the batch that was received last; its mark comes after its rows.
    rows: std::vec::IntoIter<Row>,
    mark: Option<Position>,
}

impl Source for Tail {
    type Position = Position;
    type Error = Error;

    fn identity(&self) -> serde_json::Value {
        self.identity.to_json()
    }

    async fn next(&mut self) -> Result<Item<Position>, Error> {
        loop {
            if let Some(row) = self.rows.next() {
                return Ok(Item::Row(row));
            }
            if let Some(position) = self.mark.take() {
                return Ok(Item::Mark(position));
            }
            // The only place to wait, and what it returns is kept before anything else can happen: cancel-safe.
            let batch = self.stream.next().await?;
            self.rows = batch.rows.into_iter();
            self.mark = Some(batch.end);
        }
    }

    /// A file keeps no log for its readers, so there is nobody to tell.
    async fn confirm(&mut self, _position: Position) -> Result<(), Error> {
        Ok(())
    }

    async fn close(self) {
        self.stream.close().await;
    }
}

#[cfg(test)]
mod tests;
