mod printed;

use headwater_core::instant::Instant;
use headwater_core::row::{Change, Value};
use serde_json::{Value as Json, json};

use super::super::captured::{self, Capture};
use super::super::gtid::Gtids;
use super::super::made;
use super::*;

fn beginning(flavor: Flavor) -> Position {
    let gtids = match flavor {
        Flavor::MySql => Gtids::MySql("".parse().expect("an empty set")),
        Flavor::MariaDb => Gtids::MariaDb("".parse().expect("an empty list")),
    };
    Position::new(gtids, "binlog.000001", 4)
}

fn reading(capture: &Capture, layout: Option<Layout>) -> Rows {
    let flavor = capture.flavor();
    let start = beginning(flavor);
    Rows::new(flavor, "eventlog", capture.table(), start, layout, false)
}

/// All that comes of some events, or of those before the error.
fn items(rows: &mut Rows, events: &[Bytes]) -> (Vec<Item<Position>>, Option<Error>) {
    let mut items = Vec::new();
    let mut read = || {
        for event in events {
            rows.take(event.clone())?;
            while let Some(item) = rows.item()? {
                items.push(item);
            }
        }
        Ok(())
    };
    let error = read().err();
    (items, error)
}

fn inserts(items: &[Item<Position>]) -> Vec<&Row> {
    let inserts = items.iter().filter_map(|item| match item {
        Item::Row(row) if row.change == Change::Insert => Some(row),
        _ => None,
    });
    inserts.collect()
}

fn layout_of(capture: &Capture) -> Option<Layout> {
    let nameless = capture.case.starts_with("metadata") || capture.case.ends_with("_minimal");
    (nameless && capture.case != "image_minimal")
        .then(|| captured::layout(capture.server, &capture.case))
}

/// A row's cells by name, as the servers print them.
fn told(row: &Row, flavor: Flavor) -> serde_json::Map<String, Json> {
    let cells = row.table.columns.iter().zip(&row.cells);
    cells
        .filter_map(|(name, cell)| {
            let told = match cell {
                Value::Null | Value::Absent => Json::Null,
                Value::Bool(bit) => json!(i64::from(*bit).to_string()),
                Value::Int(number) => json!(number.to_string()),
                Value::Text(text) if flavor == Flavor::MySql && is_json(name) => {
                    serde_json::from_str(text).expect("JSON")
                }
                Value::Text(text) => json!(text.to_string()),
                Value::Uuid(_) => unreachable!("no column is known to be one"),
                Value::Bytes(bytes) => json!(hex(bytes)),
                Value::Micros(micros) => {
                    let iso = Instant(*micros).to_string();
                    json!(iso.replace('T', " ").trim_end_matches('Z'))
                }
                Value::Unreadable(_) => return None,
            };
            Some((name.clone(), told))
        })
        .collect()
}

fn is_json(column: &str) -> bool {
    matches!(column, "payload" | "action_params" | "js" | "doc")
}

fn hex(bytes: &[u8]) -> String {
    let digits = bytes.iter().map(|byte| format!("{byte:02X}"));
    digits.collect::<Vec<String>>().concat()
}

/// What the server said about one cell, in the same words.
fn truth(name: &str, told: &Json, truth: &Json, flavor: Flavor) -> Json {
    let text = match truth {
        Json::Null => return Json::Null,
        Json::String(text) => text.clone(),
        other => other.to_string(),
    };
    if is_json(name) && flavor == Flavor::MySql {
        return serde_json::from_str(&text).expect("JSON");
    }
    let told = told.as_str().unwrap_or_default();
    let is_uuid = told.len() == 32 && text.len() == 36;
    let is_date = told.len() == 26 && (10..26).contains(&text.len());
    if is_uuid {
        json!(text.replace('-', "").to_ascii_uppercase())
    } else if is_date {
        // Fewer digits than six mean the same.
        let (date, time) = text.split_once(' ').unwrap_or((&text, "00:00:00"));
        let (clock, fraction) = time.split_once('.').unwrap_or((time, ""));
        json!(format!("{date} {clock}.{fraction:0<6}"))
    } else if name == "ye" && text == "0000" {
        json!("0")
    } else {
        json!(text)
    }
}

/// Where a row differs from what its server said.
fn differences(row: &Row, expected: &Json, capture: &Capture) -> Vec<String> {
    let flavor = capture.flavor();
    let differs = told(row, flavor).into_iter().filter_map(|(name, told)| {
        // The server was asked after an update had set it.
        let is_updated = name == "delivered" && told == "0" || name == "i1" && told == "-128";
        // Nobody wants an address in a message.
        if matches!(name.as_str(), "ip4" | "ip6") {
            return None;
        }
        let expected = truth(&name, &told, expected.get(&name)?, flavor);
        (told != expected && !is_updated).then(|| format!("{name}: {told}, not {expected}"))
    });
    differs.collect()
}

#[test]
fn every_capture_gives_the_rows_that_its_server_tells() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    for capture in captured::all() {
        if matches!(capture.case.as_str(), "statement" | "json_huge" | "json") {
            continue;
        }
        let name = format!("{} {}", capture.server, capture.case);
        let mut rows = reading(&capture, layout_of(&capture));
        let (items, error) = items(&mut rows, &capture.events);
        wrong.extend(error.map(|error| format!("{name}: {error}")));
        let inserts = inserts(&items);
        if inserts.len() != capture.truth.len() {
            let expected = capture.truth.len();
            wrong.push(format!("{name}: {} rows, not {expected}", inserts.len()));
        }
        for (row, truth) in inserts.iter().zip(&capture.truth) {
            let differences = differences(row, truth, &capture).into_iter();
            wrong.extend(differences.map(|what| format!("{name}: {what}")));
            compared += row.cells.len();
        }
        if !matches!(items.last(), Some(Item::Mark(_))) {
            wrong.push(format!("{name}: no mark at its end"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 10_000, "{compared}");
}

#[test]
fn a_statement_on_the_outbox_is_fatal_where_it_stands() {
    for server in captured::SERVERS {
        let capture = captured::one(server, "statement");
        let mut rows = reading(&capture, None);
        let (items, error) = items(&mut rows, &capture.events);
        assert_eq!(inserts(&items).len(), 1, "{server}");
        assert!(matches!(items.last(), Some(Item::Mark(_))), "{server}");
        let Some(Error::Fatal { what, advice } | Error::Lost { what, advice }) = error else {
            panic!("{server}: passed over");
        };
        let (file, offset) = rows.place();
        assert!(what.contains(&format!("{file}:{offset}")), "{what}");
        assert!(advice.contains("binlog_format = ROW"), "{advice}");
        // Nothing comes after it, whoever asks again.
        assert!(rows.item().is_err());
        assert!(rows.take(made::format()).is_err());
    }
}

#[test]
fn a_log_without_names_needs_a_layout_and_refuses_a_wrong_one() {
    for server in captured::SERVERS {
        let capture = captured::one(server, "metadata_minimal");
        let failed = |layout| {
            let (_, error) = items(&mut reading(&capture, layout), &capture.events);
            error.expect("refused").to_string()
        };
        assert!(failed(None).contains("does not name the columns"));
        let mut layout = captured::layout(server, "metadata_minimal");
        layout.columns.swap(7, 11);
        assert!(failed(Some(layout.clone())).contains("its column"));
        layout.columns.pop();
        assert!(failed(Some(layout)).contains("13 columns in the log, and had 12"));
    }
}

#[test]
fn a_change_of_the_outbox_is_fatal_where_the_log_has_no_names() {
    for server in captured::SERVERS {
        let capture = captured::one(server, "ddl");
        let layout = captured::layout(server, "metadata_minimal");
        let (items, error) = items(&mut reading(&capture, Some(layout)), &capture.events);
        assert_eq!(inserts(&items).len(), 1);
        let error = error.expect("refused").to_string();
        assert!(error.contains("was changed at"), "{error}");
    }
}

// --- made by hand

/// What came, in short.
fn short(items: &[Item<Position>]) -> String {
    let words: Vec<String> = items
        .iter()
        .map(|item| match item {
            Item::Row(row) => match row.cells.first() {
                Some(Value::Text(text)) => text.to_string(),
                _ => format!("{:?}", row.change).to_lowercase(),
            },
            Item::Mark(position) => format!("@{}", position.offset),
            Item::Hurry => "hurry".into(),
            Item::End => "end".into(),
        })
        .collect();
    words.join(" ")
}

fn mysql(layout: Option<Layout>) -> Rows {
    Rows::new(
        Flavor::MySql,
        "eventlog",
        "events",
        beginning(Flavor::MySql),
        layout,
        false,
    )
}

fn outbox() -> Bytes {
    made::table(1, "eventlog", "events", &made::columns(true))
}

/// What a log of these events comes to.
fn log(rows: &mut Rows, events: &[Bytes]) -> Result<String, Error> {
    rows.take(made::format())?;
    let (items, error) = items(rows, events);
    error.map_or(Ok(short(&items)), Err)
}

fn begin(number: u64) -> [Bytes; 2] {
    let end = u32::try_from(number).expect("small") * 1000;
    [
        made::gtid(end + 100, number, 5_000_000 + number),
        made::query(end + 200, "", "BEGIN"),
    ]
}

fn joined(parts: &[&[Bytes]]) -> Vec<Bytes> {
    parts.concat()
}

const WRITE: u8 = 30;
const UPDATE: u8 = 31;
const DELETE: u8 = 32;

#[test]
fn a_mark_comes_after_the_rows_of_its_transaction() {
    let events = joined(&[
        &begin(1),
        &[
            outbox(),
            made::rows(WRITE, 1, &["a", "b"]),
            made::rows(UPDATE, 1, &["x"]),
        ],
        &[made::rows(DELETE, 1, &["x"]), made::xid(1900)],
        &begin(2),
        &[made::table(2, "eventlog", "other", &made::columns(true))],
        &[
            made::rows(WRITE, 2, &["c"]),
            made::query(2900, "", "COMMIT"),
        ],
    ]);
    let mut rows = mysql(None);
    let told = log(&mut rows, &events).expect("well-formed");
    assert_eq!(told, "a b update delete @1900 @2900");
    assert_eq!(rows.committed_at(), Some(5_000_001));
    let uuid = "07070707-0707-0707-0707-070707070707";
    assert_eq!(rows.transaction(), Some(format!("{uuid}:1")));
    let last = rows.position.last.expect("a transaction");
    assert_eq!((last.offset, last.committed), (2032, 5_000_002));
    assert_eq!(rows.position.gtids.to_string(), format!("{uuid}:1-2"));
}

#[test]
fn rows_wait_for_their_commit_and_are_dropped_with_it() {
    let some = |name| [outbox(), made::rows(WRITE, 1, &[name])];
    let text = |end, text: &str| made::query(end, "", text);
    let events = joined(&[
        &begin(1),
        &some("gone"),
        &[text(1900, "ROLLBACK")],
        &begin(2),
        &some("kept"),
        &[text(2300, "SAVEPOINT `a`")],
        &some("gone"),
        &[text(2400, "SAVEPOINT `b`")],
        &some("gone"),
        &[text(2500, "ROLLBACK TO `A`")],
        &some("kept2"),
        &[made::xid(2900)],
        // Never ended: the server was killed.
        &begin(3),
        &some("gone"),
        &[made::rotate(3500, "binlog.000002", 4)],
    ]);
    let told = log(&mut mysql(None), &events).expect("well-formed");
    assert_eq!(told, "@1900 kept kept2 @2900 @4");
}

#[test]
fn a_large_transaction_is_not_held_and_cannot_be_taken_back() {
    let row = "r".repeat(200);
    let many = vec![row.as_str(); 500];
    let mut events = joined(&[&begin(1), &[outbox()]]);
    events.extend(std::iter::repeat_n(made::rows(WRITE, 1, &many), 30));
    let mut rows = mysql(None);
    rows.take(made::format()).expect("well-formed");
    let (handed, error) = items(&mut rows, &events);
    assert_eq!((handed.len(), error), (15_000, None));
    assert!(rows.committed_at().is_some());
    let (more, error) = items(&mut rows, &[made::xid(1900)]);
    assert_eq!((short(&more).as_str(), error), ("@1900", None));

    let mut rows = mysql(None);
    rows.take(made::format()).expect("well-formed");
    let (_, error) = items(&mut rows, &events);
    assert_eq!(error, None);
    let (_, error) = items(&mut rows, &[made::query(1900, "", "ROLLBACK")]);
    assert!(
        error
            .expect("fatal")
            .to_string()
            .contains("was rolled back at")
    );
}

/// An ordinary one of MySQL, with one row.
fn one(number: u64, row: &str) -> Vec<Bytes> {
    let end = u32::try_from(number).expect("small") * 1000 + 900;
    let rest = [outbox(), made::rows(WRITE, 1, &[row]), made::xid(end)];
    joined(&[&begin(number), &rest])
}

/// The position at the end of some events.
fn after(mut rows: Rows, events: &[Bytes]) -> Position {
    rows.take(made::format()).expect("well-formed");
    let (items, error) = items(&mut rows, events);
    assert_eq!(error, None);
    let Some(Item::Mark(position)) = items.into_iter().next_back() else {
        panic!("no mark");
    };
    position
}

/// A reading that begins one transaction early.
fn again(position: Position) -> Rows {
    let flavor = match position.gtids {
        Gtids::MariaDb(_) => Flavor::MariaDb,
        _ => Flavor::MySql,
    };
    Rows::new(flavor, "eventlog", "events", position, None, true)
}

#[test]
fn the_last_transaction_is_swallowed_and_must_be_the_same() {
    let events = joined(&[&one(1, "a"), &one(2, "b")]);
    let position = after(mysql(None), &events[..5]);
    let told = log(&mut again(position.clone()), &events).expect("the same");
    assert_eq!(told, "b @2900");
    // Where only places count, it must be there.
    let mut unnamed = position.clone();
    unnamed.gtids = Gtids::None;
    let told = log(&mut again(unnamed.clone()), &events);
    assert_eq!(told.as_deref(), Ok("b @2900"));
    let error = log(&mut again(unnamed), &events[5..]).expect_err("another one");
    assert!(error.to_string().contains("07:2, committed at"), "{error}");

    let mut other = position;
    if let Some(last) = &mut other.last {
        last.committed += 1;
    }
    let error = log(&mut again(other), &events).expect_err("another one");
    assert!(
        error.to_string().contains("its binlog was reset"),
        "{error}"
    );
}

/// A replica may have logged other transactions before it than the server that was read first.
#[test]
fn transactions_before_the_awaited_one_are_read_and_do_not_replace_it() {
    let position = after(mysql(None), &one(1, "a"));
    let mut rows = again(position.clone());
    let told = log(&mut rows, &joined(&[&one(2, "b")])).expect("read on");
    assert_eq!(told, "b @2900");
    assert_eq!(rows.position.last, position.last);
    // Whoever begins here awaits it, too.
    let rest = joined(&[&one(1, "a"), &one(3, "c")]);
    let told = log(&mut again(rows.position.clone()), &rest);
    assert_eq!(told.as_deref(), Ok("c @3900"));
    let (told, error) = items(&mut rows, &rest);
    assert_eq!((short(&told).as_str(), error), ("c @3900", None));
    let last = rows.position.last.expect("a transaction");
    assert!(last.name().ends_with(":3"));
}

/// An ordinary one of MariaDB, with one row.
fn domain(end: u32, gtid: &str, time: u32, row: &str) -> Vec<Bytes> {
    vec![
        made::mariadb_gtid(end - 500, gtid, 0x0C, time),
        outbox(),
        made::rows(WRITE, 1, &[row]),
        made::xid(end),
    ]
}

#[test]
fn mariadbs_times_are_compared_on_one_server_only() {
    let first = joined(&[
        &domain(1000, "0-1-4", 6, "z"),
        &domain(2000, "0-1-5", 7, "a"),
    ]);
    let position = after(mariadb().on("0-1", &Arc::default()), &first);
    // A replica writes its own time.
    let there = domain(5000, "0-1-5", 9, "a");
    let mut rows = again(position.clone()).on("0-2", &Arc::default());
    assert_eq!(log(&mut rows, &there).as_deref(), Ok("@5000"));
    let moved = rows.position.clone();
    let last = moved.last.as_ref().expect("a transaction");
    assert_eq!((last.committed, last.offset), (9_000_000, 4462));
    assert_eq!(last.server.as_deref(), Some("0-2"));
    assert_eq!(
        last.before,
        position.last.as_ref().and_then(|last| last.before.clone())
    );
    // From there on it is compared with that.
    assert_eq!(
        log(&mut again(moved.clone()).on("0-2", &Arc::default()), &there).as_deref(),
        Ok("")
    );
    for (position, server, events) in [
        (&moved, "0-2", domain(5000, "0-1-5", 7, "a")),
        (&position, "0-1", there),
    ] {
        let error = log(
            &mut again(position.clone()).on(server, &Arc::default()),
            &events,
        )
        .expect_err("reset");
        assert!(error.to_string().contains("reset"), "{error}");
    }
}

#[test]
fn a_server_that_never_had_the_last_transaction_is_refused() {
    let first = joined(&[
        &domain(1000, "0-1-4", 6, "z"),
        &domain(2000, "0-1-5", 7, "a"),
    ]);
    let position = after(mariadb().on("0-1", &Arc::default()), &first);
    for (server, events) in [
        ("0-2", domain(5000, "0-2-5", 7, "b")),
        ("0-2", domain(6000, "0-2-6", 7, "c")),
        ("0-1", domain(6000, "0-1-6", 7, "c")),
    ] {
        let mut rows = again(position.clone()).on(server, &Arc::default());
        let told = log(&mut rows, &events).unwrap_err().to_string();
        assert!(told.contains("in its place"), "{told}");
    }
    // Other domains have an order of their own.
    let events = joined(&[
        &domain(5000, "1-2-9", 7, "b"),
        &domain(6000, "0-1-5", 7, "a"),
    ]);
    let mut rows = again(position).on("0-2", &Arc::default());
    assert_eq!(log(&mut rows, &events).as_deref(), Ok("b @5000 @6000"));
    assert_eq!(rows.position.gtids.to_string(), "0-1-5,1-2-9");
}

#[test]
fn one_of_the_same_second_elsewhere_in_the_log_of_its_server_is_another() {
    let first = domain(2000, "0-1-5", 7, "a");
    let position = after(mariadb().on("0-1", &Arc::default()), &first);
    let elsewhere = domain(2500, "0-1-5", 7, "b");
    let mut rows = again(position.clone()).on("0-1", &Arc::default());
    let told = log(&mut rows, &elsewhere).unwrap_err().to_string();
    assert!(told.contains("in its place"), "{told}");
    let mut rows = again(position).on("0-2", &Arc::default());
    assert_eq!(log(&mut rows, &elsewhere).as_deref(), Ok("@2500"));
}

fn xa(number: u64, name: &str, row: Option<&str>) -> Vec<Bytes> {
    let end = u32::try_from(number).expect("small") * 1000;
    let mut events = vec![
        made::gtid(end + 100, number, number),
        made::query(end + 200, "", "XA START X'61',X'',1"),
    ];
    if let Some(row) = row {
        events.extend([outbox(), made::rows(WRITE, 1, &[row])]);
    }
    events.push(made::query(end + 800, "", "XA END X'61',X'',1"));
    events.push(made::xa_prepare(end + 900, name, false));
    events
}

fn xa_end(number: u64, text: &str) -> [Bytes; 2] {
    let end = u32::try_from(number).expect("small") * 1000;
    [
        made::gtid(end + 100, number, number),
        made::query(end + 900, "", text),
    ]
}

#[test]
fn prepared_rows_wait_for_their_xa_commit_and_hold_the_position_back() {
    let events = joined(&[
        &one(1, "a"),
        &xa(2, "a", Some("late")),
        &one(3, "b"),
        &xa(4, "b", Some("never")),
        &xa_end(5, "XA ROLLBACK X'62',X'',1"),
        &one(6, "c"),
        &xa_end(7, "XA COMMIT X'61',X'',1"),
        &one(8, "d"),
    ]);
    let mut rows = mysql(None);
    let told = log(&mut rows, &events).expect("well-formed");
    assert_eq!(
        told,
        "a @1900 @1900 b @1900 @1900 @1900 c @1900 late @7900 d @8900"
    );
    assert_eq!(rows.prepared.bytes(), 0);
}

fn mariadb() -> Rows {
    let start = beginning(Flavor::MariaDb);
    Rows::new(Flavor::MariaDb, "eventlog", "events", start, None, false)
}

/// More than is held of a transaction whose rows are committed with it.
fn large() -> Vec<Bytes> {
    let row = "r".repeat(200);
    let many = vec![row.as_str(); 500];
    let mut events = vec![outbox()];
    events.extend(std::iter::repeat_n(made::rows(WRITE, 1, &many), 20));
    events
}

/// MariaDB writes no XA START: its GTID alone says so.
#[test]
fn a_large_prepared_transaction_of_mariadb_is_held_until_its_end() {
    const PREPARED: u8 = 0x4C;
    const STANDALONE: u8 = 1;
    let prepared = joined(&[
        &[made::mariadb_gtid(1100, "0-1-1", PREPARED, 7)],
        &large(),
        &[made::xa_prepare(1900, "a", false)],
    ]);
    for (end, count, told) in [("COMMIT", 10_001, "@2900"), ("ROLLBACK", 1, "@2900")] {
        let mut rows = mariadb();
        assert_eq!(log(&mut rows, &prepared).as_deref(), Ok("@4"), "{end}");
        let ends = [
            made::mariadb_gtid(2100, "0-1-2", STANDALONE, 7),
            made::query(2900, "", &format!("XA {end} X'61',X'',1")),
        ];
        let (items, error) = items(&mut rows, &ends);
        assert_eq!((items.len(), error), (count, None), "{end}");
        assert!(short(&items).ends_with(told));
    }
    // Where nothing said so, what was handed over cannot be passed over.
    let mut unsaid = prepared;
    unsaid[0] = made::mariadb_gtid(1100, "0-1-1", 0x0C, 7);
    let error = log(&mut mariadb(), &unsaid).expect_err("fatal");
    assert!(error.to_string().contains("before its end"), "{error}");
}

#[test]
fn a_transaction_that_begins_inside_another_is_fatal_if_that_has_rows() {
    let cut = joined(&[
        &begin(1),
        &[outbox(), made::rows(WRITE, 1, &["a"])],
        &begin(2),
    ]);
    let large = joined(&[&begin(1), &large(), &begin(2)]);
    for events in [cut, large] {
        let error = log(&mut mysql(None), &events).expect_err("fatal");
        assert!(error.to_string().contains("inside another"), "{error}");
    }
    let empty = joined(&[&begin(1), &begin(2), &[made::xid(2900)]]);
    assert_eq!(log(&mut mysql(None), &empty).as_deref(), Ok("@2900"));
}

/// The mark before `b` must not hide the end of `a`, whose rows came before it.
#[test]
fn the_position_moves_up_to_the_oldest_that_is_prepared() {
    let events = joined(&[
        &one(1, "x"),
        &xa(2, "a", Some("first")),
        &one(3, "y"),
        &xa(4, "b", Some("second")),
        &xa(5, "c", Some("never")),
        &xa_end(6, "XA COMMIT X'61',X'',1"),
        &one(7, "z"),
        &xa_end(8, "XA COMMIT X'62',X'',1"),
        &xa_end(9, "XA ROLLBACK X'63',X'',1"),
    ]);
    let mut rows = mysql(None);
    rows.take(made::format()).expect("well-formed");
    let (items, error) = items(&mut rows, &events);
    let told = "x @1900 @1900 y @1900 @1900 @1900 first @3900 z @3900 second @4900 @9900";
    assert_eq!((short(&items).as_str(), error), (told, None));
    let marks = items.iter().filter_map(|item| match item {
        Item::Mark(position) => Some(position.clone()),
        _ => None,
    });
    let names = |position: &Position| position.prepared.iter().cloned().collect::<Vec<String>>();
    let mut marks: Vec<Position> = marks.collect();
    marks.dedup();
    assert_eq!(names(&marks[1]), ["X'61',X'',1"]);
    assert_eq!(names(&marks[2]), ["X'61',X'',1", "X'62',X'',1"]);
    assert!(names(&marks[3]).is_empty());

    // Each of them is a place to begin at: nothing is lost, and what was committed before it is not told again.
    let begin = |mark: &Position, from: usize| {
        let start = mark.clone();
        let mut later = Rows::new(Flavor::MySql, "eventlog", "events", start, None, false);
        let told = log(&mut later, &events[from..]).expect("well-formed");
        assert!(later.position.prepared.is_empty() && later.prepared.is_empty());
        told
    };
    let place = |number: u64| {
        let gtid = &made::gtid(
            u32::try_from(number).expect("small") * 1000 + 100,
            number,
            number,
        );
        events
            .iter()
            .position(|event| event[..] == gtid[..])
            .expect("its beginning")
    };
    assert_eq!(
        begin(&marks[1], place(4)),
        "@3900 @3900 @3900 z @3900 second @4900 @9900"
    );
    assert_eq!(
        begin(&marks[2], place(5)),
        "@4900 @4900 z @4900 @4900 @9900"
    );
}

#[tokio::test(start_paused = true)]
async fn one_that_nobody_ends_is_told_once() {
    let mut rows = mysql(None);
    log(&mut rows, &xa(1, "a", Some("x"))).expect("well-formed");
    let told = |rows: &Rows| rows.prepared.is_told("X'61',X'',1");
    tokio::time::advance(std::time::Duration::from_secs(59)).await;
    log(&mut rows, &[]).expect("well-formed");
    assert!(!told(&rows));
    tokio::time::advance(std::time::Duration::from_secs(2)).await;
    log(&mut rows, &[]).expect("well-formed");
    assert!(told(&rows));
}

#[test]
fn prepared_transactions_without_rows_hold_nothing_back_and_are_remembered() {
    let mut rows = mysql(None);
    let told = log(&mut rows, &xa(1, "a", None)).expect("well-formed");
    assert_eq!(told, "@1900");
    let names: Vec<&String> = rows.position.prepared.iter().collect();
    assert_eq!(names, ["X'61',X'',1"]);
    // A later reading knows it from its position.
    let start = rows.position.clone();
    let mut later = Rows::new(Flavor::MySql, "eventlog", "events", start, None, false);
    let told = log(&mut later, &xa_end(2, "XA COMMIT X'61',X'',1")).expect("known");
    assert_eq!(told, "@2900");
    assert!(later.position.prepared.is_empty());
    // And one that was never seen is fatal, unless nothing comes of it.
    let told = log(&mut later, &xa_end(3, "XA ROLLBACK X'62',X'',1"));
    assert_eq!(told.as_deref(), Ok("@3900"));
    let error = log(&mut later, &xa_end(4, "XA COMMIT X'62',X'',1")).expect_err("fatal");
    assert!(
        error.to_string().contains("before this pipeline began"),
        "{error}"
    );
}

#[test]
fn xa_in_one_phase_is_a_commit() {
    let mut events = xa(1, "a", Some("x"));
    events.pop();
    events.push(made::xa_prepare(1900, "a", true));
    assert_eq!(log(&mut mysql(None), &events).as_deref(), Ok("x @1900"));
}

/// More than is held of prepared ones: its beginning and 90,000 rows.
fn huge() -> Vec<Bytes> {
    let row = "r".repeat(200);
    let many = vec![row.as_str(); 5000];
    let mut events = xa(1, "a", None);
    events.truncate(2);
    events.push(outbox());
    events.extend(std::iter::repeat_n(made::rows(WRITE, 1, &many), 18));
    events
}

#[test]
fn a_prepared_transaction_that_is_too_large_to_be_held_is_read_again_when_it_is_committed() {
    let prepare = made::xa_prepare(1900, "a", false);
    let prepared = joined(&[&huge(), &[prepare], &one(2, "b")]);
    let committed = joined(&[&prepared, &xa_end(3, "XA COMMIT X'61',X'',1")]);
    let learned = Arc::default();
    let reading = || mysql(None).on("a server", &learned);
    let read = |events: &[Bytes]| {
        let mut rows = reading();
        rows.take(made::format()).expect("well-formed");
        let (items, error) = items(&mut rows, events);
        assert_eq!(rows.prepared.bytes(), 0);
        (
            items.len(),
            error,
            short(items.get(90_000..).unwrap_or(&items)),
        )
    };
    // Nothing comes of one that is rolled back, and nothing has to be read again.
    let gone = joined(&[&prepared, &xa_end(3, "XA ROLLBACK X'61',X'',1")]);
    assert_eq!(read(&gone), (4, None, "@4 b @4 @3900".into()));
    let (_, error, told) = read(&committed);
    assert!(matches!(error, Some(Error::Transient(_))), "{error:?}");
    assert_eq!(told, "@4 b @4");
    let told = "@1900 b @2900 @3900".to_owned();
    assert_eq!(read(&committed), (90_004, None, told));
}

#[test]
fn one_in_one_phase_is_read_again_when_it_is_too_large_to_be_held() {
    let events = joined(&[&huge(), &[made::xa_prepare(1900, "a", true)]]);
    let learned = Arc::default();
    let mut rows = mysql(None).on("a server", &learned);
    let error = log(&mut rows, &events).expect_err("not held");
    assert!(matches!(error, Error::Transient(_)), "{error}");
    let mut rows = mysql(None).on("a server", &learned);
    rows.take(made::format()).expect("well-formed");
    let (items, error) = items(&mut rows, &events);
    assert_eq!((items.len(), error), (90_001, None));
    assert!(rows.position.prepared.is_empty());
}

#[test]
fn prepared_transactions_are_counted() {
    let mut rows = mysql(None);
    rows.take(made::format()).expect("well-formed");
    for number in 1..=1001 {
        let events = xa(number, &number.to_string(), Some("x"));
        let (_, error) = items(&mut rows, &events);
        assert_eq!(error.is_some(), number == 1001);
    }
}

#[test]
fn statements_end_transactions_of_their_own() {
    let one = |number: u64, text: &str| {
        let end = u32::try_from(number).expect("small") * 1000;
        [
            made::gtid(end + 100, number, 7),
            made::query(end + 900, "eventlog", text),
        ]
    };
    let events = joined(&[
        &one(1, "CREATE TABLE x (n INT)"),
        &one(2, "TRUNCATE TABLE events"),
        &one(3, "ALTER TABLE events ADD COLUMN n INT"),
        &[made::query(3950, "", "# Dummy")],
        &one(4, "CREATE TABLE `y` (`n` int) START TRANSACTION"),
        &[
            made::table(2, "eventlog", "y", &made::columns(true)),
            made::rows(WRITE, 2, &["n"]),
        ],
        &[made::xid(4990)],
    ]);
    let told = log(&mut mysql(None), &events).expect("well-formed");
    assert_eq!(told, "@1900 truncate @2900 @3900 @4990");
    let layout = Some(Layout {
        columns: Vec::new(),
    });
    let error = log(&mut mysql(layout), &events).expect_err("refused");
    assert!(error.to_string().contains("binlog.000001:3"), "{error}");
}

#[test]
fn statements_on_other_tables_are_told_once_of_each_kind() {
    let mut rows = mysql(None);
    for number in 1..=300 {
        let [gtid, begin] = begin(number);
        let end = u32::try_from(number).expect("small") * 1000;
        let text = format!("UPDATE t{} SET n = 1", number.div_ceil(2));
        let events = [
            gtid,
            begin,
            made::query(end + 500, "shop", &text),
            made::xid(end + 900),
        ];
        assert!(log(&mut rows, &events).is_ok());
    }
    assert_eq!(rows.elsewhere.len(), 100);
    assert!(rows.elsewhere.contains("UPDATE shop.t1"));
}

#[test]
fn what_cannot_be_passed_over_is_fatal_with_its_place() {
    let bad = |event: Bytes| {
        let error = log(&mut mysql(None), &[event]).expect_err("fatal");
        assert!(matches!(error, Error::Fatal { .. }));
        error.to_string()
    };
    assert!(bad(made::event(99, 500, 0, b"x")).contains("unknown type 99"));
    assert!(bad(made::event(164, 500, 0, b"x")).contains("encrypted"));
    let incident = bad(made::event(26, 500, 0, b"\x01\x00\x04lost"));
    assert!(incident.contains("lost (incident 1)"), "{incident}");
    let cut = bad(made::event(33, 500, 0, b"x"));
    assert!(cut.contains("binlog.000001:480"), "{cut}");
    assert!(bad(made::xid(500)).contains("never began"));
    let rows = joined(&[&begin(1), &[made::rows(WRITE, 9, &["x"])]]);
    let error = log(&mut mysql(None), &rows).expect_err("fatal");
    assert!(error.to_string().contains("never described"));
    // These may be passed over.
    let ignorable = [
        made::event(99, 500, 0x80, b"x"),
        made::event(27, 0, 0, b"x"),
    ];
    assert_eq!(log(&mut mysql(None), &ignorable).as_deref(), Ok(""));
}

#[test]
fn a_rotation_is_a_mark_but_not_the_servers_word_about_where_it_begins() {
    let told = made::event(4, 0, 0x20, b"\x04\0\0\0\0\0\0\0binlog.000007");
    let mut rows = mysql(None);
    assert_eq!(log(&mut rows, &[told]).as_deref(), Ok(""));
    assert_eq!(rows.place(), ("binlog.000007", 4));
    let events = [made::rotate(500, "binlog.000008", 4)];
    let (marks, _) = items(&mut rows, &events);
    let Some(Item::Mark(position)) = marks.first() else {
        panic!("no mark");
    };
    assert_eq!((&*position.file, position.offset), ("binlog.000008", 4));
}

#[test]
fn offsets_go_on_beyond_four_gigabytes() {
    let mut place = Place {
        file: "b.1".into(),
        start: 0,
        end: 4,
    };
    let mut pass = |end: u32, size: u32| {
        let event = made::event(16, end, 0, &vec![0; size as usize - 19]);
        place.pass(&Header::read(&event).expect("a header"));
        (place.start, place.end)
    };
    assert_eq!(pass(4_000_000_000, 100), (3_999_999_900, 4_000_000_000));
    assert_eq!(pass(0, 100), (4_000_000_000, 4_000_000_100));
    assert_eq!(pass(100, 50), ((1 << 32) + 50, (1 << 32) + 100));
}

#[test]
fn a_wrong_checksum_is_fatal() {
    let capture = captured::one("mysql", "plain");
    let flip = |which: usize| {
        let mut events = capture.events.clone();
        let mut wrong = events[which].to_vec();
        let last = wrong.len() - 6;
        wrong[last] ^= 1;
        events[which] = wrong.into();
        items(&mut reading(&capture, None), &events).1
    };
    for which in 0..capture.events.len() {
        // The rotation at the end is passed over where it changes nothing; no event is.
        let error = flip(which).expect("fatal").to_string();
        assert!(error.contains("checksum") || which == 0, "{error}");
    }
}

// --- bytes that nobody wrote

/// Without checksums, which would find every change.
fn bare(event: &Bytes) -> Bytes {
    let header = Header::read(event).expect("a header");
    let mut bare = event.to_vec();
    if header.is_format() {
        let algorithm = bare.len() - 5;
        bare[algorithm] = 0;
        return bare.into();
    }
    bare.truncate(event.len() - 4);
    let size = u32::try_from(bare.len()).expect("small");
    bare[9..13].copy_from_slice(&size.to_le_bytes());
    bare.into()
}

#[test]
fn every_event_cut_at_any_byte_is_survived() {
    let opened = [&[made::format()][..], &begin(1)].concat();
    for capture in captured::all() {
        if capture.case == "checksum_none" {
            continue;
        }
        let layout = layout_of(&capture);
        let mut rows = reading(&capture, layout.clone());
        for event in &capture.events {
            let whole = bare(event);
            for length in 0..whole.len() {
                let mut cut = whole[..length].to_vec();
                if let Some(size) = cut.get_mut(9..13) {
                    size.copy_from_slice(&u32::try_from(length).expect("small").to_le_bytes());
                }
                let mut trial = reading(&capture, layout.clone());
                trial.checksums = Some(false);
                trial.position = rows.position.clone();
                if rows.transaction.is_some() {
                    let _ = items(&mut trial, &opened);
                }
                trial.tables.clone_from(&rows.tables);
                let _ = items(&mut trial, &[cut.into()]);
            }
            let (_, error) = items(&mut rows, &[whole]);
            if error.is_some() {
                break;
            }
        }
    }
}

/// Also of events that do not know it (MariaDB 11.8 writes 0 inside transactions), and of packed ones.
#[test]
fn every_place_and_every_mark_is_the_captured_files_own() {
    let (mut marks, mut unknowing) = (0, 0);
    for capture in captured::all() {
        if capture.case == "statement" {
            continue;
        }
        let mut rows = reading(&capture, layout_of(&capture));
        let mut end: u64 = 4;
        for event in &capture.events {
            let start = end;
            end += event.len() as u64;
            let name = format!("{} {} {start}", capture.server, capture.case);
            let header = Header::read(event).expect("a header");
            unknowing += usize::from(header.end == 0);
            let (items, error) = items(&mut rows, std::slice::from_ref(event));
            assert_eq!(error, None, "{name}");
            let rotated = header.kind == 4;
            if !rotated {
                assert_eq!(rows.place(), ("binlog.000001", start), "{name}");
            }
            for item in items {
                let Item::Mark(position) = item else { continue };
                if rotated {
                    assert_eq!(position.offset, 4, "{name}");
                } else if rows.prepared.is_empty() {
                    assert_eq!(position.offset, end, "{name}");
                } else {
                    assert!(position.offset < start, "{name}");
                }
                marks += 1;
            }
        }
    }
    assert!(marks > 500 && unknowing > 100, "{marks}, {unknowing}");
}

/// Numbers that look random, and are the same each time.
struct Dice(u64);

impl Dice {
    fn next(&mut self, below: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % below as u64).expect("small")
    }
}

#[test]
fn corrupted_logs_are_survived_in_bounded_time() {
    let begun = std::time::Instant::now();
    let mut dice = Dice(0x9E37_79B9_7F4A_7C15);
    let mut failed = 0;
    for capture in captured::all() {
        let events: Vec<Bytes> = match capture.case.as_str() {
            "checksum_none" => capture.events.clone(),
            _ => capture.events.iter().map(bare).collect(),
        };
        let layout = layout_of(&capture);
        for _ in 0..60 {
            let mut events = events.clone();
            for _ in 0..=dice.next(3) {
                let which = dice.next(events.len());
                let mut wrong = events[which].to_vec();
                // The size must stay, or nothing else is read.
                let at = 19 + dice.next(wrong.len() - 19);
                wrong[at] = u8::try_from(dice.next(256)).expect("a byte");
                events[which] = wrong.into();
            }
            let (_, error) = items(&mut reading(&capture, layout.clone()), &events);
            failed += usize::from(error.is_some());
        }
    }
    assert!(failed > 500, "{failed}");
    assert!(begun.elapsed().as_secs() < 60, "{:?}", begun.elapsed());
}

#[test]
fn a_place_is_reached_with_the_event_that_ends_there() {
    let mut rows = mariadb();
    rows.take(made::format()).unwrap();
    assert!(!rows.has_reached("binlog.000001", 2000));
    for event in domain(2000, "0-1-5", 7, "a") {
        assert!(!rows.has_reached("binlog.000001", 2000));
        rows.take(event).unwrap();
    }
    let file = rows.position.file.to_string();
    assert!(rows.has_reached(&file, 2000) && !rows.has_reached(&file, 2001));
    assert!(!rows.has_reached("binlog.1000000", 4));
    // Its rows are still to be handed over.
    assert!(matches!(rows.item(), Ok(Some(Item::Row(_)))));
}
