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
    /// A row was inserted into this table, and nobody can tell whether it was the outbox's.
    Doubt(String),
}

/// Whose a relation in the stream is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Belongs {
    /// To the outbox: it is the outbox, or a partition of it.
    Outbox,
    Foreign,
    /// It may have been a partition when the row was written.
    Doubtful,
}

/// A relation that is new or changed: is it (a partition of) the outbox, and what are these types?
#[derive(Debug, Clone)]
pub(super) struct Question {
    pub relation: Relation,
    /// It has the outbox's name: the first half of the question is answered.
    pub is_named_so: bool,
    pub types: Vec<u32>,
}

#[derive(Debug)]
pub(super) struct Answer {
    pub belongs: Belongs,
    pub kinds: HashMap<u32, Kind>,
}

#[derive(Debug)]
enum Known {
    Outbox { table: Arc<Table>, kinds: Vec<Kind> },
    Foreign,
    Doubtful(String),
}

#[derive(Debug)]
pub(super) struct Rows {
    schema: String,
    table: String,
    relations: HashMap<u32, Known>,
    /// Types that are not built in.
    kinds: HashMap<u32, Kind>,
    in_transaction: bool,
    /// Of the transaction that was begun last.
    xid: Option<u32>,
    /// Of the same, in microseconds since 1970.
    committed_at: Option<i64>,
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
            xid: None,
            committed_at: None,
            last_mark: start,
            hurry: Hurry::default(),
        }
    }

    /// What is to be said after the last item, before another frame is read.
    pub(super) fn afterwards(&mut self) -> Option<Item<Lsn>> {
        std::mem::take(&mut self.hurry.due).then_some(Item::Hurry)
    }

    pub(super) fn committed_at(&self) -> Option<i64> {
        self.committed_at
    }

    /// As `txid_current()` told it to whoever wrote it, without the epoch.
    pub(super) fn transaction(&self) -> Option<String> {
        self.xid.map(|xid| xid.to_string())
    }

    /// How far the server has told the log.
    pub(super) fn last_mark(&self) -> Lsn {
        self.last_mark
    }

    pub(super) fn take(&mut self, frame: Frame) -> Result<Step, Malformed> {
        match frame {
            Frame::Begin { xid, committed } => {
                self.in_transaction = true;
                self.xid = Some(xid);
                self.committed_at = committed.checked_add(value::EPOCH);
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
                Known::Doubtful(table) => Ok(Step::Doubt(table.clone())),
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
        let is_named_so = relation.schema == self.schema && relation.name == self.table;
        if is_named_so && types.is_empty() {
            self.remember(&relation, Belongs::Outbox);
            return Step::Nothing;
        }
        Step::Ask(Question {
            relation,
            is_named_so,
            types,
        })
    }

    fn kind(&self, oid: u32) -> Option<Kind> {
        Kind::builtin(oid).or_else(|| self.kinds.get(&oid).cloned())
    }

    /// The answer to a question.
    pub(super) fn learn(&mut self, relation: &Relation, answer: Answer) {
        self.kinds.extend(answer.kinds);
        self.remember(relation, answer.belongs);
    }

    fn remember(&mut self, relation: &Relation, belongs: Belongs) {
        let known = match belongs {
            Belongs::Outbox => self.outbox(relation),
            Belongs::Foreign => Known::Foreign,
            Belongs::Doubtful => Known::Doubtful(format!("{}.{}", relation.schema, relation.name)),
        };
        self.relations.insert(relation.id, known);
    }

    fn outbox(&self, relation: &Relation) -> Known {
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
        Known::Outbox { table, kinds }
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

#[cfg(test)]
mod tests {
    use headwater_core::row::Value;

    use super::super::decode::{Cell, captured, made};
    use super::*;

    const OUTBOX: u32 = 7;
    const NEIGHBOUR: u32 = 8;
    const TEXT: u32 = 25;
    const BEGIN: Frame = Frame::Begin {
        xid: 731,
        committed: 7,
    };

    fn rows() -> Rows {
        Rows::new("eventlog", "events", Lsn(100))
    }

    fn cell(text: &'static str) -> Cell {
        Cell::Text(Bytes::from_static(text.as_bytes()))
    }

    /// What came of a frame, in short.
    fn told(rows: &mut Rows, frame: Frame) -> String {
        let step = rows.take(frame).expect("well-formed");
        match step {
            Step::Nothing => String::new(),
            Step::Item(Item::Row(row)) => {
                let cells: Vec<&str> = row
                    .cells
                    .iter()
                    .map(|cell| match cell {
                        Value::Text(text) => text,
                        other => other.kind(),
                    })
                    .collect();
                format!("{:?} {} {}", row.change, row.table.name, cells.join(","))
            }
            Step::Item(Item::Mark(position)) => format!("mark {}", position.0),
            Step::Item(Item::Hurry) => "hurry".into(),
            Step::Item(Item::End) => "end".into(),
            Step::Ask(question) => {
                format!("ask {} {:?}", question.relation.name, question.types)
            }
            Step::Doubt(table) => format!("doubt {table}"),
        }
    }

    fn data(data: Bytes) -> Frame {
        Frame::Data(data)
    }

    fn commit(end: u64) -> Frame {
        Frame::Commit { end: Lsn(end) }
    }

    fn keepalive(end: u64) -> Frame {
        Frame::KeepAlive {
            end: Lsn(end),
            wants_reply: false,
            sent: 0,
        }
    }

    fn outbox() -> Frame {
        data(made::relation(
            OUTBOX,
            "eventlog",
            "events",
            &[("id", TEXT)],
        ))
    }

    fn insert(text: &'static str) -> Frame {
        data(made::insert(OUTBOX, &[cell(text)]))
    }

    /// Answers the question that a relation raised.
    fn answer(rows: &mut Rows, frame: Frame, belongs: Belongs, kinds: &[(u32, Kind)]) {
        let Ok(Step::Ask(question)) = rows.take(frame) else {
            panic!("no question");
        };
        let kinds = kinds.iter().cloned().collect();
        rows.learn(&question.relation, Answer { belongs, kinds });
    }

    #[test]
    fn only_an_insert_into_what_may_have_been_a_partition_is_doubtful() {
        let mut rows = rows();
        let relation = made::relation(NEIGHBOUR, "eventlog", "events_2026", &[("id", TEXT)]);
        answer(&mut rows, data(relation), Belongs::Doubtful, &[]);
        for message in [
            made::named(b'U', NEIGHBOUR),
            made::named(b'D', NEIGHBOUR),
            made::truncate(&[NEIGHBOUR]),
        ] {
            assert_eq!(told(&mut rows, data(message)), "");
        }
        let insert = made::insert(NEIGHBOUR, &[cell("x")]);
        assert_eq!(told(&mut rows, data(insert)), "doubt eventlog.events_2026");
    }

    #[test]
    fn a_mark_comes_after_the_rows_of_its_transaction() {
        let mut rows = rows();
        let frames = [BEGIN, outbox(), insert("a"), insert("b"), commit(200)];
        let told: Vec<String> = frames.map(|frame| told(&mut rows, frame)).to_vec();
        assert_eq!(
            told,
            ["", "", "Insert events a", "Insert events b", "mark 200"]
        );
    }

    #[test]
    fn a_row_knows_its_transaction_and_when_that_was_committed() {
        let mut rows = rows();
        assert_eq!((rows.transaction(), rows.committed_at()), (None, None));
        told(&mut rows, BEGIN);
        assert_eq!(rows.transaction().as_deref(), Some("731"));
        assert_eq!(rows.committed_at(), Some(value::EPOCH + 7));
    }

    #[test]
    fn a_keepalive_inside_a_transaction_is_no_mark() {
        let mut rows = rows();
        assert_eq!(told(&mut rows, keepalive(150)), "mark 150");
        for frame in [BEGIN, outbox(), keepalive(300)] {
            assert_eq!(told(&mut rows, frame), "");
        }
        assert_eq!(told(&mut rows, insert("a")), "Insert events a");
        assert_eq!(told(&mut rows, keepalive(300)), "");
        assert_eq!(told(&mut rows, commit(250)), "mark 250");
        assert_eq!(told(&mut rows, keepalive(300)), "mark 300");
    }

    #[test]
    fn a_mark_is_said_once_and_never_goes_back() {
        let mut rows = rows();
        for frame in [keepalive(90), keepalive(100)] {
            assert_eq!(told(&mut rows, frame), "");
        }
        assert_eq!(told(&mut rows, keepalive(101)), "mark 101");
        assert_eq!(told(&mut rows, keepalive(101)), "");
        assert_eq!(told(&mut rows, keepalive(99)), "");
    }

    #[test]
    fn an_empty_transaction_is_a_mark() {
        let mut rows = rows();
        assert_eq!(told(&mut rows, BEGIN), "");
        assert_eq!(told(&mut rows, Frame::Other), "");
        assert_eq!(told(&mut rows, commit(110)), "mark 110");
    }

    #[test]
    fn a_foreign_table_says_nothing() {
        let mut rows = rows();
        let relation = made::relation(NEIGHBOUR, "public", "other", &[("n", TEXT)]);
        answer(&mut rows, data(relation), Belongs::Foreign, &[]);
        for message in [
            made::insert(NEIGHBOUR, &[cell("x")]),
            made::named(b'U', NEIGHBOUR),
            made::named(b'D', NEIGHBOUR),
            made::truncate(&[NEIGHBOUR]),
        ] {
            assert_eq!(told(&mut rows, data(message)), "");
        }
    }

    #[test]
    fn the_same_name_in_another_schema_is_foreign() {
        let mut rows = rows();
        let relation = made::relation(NEIGHBOUR, "public", "events", &[("n", TEXT)]);
        assert_eq!(told(&mut rows, data(relation)), "ask events []");
    }

    #[test]
    fn a_partition_comes_under_its_own_name() {
        let mut rows = rows();
        let relation = made::relation(NEIGHBOUR, "eventlog", "events_2026", &[("id", TEXT)]);
        answer(&mut rows, data(relation.clone()), Belongs::Outbox, &[]);
        let insert = made::insert(NEIGHBOUR, &[cell("x")]);
        assert_eq!(told(&mut rows, data(insert)), "Insert events_2026 x");
        // A table can become a partition, or cease to be one: when it is described again, it is asked about again.
        assert_eq!(told(&mut rows, data(relation)), "ask events_2026 []");
    }

    #[test]
    fn updates_deletes_and_truncates_are_rows_without_cells() {
        let mut rows = rows();
        assert_eq!(told(&mut rows, outbox()), "");
        let relation = made::relation(NEIGHBOUR, "public", "other", &[("n", TEXT)]);
        answer(&mut rows, data(relation), Belongs::Foreign, &[]);
        for (message, says) in [
            (made::named(b'U', OUTBOX), "Update events "),
            (made::named(b'D', OUTBOX), "Delete events "),
            (made::truncate(&[NEIGHBOUR, OUTBOX]), "Truncate events "),
        ] {
            assert_eq!(told(&mut rows, data(message)), says);
        }
    }

    #[test]
    fn changed_columns_are_followed_by_name() {
        let mut rows = rows();
        let take = |rows: &mut Rows, frame| match rows.take(frame) {
            Ok(Step::Item(Item::Row(row))) => row,
            other => panic!("no row: {other:?}"),
        };
        told(&mut rows, outbox());
        let before = take(&mut rows, insert("a"));
        // The server repeats itself after an unrelated change: nothing is to be resolved anew.
        told(&mut rows, outbox());
        let same = take(&mut rows, insert("b"));
        assert!(Arc::ptr_eq(&before.table, &same.table));

        let columns = [("tenant", TEXT), ("id", TEXT)];
        told(
            &mut rows,
            data(made::relation(OUTBOX, "eventlog", "events", &columns)),
        );
        let insert = made::insert(OUTBOX, &[cell("main"), cell("c")]);
        let after = take(&mut rows, data(insert));
        assert_eq!(after.table.columns, ["tenant", "id"]);
        assert!(!Arc::ptr_eq(&before.table, &after.table));
    }

    #[test]
    fn an_unchanged_value_is_absent() {
        let mut rows = rows();
        told(&mut rows, outbox());
        let insert = made::insert(OUTBOX, &[Cell::Unchanged]);
        assert_eq!(told(&mut rows, data(insert)), "Insert events absent");
    }

    #[test]
    fn a_type_that_is_not_built_in_is_asked_for_once() {
        let mut rows = rows();
        let columns = [("a", 16_500), ("b", 16_501), ("c", 16_502), ("d", 1700)];
        let relation = || data(made::relation(OUTBOX, "eventlog", "events", &columns));
        // A domain over uuid, by its base type's name; citext, wherever it was installed.
        told(&mut rows, data(made::type_of(16_500, "", "uuid")));
        told(
            &mut rows,
            data(made::type_of(16_501, "extensions", "citext")),
        );
        told(&mut rows, data(made::type_of(16_502, "public", "mood")));
        assert_eq!(told(&mut rows, relation()), "ask events [16502, 1700]");
        let numeric = Kind::Other("numeric".into());
        answer(
            &mut rows,
            relation(),
            Belongs::Outbox,
            &[(16_502, Kind::Text), (1700, numeric)],
        );
        assert_eq!(told(&mut rows, relation()), "");
        let binary = |bytes: &'static [u8]| Cell::Binary(Bytes::from_static(bytes));
        let cells = [
            binary(&[1; 16]),
            binary(b"C"),
            binary(b"calm"),
            binary(b"\0"),
        ];
        let insert = made::insert(OUTBOX, &cells);
        assert_eq!(
            told(&mut rows, data(insert)),
            "Insert events a uuid,C,calm,unreadable"
        );
    }

    #[test]
    fn a_type_that_is_gone_cannot_be_read_in_binary() {
        let mut rows = rows();
        let relation = made::relation(OUTBOX, "eventlog", "events", &[("a", 16_500)]);
        answer(&mut rows, data(relation), Belongs::Outbox, &[]);
        let insert = made::insert(OUTBOX, &[Cell::Binary(Bytes::from_static(b"x"))]);
        assert_eq!(told(&mut rows, data(insert)), "Insert events unreadable");
    }

    #[test]
    fn rows_that_contradict_their_table_are_malformed() {
        let mut rows = rows();
        assert!(rows.take(insert("never described")).is_err());
        told(&mut rows, outbox());
        for cells in [&[][..], &[cell("a"), cell("b")]] {
            assert!(rows.take(data(made::insert(OUTBOX, cells))).is_err());
        }
    }

    #[test]
    fn two_wishes_for_a_reply_within_a_second_are_a_hurry() {
        let ask = |rows: &mut Rows, end: u64, sent: i64| {
            let wish = Frame::KeepAlive {
                end: Lsn(end),
                wants_reply: true,
                sent,
            };
            let said = told(rows, wish);
            (said, rows.afterwards().is_some())
        };
        let mut rows = rows();
        // A quiet server asks every few seconds.
        for second in 1..5 {
            let said = ask(&mut rows, 100, second * 5_000_000);
            assert_eq!(said, (String::new(), false));
        }
        // One that is shutting down asks after every answer; the mark comes first, and it is said now and then only.
        let now = 60_000_000;
        assert_eq!(ask(&mut rows, 200, now), ("mark 200".into(), false));
        assert_eq!(ask(&mut rows, 201, now + 50), ("mark 201".into(), true));
        assert_eq!(ask(&mut rows, 201, now + 100), (String::new(), false));
        assert_eq!(ask(&mut rows, 201, now + 600_000), (String::new(), true));
    }

    /// All rows of a capture, in short.
    fn replay(messages: &[Bytes]) -> Vec<String> {
        let mut rows = Rows::new("eventlog", "events", Lsn(0));
        let mut told = Vec::new();
        for message in messages {
            let frame = match message[0] {
                b'B' => BEGIN,
                b'C' => Frame::Commit {
                    end: Lsn(u64::from_be_bytes(
                        message[10..18].try_into().expect("eight"),
                    )),
                },
                b'M' => Frame::Other,
                _ => Frame::Data(message.clone()),
            };
            match rows.take(frame).expect("well-formed") {
                Step::Nothing => {}
                Step::Item(Item::Row(row)) => told.push(shown(&row)),
                Step::Item(_) => told.push("mark".into()),
                Step::Ask(question) => {
                    let kind = |oid| {
                        (
                            oid,
                            if oid == 1700 {
                                Kind::Other("numeric".into())
                            } else {
                                Kind::Text
                            },
                        )
                    };
                    let kinds = question.types.iter().copied().map(kind).collect();
                    let belongs = if question.is_named_so {
                        Belongs::Outbox
                    } else {
                        Belongs::Foreign
                    };
                    rows.learn(&question.relation, Answer { belongs, kinds });
                }
                Step::Doubt(table) => panic!("doubt about {table}"),
            }
        }
        told
    }

    fn shown(row: &Row) -> String {
        let cells = std::iter::zip(&row.table.columns, &row.cells);
        // numeric is told otherwise in text and in binary, as it must be.
        let cells = cells.filter(|(column, _)| *column != "price");
        let cells: Vec<String> = cells
            .map(|(column, cell)| format!("{column}={cell:?}"))
            .collect();
        format!("{:?} {}", row.change, cells.join(" "))
    }

    #[test]
    fn every_server_and_both_forms_tell_the_same_rows() {
        let captures = captured::all();
        let told = replay(&captures[0].1);
        for (name, messages) in &captures {
            assert_eq!(replay(messages), told, "{name}");
        }
        let kinds: Vec<&str> = told
            .iter()
            .map(|row| row.split(' ').next().unwrap_or_default())
            .collect();
        assert_eq!(
            kinds.join(" "),
            "Insert mark Insert mark Insert mark Insert mark Update Update Update Update mark Delete mark mark Insert mark \
             Truncate mark"
        );
        let uuid = |last: u8| {
            let mut bytes = [0; 16];
            bytes[15] = last;
            format!("{bytes:?}")
        };
        assert_eq!(
            told[0],
            "Insert id=Uuid([0, 17, 34, 51, 68, 85, 102, 119, 136, 153, 170, 187, 204, 221, 238, 255]) \
             namespace=Text(\"wallet\") \
             action_id=Uuid([255, 238, 221, 204, 187, 170, 153, 136, 119, 102, 85, 68, 51, 34, 17, 0]) \
             action_name=Text(\"Deposit\") action_params=Text(\"{\\\"amount\\\": 12.50}\") \
             started_date=Micros(1781173367000123) completion_date=Micros(1781173367500000) model_id=Text(\"w-1\") \
             model_type=Text(\"calm\") event_type=Text(\"Deposited\") payload=Text(\"{\\\"note\\\": \\\"Grüße 🍀\\\"}\") \
             event_date=Micros(1781173367000000) delivered=Bool(false) shelf=Int(-9000000000) small=Int(-7) \
             day=Micros(1781136000000000) raw=Bytes(b\"\\0\\xff\\x7f\") note=Text(\"ab  \")"
        );
        assert_eq!(
            told[2],
            format!(
                "Insert id=Uuid({}) namespace=Text(\"wallet\") action_id=Uuid({}) action_name=Text(\"Noop\") \
                 action_params=Text(\"{{}}\") started_date=Unreadable(\"is infinity\") \
                 completion_date=Unreadable(\"is -infinity\") model_id=Null model_type=Null event_type=Null payload=Null \
                 event_date=Micros(-63517780800000000) delivered=Bool(true) shelf=Null small=Null \
                 day=Unreadable(\"is infinity\") raw=Null note=Null",
                uuid(2),
                uuid(10)
            )
        );
        assert!(told[4].contains("started_date=Unreadable(\"is too far from 1970"));
        assert!(told[4].contains("completion_date=Micros(253402300800000000)"));
        let last = &told[told.len() - 4];
        assert!(last.ends_with("tenant=Text(\"main\")"), "{last}");
    }
}
