//! Frames and known tables to rows and marks.
//!
//! Rule: a mark comes after all rows before it. A keepalive inside a transaction is no mark: the server has read past rows
//! that we have not been sent.
#![deny(clippy::indexing_slicing)]

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::row::{Change, Row, Table};
use headwater_core::source::Item;

use super::decode::{self, Malformed, Message, Relation};
use super::position::Lsn;
use super::stream::Frame;
use super::value::{self, Kind};

/// What a frame came to.
#[derive(Debug)]
pub(super) enum Step {
    Nothing,
    Item(Item<Lsn>),
    /// Only the catalog can tell; give the answer to `learn` before the next frame.
    Ask(Question),
}

/// A relation that is new or changed: is it (a partition of) the outbox, and what are these types?
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub relation: Relation,
    pub types: Vec<u32>,
}

#[derive(Debug, Default)]
pub(super) struct Answer {
    pub is_outbox: bool,
    pub kinds: HashMap<u32, Kind>,
}

#[derive(Debug)]
enum Known {
    Outbox { table: Arc<Table>, kinds: Vec<Kind> },
    Foreign,
}

#[derive(Debug)]
pub(super) struct Rows {
    schema: String,
    table: String,
    relations: HashMap<u32, Known>,
    /// Types that are not built in.
    kinds: HashMap<u32, Kind>,
    in_transaction: bool,
    last_mark: Lsn,
    hurry: Hurry,
}

impl Rows {
    /// Nothing up to `start` will be marked again.
    pub(super) fn new(schema: &str, table: &str, start: Lsn) -> Rows {
        Rows {
            schema: schema.to_owned(),
            table: table.to_owned(),
            relations: HashMap::new(),
            kinds: HashMap::new(),
            in_transaction: false,
            last_mark: start,
            hurry: Hurry::default(),
        }
    }

    /// What is to be said after the last item, before another frame is read.
    pub(super) fn afterwards(&mut self) -> Option<Item<Lsn>> {
        std::mem::take(&mut self.hurry.due).then_some(Item::Hurry)
    }

    pub(super) fn take(&mut self, frame: Frame) -> Result<Step, Malformed> {
        match frame {
            Frame::Begin => {
                self.in_transaction = true;
                Ok(Step::Nothing)
            }
            Frame::Commit { end } => {
                self.in_transaction = false;
                Ok(self.mark(end))
            }
            Frame::KeepAlive {
                end,
                wants_reply,
                sent,
            } => {
                if wants_reply {
                    self.hurry.asked(sent);
                }
                if self.in_transaction {
                    Ok(Step::Nothing)
                } else {
                    Ok(self.mark(end))
                }
            }
            Frame::Data(data) => self.message(decode::message(data)?),
            Frame::Other => Ok(Step::Nothing),
        }
    }

    fn mark(&mut self, end: Lsn) -> Step {
        if end <= self.last_mark {
            return Step::Nothing;
        }
        self.last_mark = end;
        Step::Item(Item::Mark(end))
    }

    fn message(&mut self, message: Message) -> Result<Step, Malformed> {
        match message {
            Message::Insert { relation, tuple } => match self.known(relation)? {
                Known::Outbox { table, kinds } => row(table, kinds, tuple).map(Step::from),
                Known::Foreign => Ok(Step::Nothing),
            },
            Message::Update { relation } => self.without_cells(&[relation], Change::Update),
            Message::Delete { relation } => self.without_cells(&[relation], Change::Delete),
            Message::Truncate { relations } => self.without_cells(&relations, Change::Truncate),
            Message::Relation(relation) => Ok(self.relation(relation)),
            Message::Type(kind) => {
                if let Some(known) = named(&kind) {
                    self.kinds.insert(kind.oid, known);
                }
                Ok(Step::Nothing)
            }
            Message::Other => Ok(Step::Nothing),
        }
    }

    fn known(&self, relation: u32) -> Result<&Known, Malformed> {
        self.relations
            .get(&relation)
            .ok_or(Malformed("a row of a relation that was never described"))
    }

    /// One row for all its relations: a TRUNCATE of a partitioned table names every partition.
    fn without_cells(&self, relations: &[u32], change: Change) -> Result<Step, Malformed> {
        for relation in relations {
            if let Known::Outbox { table, .. } = self.known(*relation)? {
                return Ok(Step::from(Row {
                    table: Arc::clone(table),
                    change,
                    cells: Vec::new(),
                }));
            }
        }
        Ok(Step::Nothing)
    }

    fn relation(&mut self, relation: Relation) -> Step {
        let types: Vec<u32> = relation
            .columns
            .iter()
            .map(|column| column.type_oid)
            .filter(|oid| self.kind(*oid).is_none())
            .collect();
        if self.is_named_so(&relation) && types.is_empty() {
            self.remember(&relation, true);
            return Step::Nothing;
        }
        Step::Ask(Question { relation, types })
    }

    fn is_named_so(&self, relation: &Relation) -> bool {
        relation.schema == self.schema && relation.name == self.table
    }

    fn kind(&self, oid: u32) -> Option<Kind> {
        Kind::builtin(oid).or_else(|| self.kinds.get(&oid).cloned())
    }

    /// The answer to a question.
    pub(super) fn learn(&mut self, relation: &Relation, answer: Answer) {
        self.kinds.extend(answer.kinds);
        let is_outbox = answer.is_outbox || self.is_named_so(relation);
        self.remember(relation, is_outbox);
    }

    fn remember(&mut self, relation: &Relation, is_outbox: bool) {
        if !is_outbox {
            self.relations.insert(relation.id, Known::Foreign);
            return;
        }
        let columns = &relation.columns;
        // A type that was dropped since cannot be looked up any more.
        let lost = |oid| Kind::Other(format!("{oid} (an oid that is gone)"));
        let kinds = columns
            .iter()
            .map(|column| {
                self.kind(column.type_oid)
                    .unwrap_or_else(|| lost(column.type_oid))
            })
            .collect();
        let mut table = Arc::new(Table {
            schema: relation.schema.clone(),
            name: relation.name.clone(),
            columns: columns.iter().map(|column| column.name.clone()).collect(),
        });
        // The server repeats itself: the same definition stays the same `Table`.
        if let Some(Known::Outbox { table: before, .. }) = self.relations.get(&relation.id)
            && **before == *table
        {
            table = Arc::clone(before);
        }
        let known = Known::Outbox { table, kinds };
        self.relations.insert(relation.id, known);
    }
}

impl From<Row> for Step {
    fn from(row: Row) -> Step {
        Step::Item(Item::Row(row))
    }
}

fn row(table: &Arc<Table>, kinds: &[Kind], tuple: Bytes) -> Result<Row, Malformed> {
    const UNEQUAL: Malformed = Malformed("a row with another number of columns than its table");
    let mut tuple = decode::cells(tuple)?;
    let mut cells = Vec::with_capacity(kinds.len());
    for kind in kinds {
        cells.push(value::read(kind, tuple.next()?.ok_or(UNEQUAL)?));
    }
    if tuple.next()?.is_some() {
        return Err(UNEQUAL);
    }
    Ok(Row {
        table: Arc::clone(table),
        change: Change::Insert,
        cells,
    })
}

/// What a type's name alone tells: a domain comes under its base type's name.
fn named(kind: &decode::Type) -> Option<Kind> {
    match kind.name.as_str() {
        "citext" => Some(Kind::Text),
        name if kind.schema.is_empty() => Kind::named(name),
        _ => None,
    }
}

/// Whether the server waits for us. It asks for a reply every few seconds at most, except when it is shutting down: then
/// it asks again after every reply until we have confirmed everything (tens of thousands of times a second).
#[derive(Debug, Default)]
struct Hurry {
    asked: Option<i64>,
    said: Option<i64>,
    due: bool,
}

impl Hurry {
    fn asked(&mut self, sent: i64) {
        const TOGETHER: u64 = 1_000_000;
        const QUIET: u64 = 500_000;
        let again = self
            .asked
            .is_some_and(|before| sent.abs_diff(before) < TOGETHER);
        let said = self.said.is_some_and(|said| sent.abs_diff(said) < QUIET);
        self.asked = Some(sent);
        if again && !said {
            self.said = Some(sent);
            self.due = true;
        }
    }
}
