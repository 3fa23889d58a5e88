//! The rows that were there before the pipeline began, as events: in the order of their dates, in one read transaction.
//!
//! Rule: the number of the last row of the first view is where the table is followed from afterwards, and no view hands over a row behind it,
//! so that none comes twice. While it is read, a file that is not in WAL mode cannot be written to.

use headwater_core::positions::{Record, Snapshot};
use headwater_core::source::{Item, Source};
use tracing::info;

use super::Settings;
use super::position::{Identity, resume};
use super::view::View;
use crate::Error;
use crate::course::Course;

/// The rows that were there before.
pub struct Existing {
    course: Course,
    view: View,
    identity: Identity,
}

impl Existing {
    pub(super) async fn open(settings: &Settings, record: &mut Record) -> Result<Existing, Error> {
        let identity = Identity::of(settings);
        let position = resume(record, &identity)?;
        let mut at = record.snapshot.clone().unwrap_or_default();
        let up_to = at.begun.is_some().then_some(position);
        let (view, begun) = View::open(settings, &at.window(), up_to).await?;
        if at.begun.is_none() {
            at.begun = Some(begun.at);
            at.expected = Some(begun.rows);
            info!(position = %begun.position, expected = at.expected, "publishing the rows that are there");
        }
        // A later view is a part of the first.
        at.views = 1;
        record.position = serde_json::to_value(&begun.position).unwrap_or_default();
        record.source = identity.to_json();
        record.snapshot = Some(at.clone());
        Ok(Existing {
            course: Course::begin(at),
            view,
            identity,
        })
    }
}

impl Source for Existing {
    type Position = Snapshot;
    type Error = Error;

    fn identity(&self) -> serde_json::Value {
        self.identity.to_json()
    }

    async fn next(&mut self) -> Result<Item<Snapshot>, Error> {
        if let Some(mark) = self.course.mark() {
            return Ok(mark);
        }
        Ok(self.course.item(self.view.next().await?))
    }

    fn enter(position: &Snapshot, record: &mut Record) {
        record.snapshot = Some(position.clone());
    }

    async fn confirm(&mut self, _: Snapshot) -> Result<(), Error> {
        Ok(())
    }

    async fn close(self) {}
}
