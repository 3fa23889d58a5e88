//! The rows of a replay as a source with an end, in a pipeline that has no log.
//!
//! Rule: no lock is taken and no log is told anything: a running pipeline does not notice.

use headwater_core::positions::{Record, Snapshot};
use headwater_core::source::{Item, Origin, Source};
use headwater_source::{Course, Error, NoPart, Part};

use super::asked::Asked;
use super::pace::Pace;
use crate::parts::{self, Database};

/// The table that rows are published from again.
pub struct Again {
    pub database: Database,
    pub asked: Asked,
}

impl Origin for Again {
    type Source = Rows;
    type Snapshot = Rows;

    async fn lock(&mut self) -> Result<(), Error> {
        Ok(())
    }

    async fn open(&mut self, _: &Record) -> Result<Rows, Error> {
        unreachable!("a replay is nothing but rows of the table")
    }

    /// Behind the row that was published last.
    async fn snapshot(&mut self, record: &mut Record) -> Result<Rows, Error> {
        let mut at = record.snapshot.clone().unwrap_or_default();
        let window = self.asked.window(at.after.clone());
        let part = parts::part(&self.database, &window).await;
        let part = part.map_err(unreadable)?;
        at.views += 1;
        record.snapshot = Some(at.clone());
        Ok(Rows {
            part,
            course: Course::begin(at),
            pace: Pace::of(self.asked.rate),
            identity: record.source.clone(),
        })
    }
}

/// A column that was there when the replay was asked for is gone.
pub fn unreadable(why: NoPart) -> Error {
    match why {
        NoPart::Source(error) => error,
        gone @ NoPart::NoColumn { .. } => {
            Error::fatal(gone.to_string(), "begin a new replay without it")
        }
    }
}

pub struct Rows {
    part: Part,
    course: Course,
    pace: Pace,
    identity: serde_json::Value,
}

impl Source for Rows {
    type Position = Snapshot;
    type Error = Error;

    fn identity(&self) -> serde_json::Value {
        self.identity.clone()
    }

    async fn next(&mut self) -> Result<Item<Snapshot>, Error> {
        if let Some(mark) = self.course.mark() {
            return Ok(mark);
        }
        self.pace.wait().await;
        let next = self.part.next().await?;
        self.pace.passed();
        Ok(self.course.item(next))
    }

    fn enter(position: &Snapshot, record: &mut Record) {
        record.snapshot = Some(position.clone());
    }

    async fn confirm(&mut self, _: Snapshot) -> Result<(), Error> {
        Ok(())
    }

    async fn close(self) {}
}
