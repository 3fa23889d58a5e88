//! One transaction early: the last one before the position is read again, to see that the log is still the same one.
//!
//! Rule: what proves that a server was reset is another transaction under the awaited name, in its place (where transactions
//! have no names), or behind it in its domain: then it will not come any more. Whatever else comes is a transaction like any other: a server that was a replica may have
//! logged it before the awaited one. Nothing is passed over but the awaited transaction itself.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use super::super::gtid::{Gtid, Gtids};
use super::super::position::Last;
use super::transaction::Transaction;
use super::{Flavor, Rows, Trouble, advice};

impl Rows {
    /// Whether the position is a place in one server's log, and no name counts.
    fn is_by_place(&self) -> bool {
        match &self.position.gtids {
            Gtids::None => true,
            Gtids::MySql(set) => set.has_tags(),
            Gtids::MariaDb(_) => false,
        }
    }

    /// Whether the last transaction before the position has not come again yet.
    pub(in super::super) fn is_reading_again(&self) -> bool {
        self.again.is_some()
    }

    /// Whether a transaction that begins is the one that is awaited; it is swallowed then.
    pub(super) fn is_read_before(&mut self, transaction: &Transaction) -> Result<bool, Trouble> {
        let Some(last) = &self.again else {
            return Ok(false);
        };
        let by_place = self.is_by_place();
        let in_place = (&transaction.file, transaction.offset) == (&last.file, last.offset);
        let is_it = transaction.gtid == last.gtid && (!by_place || in_place);
        // Of a log that has whole seconds, the place tells more: it stays, as long as the log does.
        let seconds = self.flavor == Flavor::MariaDb && last.server == self.server;
        let same_time = self.is_committed_then(transaction, last) && (!seconds || in_place);
        if is_it && same_time {
            self.again = None;
            return Ok(true);
        }
        if is_it || by_place || has_passed(last.gtid.as_ref(), transaction.gtid.as_ref()) {
            let found = transaction.last(None, None);
            return Err(advice::reset(last, &found, self.flavor).into());
        }
        Ok(false)
    }

    /// MySQL's servers hand on when a transaction was first committed. MariaDB's GTID has the time of its own server's log
    /// event, which another server writes otherwise.
    fn is_committed_then(&self, transaction: &Transaction, last: &Last) -> bool {
        let is_handed_on = self.flavor == Flavor::MySql && transaction.is_time_told;
        let is_comparable = is_handed_on || self.is_by_place() || last.server == self.server;
        transaction.committed == last.committed || !is_comparable
    }

    /// What was read again on another server is remembered as that server tells it: the next time it is compared with that.
    pub(super) fn swallowed(&mut self, transaction: &Transaction) {
        let Some(last) = &self.position.last else {
            return;
        };
        if last.server == self.server {
            return;
        }
        let before = last.before.clone();
        if let Some(gtid) = &transaction.gtid {
            self.position.gtids.add(gtid);
        }
        self.position.last = Some(transaction.last(before, self.server.clone()));
        self.position.file = Arc::clone(&self.place.file);
        self.position.offset = self.place.end;
        self.due = self.is_resumable();
    }
}

/// MariaDB: a domain's transactions come in the order of their numbers (without strict mode nearly so): behind a later
/// one, or another of its number, the awaited one will not come any more. MySQL's come in any order.
fn has_passed(awaited: Option<&Gtid>, came: Option<&Gtid>) -> bool {
    match (awaited, came) {
        (Some(Gtid::MariaDb(awaited)), Some(Gtid::MariaDb(came))) => {
            awaited.domain == came.domain && came.sequence >= awaited.sequence
        }
        _ => false,
    }
}
