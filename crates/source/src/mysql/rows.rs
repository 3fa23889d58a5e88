//! Events of the binlog to rows and marks.
//!
//! Rule: a mark comes after all rows before it, and no row of a transaction that did not commit is handed over while it can
//! still be held back. Rows of other tables cost a look at their table's number.
#![deny(clippy::indexing_slicing)]

mod advice;
mod again;
mod elsewhere;
mod place;
mod table;
mod transaction;
mod xa;

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::sync::Arc;

use bytes::{Buf as _, Bytes};
use headwater_core::row::Row;
use headwater_core::source::Item;

use super::decode::{self, Event, Format, HEADER, Header, Query, RowsHead};
use super::flavor::Flavor;
use super::learned::Learned;
use super::payload::Payload;
use super::position::{Last, Layout, Position};
use super::reader::Malformed;
use super::statement::{Outbox, Statement};
use super::table::Definition;
use super::walk::Walk;
use crate::Error;
use place::Place;
use transaction::Transaction;
use xa::Prepared;

const CHECKSUM: usize = 4;

/// What one reading of the log has come to.
pub(super) struct Rows {
    flavor: Flavor,
    schema: String,
    table: String,
    layout: Option<Layout>,
    /// Whether events end with one; not known before the log's format.
    checksums: Option<bool>,
    place: Place,
    /// The end of the last transaction, whether it could be marked or not.
    position: Position,
    /// It is still to come, once more.
    again: Option<Last>,
    /// Whose log it is.
    server: Option<Arc<str>>,
    learned: Arc<Learned>,
    transaction: Option<Transaction>,
    /// By number. `None`: a table that is not the outbox.
    tables: HashMap<u64, Option<Arc<Definition>>>,
    /// The outbox as it was described last, and the bytes that did it.
    known: Option<(Bytes, Arc<Definition>)>,
    prepared: Prepared,
    /// Statements on other tables that were told of.
    elsewhere: BTreeSet<String>,
    out: VecDeque<Out>,
    due: bool,
    payload: Option<Payload>,
    /// The transaction whose rows are handed over.
    current: Option<Last>,
    /// What ended this reading: nothing may come after it, whoever asks again.
    failed: Option<Error>,
    malformed: bool,
}

/// What is to be handed over before anything else is read.
enum Out {
    Walk(Walk),
    Row(Row),
}

/// What an event came to, if it could not be used.
enum Trouble {
    Malformed(Malformed),
    Error(Error),
}

impl From<Malformed> for Trouble {
    fn from(malformed: Malformed) -> Trouble {
        Trouble::Malformed(malformed)
    }
}

impl From<Error> for Trouble {
    fn from(error: Error) -> Trouble {
        Trouble::Error(error)
    }
}

impl Rows {
    /// Nothing up to `start` will be handed over again. With `again`, reading begins one transaction early: `start.last`
    /// comes once more, and is swallowed; another one under its name means that the server was reset.
    pub(super) fn new(
        flavor: Flavor,
        schema: &str,
        table: &str,
        start: Position,
        layout: Option<Layout>,
        again: bool,
    ) -> Rows {
        Rows {
            flavor,
            schema: schema.to_owned(),
            table: table.to_owned(),
            layout,
            checksums: None,
            place: Place {
                file: Arc::clone(&start.file),
                start: start.offset,
                end: start.offset,
            },
            again: start.last.clone().filter(|_| again),
            position: start,
            server: None,
            learned: Arc::default(),
            transaction: None,
            tables: HashMap::new(),
            known: None,
            prepared: Prepared::default(),
            elsewhere: BTreeSet::new(),
            out: VecDeque::new(),
            due: false,
            payload: None,
            current: None,
            failed: None,
            malformed: false,
        }
    }

    #[must_use]
    pub(super) fn on(mut self, server: &str, learned: &Arc<Learned>) -> Rows {
        self.server = Some(server.into());
        self.learned = Arc::clone(learned);
        self
    }

    /// One event as it came: header, body, and checksum if the log has them. Only when `item` has no more to say.
    pub(super) fn take(&mut self, event: Bytes) -> Result<(), Error> {
        self.alive()?;
        let taken = self.received(event);
        self.kept(taken)
    }

    /// The next item of what was taken, row by row: one event may hold very many.
    pub(super) fn item(&mut self) -> Result<Option<Item<Position>>, Error> {
        self.alive()?;
        let item = self.next();
        self.kept(item)
    }

    /// When the transaction of the last row was committed, in microseconds since 1970.
    pub(super) fn committed_at(&self) -> Option<i64> {
        self.current.as_ref().map(|current| current.committed)
    }

    pub(super) fn transaction(&self) -> Option<String> {
        self.current.as_ref().map(Last::name)
    }

    /// File and offset of the event that was taken last, for sentences about it.
    pub(super) fn place(&self) -> (&str, u64) {
        (&self.place.file, self.place.start)
    }

    /// Whether everything before a place of the log was taken.
    pub(super) fn has_reached(&self, file: &str, offset: u64) -> bool {
        let Place { file: now, end, .. } = &self.place;
        // Files are numbered with leading zeros, and with more digits once those are used up.
        (now.len(), now.as_ref(), *end) >= (file.len(), file, offset)
    }

    /// Whether the reading ended because an event's bytes make no sense.
    pub(super) fn is_malformed(&self) -> bool {
        self.malformed
    }

    fn alive(&self) -> Result<(), Error> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn kept<T>(&mut self, result: Result<T, Trouble>) -> Result<T, Error> {
        result.map_err(|trouble| {
            let error = match trouble {
                Trouble::Malformed(malformed) => {
                    self.malformed = true;
                    advice::malformed(malformed, self.place())
                }
                Trouble::Error(error) => error,
            };
            self.failed = Some(error.clone());
            error
        })
    }

    fn next(&mut self) -> Result<Option<Item<Position>>, Trouble> {
        loop {
            match self.out.front_mut() {
                Some(Out::Walk(walk)) => match walk.next()? {
                    Some(row) => return Ok(Some(Item::Row(row))),
                    None => drop(self.out.pop_front()),
                },
                Some(Out::Row(_)) => {
                    if let Some(Out::Row(row)) = self.out.pop_front() {
                        return Ok(Some(Item::Row(row)));
                    }
                }
                None if self.due => {
                    self.due = false;
                    return Ok(Some(Item::Mark(self.resumable())));
                }
                None => {
                    let Some(payload) = &mut self.payload else {
                        return Ok(None);
                    };
                    match payload.next()? {
                        Some(event) => self.packed(&event)?,
                        None => self.payload = None,
                    }
                }
            }
        }
    }

    /// An event off the wire.
    fn received(&mut self, mut event: Bytes) -> Result<(), Trouble> {
        let header = Header::read(&event)?;
        self.place.pass(&header);
        self.prepared.look();
        let end = event.len().saturating_sub(self.checksum(&header, &event)?);
        if end < HEADER {
            return Err(super::reader::CUT.into());
        }
        event.truncate(end);
        event.advance(HEADER);
        self.event(&header, &event)
    }

    /// How many bytes at an event's end are its checksum, which is verified.
    fn checksum(&self, header: &Header, event: &Bytes) -> Result<usize, Malformed> {
        const WRONG: Malformed = Malformed("its checksum is wrong");
        // The format's own checksum is part of what it says.
        let (has, cut) = if header.is_format() {
            (
                Some(
                    decode::event(header, event.get(HEADER..).unwrap_or_default()).is_ok_and(
                        |event| matches!(event, Event::Format(Format { checksums: true })),
                    ),
                ),
                0,
            )
        } else {
            (self.checksums, CHECKSUM)
        };
        if has == Some(false) {
            return Ok(0);
        }
        let Some((bytes, sum)) = event.split_last_chunk::<CHECKSUM>() else {
            return Err(super::reader::CUT);
        };
        let is_right = decode::checksum(header, bytes) == u32::from_le_bytes(*sum);
        match has {
            _ if is_right => Ok(cut),
            // The server tells the file before the format: whether that has one can only be tried.
            None => Ok(0),
            Some(_) => Err(WRONG),
        }
    }

    /// An event out of a compressed transaction: it has no checksum, and stands where the whole stands.
    fn packed(&mut self, event: &Bytes) -> Result<(), Trouble> {
        let header = Header::read(event)?;
        self.event(&header, &event.slice(HEADER..))
    }

    fn event(&mut self, header: &Header, body: &Bytes) -> Result<(), Trouble> {
        match decode::event(header, body)? {
            Event::Rows(head) => self.rows(&head, body),
            Event::Table(map) => self.describe(&map),
            Event::Began(began) => self.began(began, header),
            Event::Query(query) => self.query(&query, header),
            Event::Xid
            | Event::XaPrepare {
                one_phase: true, ..
            } => self.commit(),
            Event::XaPrepare { xid, .. } => self.prepare(xid),
            Event::Payload if self.payload.is_some() => {
                Err(Malformed("a compressed transaction inside another").into())
            }
            Event::Payload => {
                self.payload = Some(Payload::new(body)?);
                Ok(())
            }
            Event::Rotate { file, offset } => self.rotate(header, file, offset),
            Event::Format(format) => {
                self.checksums = Some(format.checksums);
                self.broken_off(header)
            }
            Event::Stopped => self.broken_off(header),
            Event::Incident(what) => Err(advice::incident(&what, self.place()).into()),
            Event::Encrypted => Err(advice::encrypted(self.place()).into()),
            Event::Unknown => Err(advice::unknown(header.kind, self.place()).into()),
            Event::Other => Ok(()),
        }
    }

    fn rotate(&mut self, header: &Header, file: &str, offset: u64) -> Result<(), Trouble> {
        let is_told = header.is_artificial() || header.end == 0;
        if !is_told {
            self.broken_off(header)?;
        }
        if *self.place.file != *file {
            self.place.file = file.into();
        }
        (self.place.start, self.place.end) = (offset, offset);
        // The old file may be deleted now, so the position must not stay there.
        if !is_told && self.again.is_none() {
            self.position.file = Arc::clone(&self.place.file);
            self.position.offset = offset;
            self.due = self.is_resumable();
        }
        Ok(())
    }

    fn rows(&mut self, head: &RowsHead<'_>, body: &Bytes) -> Result<(), Trouble> {
        let definition = match self.tables.get(&head.table) {
            Some(Some(definition)) => Arc::clone(definition),
            Some(None) => return Ok(()),
            None if head.table == decode::NO_TABLE => return Ok(()),
            None => return Err(Malformed("rows of a table that was never described").into()),
        };
        let walk = Walk::new(definition, head, body)?;
        self.hold(walk)
    }

    fn outbox(&self) -> Outbox<'_> {
        Outbox {
            schema: &self.schema,
            table: &self.table,
        }
    }

    fn query(&mut self, query: &Query<'_>, header: &Header) -> Result<(), Trouble> {
        let statement = Statement::read(query, self.outbox());
        if statement == Statement::Nothing {
            return Ok(());
        }
        let swallowed = self.within(header)?.is_swallowed();
        match statement {
            Statement::Begin | Statement::CreateSelect => self.open(false),
            Statement::XaStart => self.open(true),
            Statement::Commit => self.commit()?,
            Statement::Rollback => self.rollback()?,
            Statement::Savepoint(name) => self.savepoint(name),
            Statement::RollbackTo(name) => self.rollback_to(&name)?,
            Statement::XaCommit(xid) => self.xa_commit(&xid)?,
            Statement::XaRollback(xid) => self.xa_rollback(&xid),
            Statement::Rows if !swallowed => {
                return Err(advice::statement(self.outbox(), self.place()).into());
            }
            Statement::Redefine if self.layout.is_some() && !swallowed => {
                return Err(advice::redefined(self.outbox(), self.place()).into());
            }
            Statement::Truncate if !swallowed => {
                self.truncate();
                self.standalone()?;
            }
            Statement::Elsewhere(what) => {
                self.elsewhere(what);
                self.standalone()?;
            }
            _ => self.standalone()?,
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
