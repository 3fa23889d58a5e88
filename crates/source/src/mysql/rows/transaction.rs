//! Where transactions begin and end, and what becomes of their rows.
//!
//! The log has only what was committed, with few exceptions: beside tables that know no transactions, rows may stand there
//! that a ROLLBACK (to a savepoint, or of everything) takes back. So rows are held until the end of their transaction,
//! while they are few; of a large one they are handed over, and taking those back is fatal.
#![deny(clippy::indexing_slicing)]

use std::sync::Arc;

use super::super::began::Began;
use super::super::decode::Header;
use super::super::gtid::{Gtid, Gtids};
use super::super::position::Last;
use super::super::walk::Walk;
use super::{Out, Rows, Trouble, advice, xa};

/// How many bytes of a transaction's rows are held.
const HELD: usize = 1 << 20;

/// A transaction that has begun.
#[derive(Debug)]
pub(super) struct Transaction {
    pub(super) gtid: Option<Gtid>,
    /// In microseconds since 1970.
    pub(super) committed: i64,
    /// By the transaction itself; else it is only the time of an event.
    pub(super) is_time_told: bool,
    pub(super) file: Arc<str>,
    pub(super) offset: u64,
    shape: Shape,
    fate: Fate,
    pub(super) held: Vec<Walk>,
    pub(super) held_bytes: usize,
    /// With the number of what was held then.
    savepoints: Vec<(Vec<u8>, usize)>,
}

/// Where a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// Its first statement is all of it.
    Single,
    /// It ends with a COMMIT, or what stands for one.
    Open,
    /// It is prepared first.
    Xa,
}

/// What becomes of a transaction's rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Fate {
    Held,
    /// Some have been handed over already, and so will the others be.
    HandedOver,
    /// Too many to be held until it is known whether it is committed: it is read again if it is.
    TooMuch,
    /// It was read before.
    Swallowed,
}

impl Rows {
    pub(super) fn began(&mut self, began: Began, header: &Header) -> Result<(), Trouble> {
        // One that a crash cut off is followed by a new file, not by another transaction.
        if self.transaction.take().is_some_and(|cut| cut.has_rows()) {
            return Err(Trouble::Malformed(UNENDED));
        }
        let start = self.place.start;
        self.begin(began, header, start)
    }

    fn begin(&mut self, began: Began, header: &Header, offset: u64) -> Result<(), Trouble> {
        self.tables.clear();
        let seconds = || i64::from(header.timestamp).saturating_mul(1_000_000);
        let mut transaction = Transaction {
            gtid: began.gtid,
            committed: began.committed.unwrap_or_else(seconds),
            is_time_told: began.committed.is_some(),
            file: Arc::clone(&self.place.file),
            offset,
            shape: if began.open {
                Shape::Open
            } else {
                Shape::Single
            },
            fate: Fate::Held,
            held: Vec::new(),
            held_bytes: 0,
            savepoints: Vec::new(),
        };
        if self.is_read_before(&transaction)? {
            transaction.fate = Fate::Swallowed;
        }
        self.transaction = Some(transaction);
        if began.xa {
            self.open(true);
        }
        Ok(())
    }

    /// The transaction that a statement belongs to: where transactions have no names, a statement begins one.
    pub(super) fn within(&mut self, header: &Header) -> Result<&Transaction, Trouble> {
        if self.transaction.is_none() {
            let nameless = Began {
                gtid: None,
                committed: None,
                open: false,
                xa: false,
            };
            self.begin(nameless, header, self.place.start)?;
        }
        self.transaction.as_ref().ok_or(Trouble::Malformed(OUTSIDE))
    }

    /// An XA transaction of which an earlier reading saw the end is like any other.
    pub(super) fn open(&mut self, is_xa: bool) {
        if let Some(transaction) = &mut self.transaction {
            let in_doubt = is_xa && !self.learned.is_committed(&transaction.name());
            transaction.shape = if in_doubt { Shape::Xa } else { Shape::Open };
        }
    }

    /// Rows of the outbox.
    pub(super) fn hold(&mut self, walk: Walk) -> Result<(), Trouble> {
        let transaction = self.transaction.as_mut();
        let transaction = transaction.ok_or(Trouble::Malformed(OUTSIDE))?;
        match transaction.fate {
            Fate::Held => {}
            Fate::Swallowed | Fate::TooMuch => return Ok(()),
            Fate::HandedOver => {
                self.out.push_back(Out::Walk(walk));
                return Ok(());
            }
        }
        transaction.held_bytes = transaction.held_bytes.saturating_add(walk.size());
        transaction.held.push(walk.detached());
        let bytes = transaction.held_bytes;
        if transaction.shape == Shape::Xa {
            if self.prepared.bytes().saturating_add(bytes) > xa::HELD {
                transaction.fate = Fate::TooMuch;
                transaction.held.clear();
            }
            return Ok(());
        }
        if bytes > HELD {
            transaction.fate = Fate::HandedOver;
            self.current = Some(transaction.last(None, None));
            let held = std::mem::take(&mut transaction.held);
            self.out.extend(held.into_iter().map(Out::Walk));
        }
        Ok(())
    }

    pub(super) fn commit(&mut self) -> Result<(), Trouble> {
        let transaction = self.transaction.take();
        let mut transaction = transaction.ok_or(Trouble::Malformed(ENDS))?;
        if transaction.is_too_much() {
            return Err(self.once_more(transaction.name()).into());
        }
        let held = std::mem::take(&mut transaction.held);
        if !held.is_empty() {
            self.current = Some(transaction.last(None, None));
            self.out.extend(held.into_iter().map(Out::Walk));
        }
        self.end(&transaction);
        Ok(())
    }

    /// A statement that is a transaction of its own.
    pub(super) fn standalone(&mut self) -> Result<(), Trouble> {
        match &self.transaction {
            Some(transaction) if transaction.shape != Shape::Single => Ok(()),
            _ => self.commit(),
        }
    }

    /// Where rows stand before a ROLLBACK, they are those of tables that know transactions: the others' have an end of their
    /// own while `binlog_format` is ROW.
    pub(super) fn rollback(&mut self) -> Result<(), Trouble> {
        self.take_back(0)?;
        self.commit()
    }

    pub(super) fn savepoint(&mut self, name: Vec<u8>) {
        if let Some(transaction) = &mut self.transaction {
            let held = transaction.held.len();
            transaction.savepoints.push((name, held));
        }
    }

    pub(super) fn rollback_to(&mut self, name: &[u8]) -> Result<(), Trouble> {
        let transaction = self.transaction.as_ref();
        let savepoints = transaction.map_or(&[][..], |transaction| &transaction.savepoints);
        let same = |(known, _): &&(Vec<u8>, usize)| known.eq_ignore_ascii_case(name);
        let held = savepoints.iter().rev().find(same);
        // One that is not known was made before any row.
        self.take_back(held.map_or(0, |(_, held)| *held))
    }

    fn take_back(&mut self, to: usize) -> Result<(), Trouble> {
        let Some(transaction) = &mut self.transaction else {
            return Ok(());
        };
        if transaction.fate == Fate::HandedOver {
            return Err(advice::taken_back(self.outbox(), self.place()).into());
        }
        if transaction.is_too_much() {
            return Ok(()); // what it keeps in the end is told when it is read again
        }
        transaction.held.truncate(to);
        transaction.held_bytes = transaction.held.iter().map(Walk::size).sum();
        Ok(())
    }

    /// The server was stopped, or begins a new file, while a transaction has not ended: it never was committed.
    pub(super) fn broken_off(&mut self, header: &Header) -> Result<(), Trouble> {
        if header.is_artificial() || header.is_format() && header.end == 0 {
            return Ok(()); // told by the server between two events
        }
        self.take_back(0)?;
        self.transaction = None;
        Ok(())
    }

    /// The log reached the end of a transaction. It can be resumed there, or before an earlier one whose rows are still to come.
    pub(super) fn end(&mut self, transaction: &Transaction) {
        self.tables.clear();
        if transaction.is_swallowed() {
            self.swallowed(transaction);
            return;
        }
        let mut before = None;
        if let Some(gtid) = &transaction.gtid {
            if let (Gtids::MariaDb(list), Gtid::MariaDb(gtid)) = (&self.position.gtids, gtid) {
                before = list.of(gtid.domain).map(Gtid::MariaDb);
            }
            self.position.gtids.add(gtid);
        }
        self.position.file = Arc::clone(&self.place.file);
        self.position.offset = self.place.end;
        // Whoever begins anew must await the same one.
        if self.again.is_none() {
            self.position.last = Some(transaction.last(before, self.server.clone()));
        }
        self.due = self.is_resumable();
    }
}

const OUTSIDE: super::Malformed = super::Malformed("rows outside of a transaction");
const UNENDED: super::Malformed =
    super::Malformed("the beginning of a transaction inside another one that has rows");
const ENDS: super::Malformed = super::Malformed("the end of a transaction that never began");

impl Transaction {
    pub(super) fn is_swallowed(&self) -> bool {
        self.fate == Fate::Swallowed
    }

    pub(super) fn is_handed_over(&self) -> bool {
        self.fate == Fate::HandedOver
    }

    pub(super) fn is_too_much(&self) -> bool {
        self.fate == Fate::TooMuch
    }

    fn has_rows(&self) -> bool {
        self.is_handed_over() || self.is_too_much() || !self.held.is_empty()
    }

    /// By which a later reading knows it.
    pub(super) fn name(&self) -> String {
        self.last(None, None).name()
    }

    pub(super) fn last(&self, before: Option<Gtid>, server: Option<Arc<str>>) -> Last {
        Last {
            gtid: self.gtid.clone(),
            committed: self.committed,
            file: Arc::clone(&self.file),
            offset: self.offset,
            before,
            server,
        }
    }
}
