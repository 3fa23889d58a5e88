//! Tries the row that stopped the last run, so that a start which would end at it again publishes nothing before it.
//!
//! Rule: nothing is sent, confirmed, counted or kept. A trial that ends too early costs doubles, never an event.

use std::time::Duration;

use headwater_core::message::Message;
use headwater_core::positions::{Blocked, FORMAT, Positions, Record};
use headwater_core::row::Row;
use headwater_core::source::{Item, Origin, Source};
use serde::Deserialize;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use super::ended::{Ended, Failed, NotAnOutbox, lost};
use super::prepare::{Outcome, Preparer};
use crate::clock;

/// No row for so long: the row is gone, and none may ever come.
const PATIENCE: Duration = Duration::from_mins(5);
/// The same, once the log has said that it is past the position. Other marks than the last time can come before the row,
/// but not for long: the log could go on without a pause from there to the row.
const PAST: Duration = Duration::from_secs(30);
/// How long a record of a row that cannot be published is waited for.
const WRITING: Duration = Duration::from_secs(10);

/// Opens the log where `record` says; if a row stopped the last run, only after that row was tried.
pub async fn open<O: Origin>(
    origin: &mut O,
    preparer: &mut Preparer,
    record: &Record,
) -> Result<O::Source, Ended> {
    let mut source = origin.open(record).await.map_err(lost)?;
    let Some(blocked) = &record.blocked else {
        return Ok(source);
    };
    let (id, since) = (&*blocked.id, &*blocked.since);
    info!(id, since, "trying the row that stopped the last run first");
    let tried = Trial::new(preparer, record, blocked)
        .read(&mut source)
        .await;
    if let Ok(_) | Err(Ended::Failed(_)) = &tried {
        // One reader at a time: the next one, here or after a restart, finds the log free.
        source.close().await;
    }
    match tried? {
        Found::Mended => info!(id, "the row that stopped the last run can be published now"),
        Found::Gone => warn!(
            id,
            "the row that stopped the last run does not come any more: going on without it"
        ),
    }
    origin.open(record).await.map_err(lost)
}

/// Writes into the record which row ended the run. Without it the next start publishes again what lies before the row in its
/// transaction, so a failure to write is told and no more.
pub async fn remember<R: Positions>(positions: &mut R, record: &mut Record, failed: &Failed) {
    let now = clock::now().to_string();
    let before = record.blocked.take();
    let since = match &before {
        Some(before) if before.id == failed.id => before.since.clone(),
        _ => now.clone(),
    };
    let blocked = failed.blocked(since);
    let known = before.as_ref() == Some(&blocked);
    record.blocked = Some(blocked);
    record.format = FORMAT;
    record.written_at = now;
    record.headwater = env!("CARGO_PKG_VERSION").into();
    if known {
        return;
    }
    let written = async {
        positions.write(record)?;
        positions.written().await
    };
    let trouble = match timeout(WRITING, written).await {
        Ok(Ok(())) => return,
        Ok(Err(trouble)) => trouble.to_string(),
        Err(_) => "no answer in time".into(),
    };
    warn!(
        trouble,
        "the row that stopped the run could not be remembered: what lies before it may come again"
    );
}

/// What a trial came to, if no row failed.
#[derive(Debug, PartialEq, Eq)]
enum Found {
    Mended,
    Gone,
}

struct Trial<'a, P> {
    preparer: &'a mut Preparer,
    blocked: &'a Blocked,
    /// The record's: all that lies before it was published already, but a slot can stand further back.
    position: Option<P>,
    last_mark: String,
    /// Rows were read after the last mark.
    inside: bool,
    deadline: Instant,
    messages: Vec<Message>,
}

impl<'a, P> Trial<'a, P>
where
    P: PartialOrd + std::fmt::Display + for<'de> Deserialize<'de>,
{
    fn new(preparer: &'a mut Preparer, record: &Record, blocked: &'a Blocked) -> Self {
        Trial {
            preparer,
            blocked,
            position: P::deserialize(&record.position).ok(),
            last_mark: blocked.after.clone(),
            inside: false,
            deadline: Instant::now() + PATIENCE,
            messages: Vec::new(),
        }
    }

    async fn read<S: Source<Position = P>>(mut self, source: &mut S) -> Result<Found, Ended> {
        loop {
            let Ok(item) = timeout_at(self.deadline, source.next()).await else {
                return Ok(Found::Gone);
            };
            let found = match item.map_err(lost)? {
                Item::Row(row) => self.row(&row)?,
                Item::Mark(position) => self.mark(&position),
                // There is nothing to confirm; and a server that is being stopped ends the lock's session first.
                Item::Hurry => None,
            };
            if let Some(found) = found {
                return Ok(found);
            }
        }
    }

    fn row(&mut self, row: &Row) -> Result<Option<Found>, Ended> {
        self.inside = true;
        self.deadline = Instant::now() + PATIENCE;
        self.messages.clear();
        match self.preparer.prepare(row, &mut self.messages) {
            Ok(Outcome::Publish { .. }) => {
                let is_it = |message: &Message| *message.id == *self.blocked.id;
                Ok(self.messages.iter().any(is_it).then_some(Found::Mended))
            }
            Ok(Outcome::Skip(_)) => Ok(None),
            Ok(Outcome::Fail { id, failure }) => {
                let after = if id == self.blocked.id {
                    &self.blocked.after
                } else {
                    &self.last_mark
                };
                Err(Ended::Failed(Failed {
                    id,
                    after: after.clone(),
                    failure,
                }))
            }
            Err(missing) => Err(lost(NotAnOutbox(missing))),
        }
    }

    /// The row's transaction was the first one with rows after the position: if one has ended, the row was not in it.
    fn mark(&mut self, mark: &P) -> Option<Found> {
        let inside = std::mem::take(&mut self.inside);
        self.last_mark = mark.to_string();
        if self
            .position
            .as_ref()
            .is_some_and(|position| mark <= position)
        {
            return None;
        }
        if inside {
            return Some(Found::Gone);
        }
        self.deadline = self.deadline.min(Instant::now() + PAST);
        None
    }
}
