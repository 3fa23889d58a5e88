//! Tries the row that stopped the last run, so that a start which would end at it again publishes nothing before it.
//!
//! Rule: nothing is sent, confirmed, counted or kept. A trial that ends too early costs doubles, never an event.

use std::time::Duration;

use headwater_core::disposition::Skip;
use headwater_core::failure::{Failure, Policy};
use headwater_core::positions::{Blocked, FORMAT, Positions, Record};
use headwater_core::row::Row;
use headwater_core::source::{Item, Origin, Source};
use serde::Deserialize;
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{info, warn};

use super::ended::{Ended, Failed, NotAnOutbox, lost};
use super::prepare::{Outcome, Piece, Preparer};
use crate::clock;

/// No row for so long: the row is gone, and none may ever come.
const PATIENCE: Duration = Duration::from_mins(5);
/// The same, once the log has said that it is past the position. Other marks than the last time can come before the row,
/// but not for long: the log could go on without a pause from there to the row.
const PAST: Duration = Duration::from_secs(30);
/// How long a record of a row that cannot be published is waited for.
const WRITING: Duration = Duration::from_secs(10);

/// Reads the transaction of the row that stopped the last run, from where `record` says; fails as the row does.
pub async fn hold<O: Origin>(
    origin: &mut O,
    judge: (&mut Preparer, Policy),
    record: &Record,
    blocked: &Blocked,
) -> Result<(), Ended> {
    let (id, since) = (&*blocked.id, &*blocked.since);
    info!(id, since, "trying the row that stopped the last run first");
    let mut source = origin.open(record).await.map_err(lost)?;
    let trial = Trial::new(judge, record, blocked);
    let tried = trial.read(&mut source).await;
    if let Ok(_) | Err(Ended::Failed(_)) = &tried {
        // One reader at a time: the next one, here or after a restart, finds the log free.
        source.close().await;
    }
    match tried? {
        Found::Mended => info!(
            id,
            "the row that stopped the last run does not stop it any more"
        ),
        Found::Gone => warn!(
            id,
            "the row that stopped the last run does not come any more: going on without it"
        ),
    }
    Ok(())
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
    if before.as_ref() == Some(&blocked) {
        return;
    }
    record.blocked = Some(blocked);
    record.format = FORMAT;
    record.written_at = now;
    record.headwater = env!("CARGO_PKG_VERSION").into();
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
    /// What a dead letter is made of stops nothing.
    policy: Policy,
    blocked: &'a Blocked,
    /// The record's: all that lies before it was published already, but a slot can stand further back.
    position: Option<P>,
    last_mark: String,
    /// Rows were read after the last mark.
    inside: bool,
    /// The row came, and can be published.
    mended: bool,
    deadline: Instant,
    pieces: Vec<Piece>,
}

impl<'a, P> Trial<'a, P>
where
    P: PartialOrd + std::fmt::Display + for<'de> Deserialize<'de>,
{
    fn new(
        (preparer, policy): (&'a mut Preparer, Policy),
        record: &Record,
        blocked: &'a Blocked,
    ) -> Self {
        Trial {
            preparer,
            policy,
            blocked,
            position: P::deserialize(&record.position).ok(),
            last_mark: blocked.after.clone(),
            inside: false,
            mended: false,
            deadline: Instant::now() + PATIENCE,
            pieces: Vec::new(),
        }
    }

    async fn read<S: Source<Position = P>>(mut self, source: &mut S) -> Result<Found, Ended> {
        loop {
            let Ok(item) = timeout_at(self.deadline, source.next()).await else {
                return Ok(self.found());
            };
            match item.map_err(lost)? {
                Item::Row(row) => self.row(&row)?,
                Item::Mark(position) if self.is_over(&position) => return Ok(self.found()),
                // There is nothing to confirm; and a server that is being stopped ends the lock's session first.
                Item::Mark(_) | Item::Hurry => {}
                Item::End => return Ok(self.found()),
            }
        }
    }

    fn found(&self) -> Found {
        if self.mended {
            Found::Mended
        } else {
            Found::Gone
        }
    }

    /// Every row of the transaction is tried: another one may fail too, or have the same id.
    fn row(&mut self, row: &Row) -> Result<(), Ended> {
        self.inside = true;
        self.deadline = Instant::now() + PATIENCE;
        self.pieces.clear();
        let outcome = self.preparer.prepare_each(row, &mut self.pieces);
        match outcome.map_err(|missing| lost(NotAnOutbox(missing)))? {
            Outcome::Publish { .. } => {
                for piece in std::mem::take(&mut self.pieces) {
                    match piece {
                        Piece::Message(_, message) => self.is_fine(&message.id),
                        Piece::Failed(id, row) => self.failed(id, row.failure)?,
                    }
                }
                Ok(())
            }
            // A rule of the user's is a way past a row that cannot be published.
            Outcome::Filtered(_) | Outcome::Skip(Skip::Unrouted) => {
                let id = self.preparer.id_of(row);
                self.mended |= id.is_some_and(|id| id == self.blocked.id);
                Ok(())
            }
            Outcome::Skip(_) => Ok(()),
            Outcome::Fail { id, failure } => self.failed(id, failure),
        }
    }

    fn is_fine(&mut self, id: &str) {
        self.mended |= *id == *self.blocked.id;
    }

    fn failed(&mut self, id: String, failure: Failure) -> Result<(), Ended> {
        if self.policy.makes_letters(failure.kind) {
            self.is_fine(&id);
            return Ok(());
        }
        let after = if id == self.blocked.id {
            &self.blocked.after
        } else {
            &self.last_mark
        };
        Err(Ended::Failed(Failed {
            after: after.clone(),
            id,
            failure,
        }))
    }

    /// Whether the row's transaction has ended: it was the first one with rows after the position.
    fn is_over(&mut self, mark: &P) -> bool {
        let inside = std::mem::take(&mut self.inside);
        self.last_mark = mark.to_string();
        // A log that is held back says the position again behind each transaction: there the row itself must tell.
        if inside && self.mended {
            return true;
        }
        let position = self.position.as_ref();
        if position.is_some_and(|position| mark <= position) {
            return false;
        }
        self.deadline = self.deadline.min(Instant::now() + PAST);
        inside
    }
}
