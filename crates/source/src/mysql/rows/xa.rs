//! XA: rows stand in the log at XA PREPARE, and are nobody's before XA COMMIT, which may come much later, or never.
//!
//! They are held until then, and marks stay before the oldest of them: a reading that begins anew must see it again. What
//! ended since that one was prepared is named in the mark, where its PREPARE lies before it. Those without rows of the
//! outbox hold nothing back; the position remembers their names, so that an XA COMMIT whose PREPARE was never seen can be
//! told: its rows are lost to this pipeline.
//!
//! What is too large is not held. When its end shows that it was committed, the log is read again from before it, and its
//! rows are handed over as they come.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::warn;

use super::super::position::Position;
use super::super::walk::Walk;
use super::{Out, Rows, Trouble, advice};
use crate::Error;

/// How many bytes of rows all prepared transactions may hold.
pub(super) const HELD: usize = 16 << 20;
/// And how many there may be, with rows or without.
const COUNT: usize = 1000;
/// Longer than any coordinator needs to decide.
const LONG: Duration = Duration::from_mins(1);

/// Prepared transactions with rows of the outbox, in the order of their PREPAREs.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    open: Vec<Open>,
    bytes: usize,
}

#[derive(Debug)]
struct Open {
    xid: String,
    rows: Vec<Walk>,
    /// Its name in the log, if its rows were too many.
    too_much: Option<String>,
    /// Where the log can be resumed so that it is seen again; none where too many names would have to be told.
    before: Option<Position>,
    since: Instant,
    is_told: bool,
}

impl Prepared {
    pub(super) fn is_empty(&self) -> bool {
        self.open.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// The furthest place where the log can be resumed, while one is open.
    pub(super) fn before_oldest(&self) -> Option<&Position> {
        self.open.first()?.before.as_ref()
    }

    fn add(&mut self, open: Open) {
        self.bytes = self.bytes.saturating_add(size(&open.rows));
        self.open.push(open);
    }

    /// One has ended, and its place among those that were open.
    fn take(&mut self, xid: &str) -> Option<(Open, usize)> {
        let place = self.open.iter().position(|open| open.xid == xid)?;
        let open = self.open.remove(place);
        self.bytes = self.bytes.saturating_sub(size(&open.rows));
        Some((open, place))
    }

    /// Its rows were handed over. A reading that begins before one that was prepared later never sees its PREPARE, but will
    /// see its XA COMMIT: to such a reading it is one without rows.
    fn name(&mut self, xid: &str, place: usize) {
        let mut names = 0;
        for later in self.open.iter_mut().skip(place) {
            let Some(before) = &mut later.before else {
                continue;
            };
            names += before.prepared.len();
            if names < COUNT {
                Arc::make_mut(&mut before.prepared).insert(xid.to_owned());
            } else {
                later.before = None;
            }
        }
    }

    /// Tells once of each that nobody seems to end.
    pub(super) fn look(&mut self) {
        if self.open.is_empty() {
            return;
        }
        let now = Instant::now();
        let old = |open: &&mut Open| !open.is_told && now.duration_since(open.since) > LONG;
        for open in self.open.iter_mut().filter(old) {
            open.is_told = true;
            warn!(
                xid = open.xid,
                seconds = now.duration_since(open.since).as_secs(),
                "an XA transaction with rows of the outbox is prepared, and neither committed nor rolled back: the position \
                 stays before it; look at XA RECOVER, and end it if nobody else will"
            );
        }
    }

    #[cfg(test)]
    pub(super) fn is_told(&self, xid: &str) -> bool {
        self.open.iter().any(|open| open.xid == xid && open.is_told)
    }
}

fn size(rows: &[Walk]) -> usize {
    rows.iter().map(Walk::size).sum()
}

impl Rows {
    pub(super) fn prepare(&mut self, xid: String) -> Result<(), Trouble> {
        let Some(mut transaction) = self.transaction.take() else {
            return Err(super::Malformed("an XA PREPARE outside of a transaction").into());
        };
        if transaction.is_swallowed() {
            self.end(&transaction);
            return Ok(());
        }
        if self.learned.is_committed(&transaction.name()) {
            self.transaction = Some(transaction);
            self.commit()?;
            Arc::make_mut(&mut self.position.prepared).insert(xid);
            return Ok(());
        }
        if transaction.is_handed_over() {
            return Err(advice::not_held(&xid, self.outbox(), self.place()).into());
        }
        let rows = std::mem::take(&mut transaction.held);
        if rows.is_empty() && !transaction.is_too_much() {
            Arc::make_mut(&mut self.position.prepared).insert(xid);
        } else {
            self.prepared.add(Open {
                xid,
                rows,
                too_much: transaction.is_too_much().then(|| transaction.name()),
                before: Some(self.position.clone()),
                since: Instant::now(),
                is_told: false,
            });
        }
        if self.prepared.open.len().max(self.position.prepared.len()) > COUNT {
            return Err(advice::too_many_prepared(COUNT, self.place()).into());
        }
        self.end(&transaction);
        Ok(())
    }

    /// It was committed, and was not held: the next reading hands its rows over as they come.
    pub(super) fn once_more(&self, transaction: String) -> Error {
        let error = advice::once_more(&transaction, self.place());
        self.learned.commit(transaction);
        error
    }

    pub(super) fn xa_commit(&mut self, xid: &str) -> Result<(), Trouble> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        if transaction.is_swallowed() {
            self.end(&transaction);
            return Ok(());
        }
        if let Some((open, place)) = self.prepared.take(xid) {
            if let Some(name) = open.too_much {
                return Err(self.once_more(name).into());
            }
            self.current = Some(transaction.last(None, None));
            self.out.extend(open.rows.into_iter().map(Out::Walk));
            self.prepared.name(xid, place);
        } else if !self.forget(xid) {
            return Err(advice::never_prepared(xid, self.place()).into());
        }
        self.end(&transaction);
        Ok(())
    }

    pub(super) fn xa_rollback(&mut self, xid: &str) {
        let Some(transaction) = self.transaction.take() else {
            return;
        };
        if !transaction.is_swallowed() && self.prepared.take(xid).is_none() {
            self.forget(xid);
        }
        self.end(&transaction);
    }

    /// Whether there is a place where the log can be resumed, with everything that is not handed over yet.
    pub(super) fn is_resumable(&self) -> bool {
        self.prepared.is_empty() || self.prepared.before_oldest().is_some()
    }

    /// Where the log can be resumed now, if it can.
    pub(super) fn resumable(&self) -> Position {
        let before = self.prepared.before_oldest();
        before.unwrap_or(&self.position).clone()
    }

    /// One without rows of the outbox.
    fn forget(&mut self, xid: &str) -> bool {
        self.position.prepared.contains(xid)
            && Arc::make_mut(&mut self.position.prepared).remove(xid)
    }
}
