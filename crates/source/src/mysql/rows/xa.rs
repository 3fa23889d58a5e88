//! XA: rows stand in the log at XA PREPARE, and are nobody's before XA COMMIT, which may come much later, or never.
//!
//! They are held until then, and no mark is given meanwhile: a reading that begins anew must see them again. Those without
//! rows of the outbox hold nothing back; the position remembers their names, so that an XA COMMIT whose PREPARE was never
//! seen can be told: its rows are lost to this pipeline.
#![deny(clippy::indexing_slicing)]

use std::collections::BTreeMap;
use std::sync::Arc;

use super::super::walk::Walk;
use super::{Out, Rows, Trouble, advice};
use crate::Error;

/// How many bytes of rows all prepared transactions may hold.
const HELD: usize = 16 << 20;
/// And how many there may be, with rows or without.
const COUNT: usize = 1000;

/// Prepared transactions with rows of the outbox.
#[derive(Debug, Default)]
pub(super) struct Prepared {
    rows: BTreeMap<String, Vec<Walk>>,
    bytes: usize,
}

impl Prepared {
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    fn take(&mut self, xid: &str) -> Option<Vec<Walk>> {
        let rows = self.rows.remove(xid)?;
        let bytes = rows.iter().map(Walk::size).sum();
        self.bytes = self.bytes.saturating_sub(bytes);
        Some(rows)
    }
}

pub(super) fn bound(bytes: usize) -> Result<(), Error> {
    if bytes > HELD {
        return Err(advice::too_much_prepared(&format!(
            "{} MiB of rows",
            HELD >> 20
        )));
    }
    Ok(())
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
        if transaction.is_handed_over() {
            return Err(advice::not_held(&xid, self.outbox(), self.place()).into());
        }
        let rows = std::mem::take(&mut transaction.held);
        if rows.is_empty() {
            Arc::make_mut(&mut self.position.prepared).insert(xid);
        } else {
            self.prepared.bytes = self.prepared.bytes.saturating_add(transaction.held_bytes);
            self.prepared.rows.insert(xid, rows);
        }
        if self.prepared.rows.len().max(self.position.prepared.len()) > COUNT {
            return Err(advice::too_much_prepared(&format!("{COUNT} of them")).into());
        }
        self.end(&transaction);
        Ok(())
    }

    pub(super) fn xa_commit(&mut self, xid: &str) -> Result<(), Trouble> {
        let Some(transaction) = self.transaction.take() else {
            return Ok(());
        };
        if transaction.is_swallowed() {
            self.end(&transaction);
            return Ok(());
        }
        if let Some(rows) = self.prepared.take(xid) {
            self.committed_at = Some(transaction.committed);
            self.out.extend(rows.into_iter().map(Out::Walk));
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

    /// One without rows of the outbox.
    fn forget(&mut self, xid: &str) -> bool {
        self.position.prepared.contains(xid)
            && Arc::make_mut(&mut self.position.prepared).remove(xid)
    }
}
