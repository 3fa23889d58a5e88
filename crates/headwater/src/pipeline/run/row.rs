//! A row that was read becomes messages, or dead letters, that wait for room; or it ends the run.

use std::fmt;
use std::sync::Arc;

use headwater_core::disposition::Skip;
use headwater_core::failure::Failure;
use headwater_core::positions::Positions;
use headwater_core::row::Row;
use headwater_core::sink::Sink;
use headwater_core::source::Source;
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::{Run, begun};
use crate::pipeline::ended::{Ended, Failed, NotAnOutbox, lost};
use crate::pipeline::letters::{Seed, Subject, Unpublished};
use crate::pipeline::prepare::{Outcome, Piece};

impl<P, K, R> Run<'_, P, K, R>
where
    P: Clone + fmt::Display + PartialEq + Serialize + DeserializeOwned,
    K: Sink,
    R: Positions,
{
    pub(super) fn prepare<S: Source<Position = P>>(
        &mut self,
        row: Row,
        source: &S,
    ) -> Result<(), Ended> {
        self.tally.rows += 1;
        self.pieces.clear();
        let outcome = self.preparer.prepare_each(&row, &mut self.pieces);
        self.tell_notices();
        match outcome.map_err(|missing| lost(NotAnOutbox(missing)))? {
            Outcome::Skip(skip) => {
                self.tally.skipped[skip as usize] += 1;
                return Ok(());
            }
            Outcome::Filtered(rule) => {
                self.tally.skipped[Skip::Filtered as usize] += 1;
                self.tally.filtered[rule.index()] += 1;
                return Ok(());
            }
            Outcome::Publish { event_date } => {
                let letters = self.letters;
                self.pieces.retain(|piece| match piece {
                    Piece::Failed(id, row) => !letters.stands(id, row),
                    Piece::Message(..) => true,
                });
                if let Some((id, failure)) = self.stops() {
                    return Err(Ended::Failed(self.failed(id, failure)));
                }
                self.tally.again +=
                    u64::from(self.again_since.is_some_and(|since| event_date >= since));
                self.event_time = Some(self.known_by(event_date, source.committed_at()));
            }
            Outcome::Fail { id, failure } => {
                let row = Unpublished::before_routes(failure.clone());
                if self.letters.stands(&id, &row) {
                    return Ok(());
                }
                if !self.letters.policy.makes_letters(failure.kind) {
                    return Err(Ended::Failed(self.failed(id, failure)));
                }
                self.pieces.push(Piece::Failed(id, row));
            }
        }
        self.tally.events += 1;
        self.wait(row, source);
        Ok(())
    }

    /// A date that is ahead of its commit tells nothing of the events that were committed after it; of a snapshot's rows nothing is known
    /// but that they were there when it began.
    fn known_by(&self, event_date: i64, committed: Option<i64>) -> i64 {
        let known = committed.or_else(|| begun(&self.record));
        known.map_or(event_date, |known| known.min(event_date))
    }

    /// The first failure that no letter is to be made of.
    fn stops(&self) -> Option<(String, Failure)> {
        self.pieces.iter().find_map(|piece| match piece {
            Piece::Failed(id, row) if !self.letters.policy.makes_letters(row.failure.kind) => {
                Some((id.clone(), row.failure.clone()))
            }
            _ => None,
        })
    }

    /// What was made of the row waits for room.
    fn wait<S: Source<Position = P>>(&mut self, row: Row, source: &S) {
        let all_fine = self
            .pieces
            .iter()
            .all(|it| matches!(it, Piece::Message(..)));
        if all_fine && !self.letters.policy.needs_rows() {
            let messages = self.pieces.drain(..).filter_map(Piece::into_message);
            self.waiting.extend(messages.map(|message| (message, None)));
            return;
        }
        let Some(roles) = self.preparer.roles().cloned() else {
            unreachable!("the row was prepared by them")
        };
        let subject = Arc::new(Subject {
            row,
            roles,
            position: self.after(),
            transaction: source.transaction(),
        });
        let mut pieces = std::mem::take(&mut self.pieces);
        for piece in pieces.drain(..) {
            let (message, seed) = match piece {
                Piece::Message(route, message) => (message, Seed::new(&subject, route)),
                Piece::Failed(id, row) => {
                    let Failure { kind, detail } = &row.failure;
                    self.tally.failed[*kind as usize] += 1;
                    warn!(
                        id,
                        kind = kind.name(),
                        why = detail,
                        "a row becomes a dead letter"
                    );
                    self.letters.of_row(&subject, row)
                }
            };
            self.waiting.push_back((message, Some(seed)));
        }
        self.pieces = pieces;
    }

    fn tell_notices(&mut self) {
        for notice in self.preparer.notices() {
            warn!(notice, "a payload and its schema differ");
        }
        let dropped = self.preparer.unknown_members();
        self.tally.unknown_members += dropped - self.unknown_members;
        self.unknown_members = dropped;
    }

    pub(super) fn failed(&mut self, id: String, failure: Failure) -> Failed {
        self.tally.failed[failure.kind as usize] += 1;
        Failed {
            id,
            after: self.last_mark(),
            failure,
        }
    }

    fn after(&mut self) -> Arc<str> {
        if let Some(after) = &self.after {
            return Arc::clone(after);
        }
        let after: Arc<str> = self.last_mark().into();
        self.after = Some(Arc::clone(&after));
        after
    }

    /// For people, who rarely ask: a mark comes with every transaction.
    fn last_mark(&self) -> String {
        match &self.last_mark {
            Some(mark) => mark.position.to_string(),
            None => P::deserialize(&self.record.position).map_or_else(
                |_| self.record.position.to_string(),
                |position| position.to_string(),
            ),
        }
    }
}
