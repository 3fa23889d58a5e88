//! The source against real SQLite files, and a real writer at work on them.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::event::{Outbox, Role};
use headwater_core::positions::FORMAT;
use headwater_core::row::{Change, Table, Value};
use headwater_core::trouble::Trouble;
use headwater_core::window::{Key, Window};
use rusqlite::{Connection, params};
use tempfile::TempDir;
use tokio::time::timeout;

use super::*;
use crate::{Finding, Level};

const SCHEMA: &str = include_str!("../../../../schemas/outbox/sqlite.sql");
const SOON: Duration = Duration::from_secs(20);
const NOTHING_COMES: Duration = Duration::from_millis(300);

struct Place {
    folder: TempDir,
    journal: &'static str,
}

impl Place {
    /// A new file with the outbox table.
    fn new(journal: &'static str) -> Place {
        let folder = TempDir::new().expect("a folder");
        let place = Place { folder, journal };
        place.writer().execute_batch(SCHEMA).expect("the schema");
        place
    }

    fn path(&self) -> std::path::PathBuf {
        self.folder.path().join("shop.db")
    }

    fn settings(&self) -> Settings {
        Settings {
            name: "shop".into(),
            path: self.path(),
            table: "events".into(),
        }
    }

    fn writer(&self) -> Connection {
        let writer = Connection::open(self.path()).expect("the file");
        writer.busy_timeout(SOON).expect("a timeout");
        writer
            .pragma_update(None, "journal_mode", self.journal)
            .expect("a journal mode");
        writer
            .pragma_update(None, "synchronous", "off")
            .expect("no sync");
        writer
    }

    fn record(&self, position: &Position) -> Record {
        Record {
            format: FORMAT,
            name: "shop".into(),
            run: 1,
            source: Sqlite::new(self.settings()).identity(),
            position: serde_json::to_value(position).expect("json"),
            event_time: None,
            written_at: String::new(),
            headwater: String::new(),
            blocked: None,
            snapshot: None,
        }
    }

    async fn open(&self, position: &Position) -> Result<Tail, Error> {
        let record = self.record(position);
        Sqlite::new(self.settings()).open(&record).await
    }

    async fn refusal(&self, position: &Position) -> String {
        let error = self.open(position).await.expect_err("must be refused");
        assert!(error.is_fatal(), "{error}");
        error.to_string()
    }
}

fn at(seq: i64, id: &str) -> Position {
    Position {
        seq,
        id: Some(id.into()),
    }
}

const BEGINNING: Position = Position { seq: 0, id: None };

fn insert(writer: &Connection, id: &str) {
    insert_payload(writer, id, r#"{"amount": 12.50}"#);
}

fn insert_payload(writer: &Connection, id: &str, payload: &str) {
    let mut statement = writer
        .prepare_cached(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                                 model_id, model_type, event_type, payload, event_date, delivered)
             VALUES (?1, 'wallet', 'a-1', 'Deposit', '{}', '2026-06-12 03:22:47.000123', '2026-06-12 03:22:47.000123',
                     'w-1', 'Wallet', 'Deposited', ?2, '2026-06-12 03:22:47.000123', FALSE)",
        )
        .expect("the statement");
    statement.execute(params![id, payload]).expect("an insert");
}

fn id(row: &Row) -> String {
    let roles = Outbox::ekbatan().bind(&row.table).expect("an outbox");
    match roles.cell(row, Role::Id) {
        Value::Text(text) => text.to_string(),
        other => panic!("{other:?} is no id"),
    }
}

async fn next(tail: &mut Tail) -> Item<Position> {
    let item = timeout(SOON, tail.next()).await.expect("something comes");
    item.expect("no error")
}

/// The ids of the next `count` rows, and the mark after them.
async fn take(tail: &mut Tail, count: usize) -> (Vec<String>, Position) {
    let mut ids = Vec::new();
    loop {
        match next(tail).await {
            Item::Row(row) => {
                assert_eq!(row.change, Change::Insert);
                ids.push(id(&row));
            }
            Item::Mark(position) if ids.len() >= count => return (ids, position),
            Item::Mark(position) => {
                assert_eq!(position.id.as_ref(), ids.last(), "a mark is the last row's");
            }
            Item::Hurry | Item::End => panic!("nobody hurries, and a table has no end"),
        }
    }
}

async fn quiet(tail: &mut Tail) {
    let item = timeout(NOTHING_COMES, tail.next()).await;
    assert!(item.is_err(), "{item:?} came");
}

#[tokio::test]
async fn rows_from_before_and_after_the_opening_come_in_order_with_a_mark_behind_them() {
    for journal in ["wal", "delete", "truncate", "persist"] {
        let place = Place::new(journal);
        let writer = place.writer();
        insert(&writer, "a");
        insert(&writer, "b");
        let mut tail = place.open(&BEGINNING).await.expect("open");
        assert_eq!(
            take(&mut tail, 2).await,
            (vec!["a".into(), "b".into()], at(2, "b"))
        );
        quiet(&mut tail).await;
        insert(&writer, "c");
        assert_eq!(take(&mut tail, 1).await, (vec!["c".into()], at(3, "c")));
        tail.close().await;

        insert(&writer, "d");
        let mut tail = place.open(&at(2, "b")).await.expect("open again");
        let expected = (vec!["c".into(), "d".into()], at(4, "d"));
        assert_eq!(take(&mut tail, 2).await, expected, "{journal}");
        tail.close().await;
    }
}

#[tokio::test]
async fn a_row_carries_every_column_by_name() {
    let place = Place::new("wal");
    insert(&place.writer(), "a");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    let Item::Row(row) = next(&mut tail).await else {
        panic!("a row comes first");
    };
    assert_eq!(row.table.schema, "main");
    assert_eq!(row.table.name, "events");
    assert_eq!(row.table.columns.len(), 14);
    assert_eq!(row.table.columns[0], "seq");
    let date = Value::Micros(1_781_234_567_000_123);
    let text = |it: &'static str| Value::Text(it.into());
    let expected = [
        Value::Int(1),
        text("a"),
        text("wallet"),
        text("a-1"),
        text("Deposit"),
        text("{}"),
        date.clone(),
        date.clone(),
        text("w-1"),
        text("Wallet"),
        text("Deposited"),
        text(r#"{"amount": 12.50}"#),
        date,
        Value::Bool(false),
    ];
    assert_eq!(row.cells, expected);
}

#[tokio::test]
async fn what_is_not_committed_or_rolled_back_is_absent_and_its_number_goes_to_the_next_commit() {
    for journal in ["wal", "delete"] {
        let place = Place::new(journal);
        let mut writer = place.writer();
        let mut tail = place.open(&BEGINNING).await.expect("open");
        let transaction = writer.transaction().expect("begin");
        insert(&transaction, "never");
        quiet(&mut tail).await;
        transaction.rollback().expect("rollback");
        let transaction = writer.transaction().expect("begin");
        insert(&transaction, "a");
        transaction
            .execute_batch("SAVEPOINT s")
            .expect("a savepoint");
        insert(&transaction, "neither");
        transaction
            .execute_batch("ROLLBACK TO s")
            .expect("back to it");
        insert(&transaction, "b");
        quiet(&mut tail).await;
        transaction.commit().expect("commit");
        let expected = (vec!["a".into(), "b".into()], at(2, "b"));
        assert_eq!(take(&mut tail, 2).await, expected, "{journal}");
    }
}

#[tokio::test]
async fn updates_and_deletes_bring_nothing() {
    let place = Place::new("wal");
    let writer = place.writer();
    insert(&writer, "a");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    take(&mut tail, 1).await;
    writer
        .execute("UPDATE events SET delivered = TRUE", [])
        .expect("an update");
    quiet(&mut tail).await;
    writer.execute("DELETE FROM events", []).expect("a delete");
    quiet(&mut tail).await;
    insert(&writer, "b");
    assert_eq!(take(&mut tail, 1).await, (vec!["b".into()], at(2, "b")));
}

#[tokio::test]
async fn a_pruned_and_vacuumed_table_goes_on_where_it_was() {
    for journal in ["wal", "delete"] {
        let place = Place::new(journal);
        let writer = place.writer();
        for number in 0..50 {
            insert(&writer, &format!("old-{number}"));
        }
        let mut tail = place.open(&at(50, "old-49")).await.expect("open");
        let prune = "DELETE FROM events; VACUUM; PRAGMA wal_checkpoint(TRUNCATE);";
        writer.execute_batch(prune).expect("pruning");
        insert(&writer, "a");
        let expected = (vec!["a".into()], at(51, "a"));
        assert_eq!(take(&mut tail, 1).await, expected);
        tail.close().await;

        writer.execute_batch(prune).expect("pruning");
        insert(&writer, "b");
        let mut tail = place.open(&at(51, "a")).await.expect("a's row is gone");
        assert_eq!(take(&mut tail, 1).await, (vec!["b".into()], at(52, "b")));
        tail.close().await;
        writer.execute_batch(prune).expect("pruning");
        let start = setup::start(&place.settings()).await.expect("the end");
        assert_eq!(start.0, Position { seq: 52, id: None });
        place.open(&start.0).await.expect("an empty table's end");
    }
}

#[tokio::test]
async fn a_restored_older_copy_is_refused() {
    let place = Place::new("delete");
    let writer = place.writer();
    insert(&writer, "a");
    insert(&writer, "b");
    drop(writer);
    let copy = place.folder.path().join("copy.db");
    std::fs::copy(place.path(), &copy).expect("a copy");
    let writer = place.writer();
    insert(&writer, "c");
    drop(writer);
    let tail = place.open(&at(3, "c")).await.expect("nothing is wrong yet");
    tail.close().await;

    std::fs::copy(&copy, place.path()).expect("restored");
    let refusal = place.refusal(&at(3, "c")).await;
    assert!(refusal.contains("end at 2"), "{refusal}");
    assert!(refusal.contains("seq 3"), "{refusal}");

    // The application went on with the copy and gave number 3 away again.
    insert(&place.writer(), "another");
    insert(&place.writer(), "d");
    let refusal = place.refusal(&at(3, "c")).await;
    assert!(refusal.contains("id another"), "{refusal}");
    assert!(refusal.contains("id c"), "{refusal}");
    assert!(refusal.contains("headwater adopt"), "{refusal}");
}

#[tokio::test]
async fn a_file_that_is_replaced_under_a_running_reader_ends_the_run_and_is_refused_at_the_next() {
    let place = Place::new("delete");
    insert(&place.writer(), "a");
    let copy = place.folder.path().join("copy.db");
    std::fs::copy(place.path(), &copy).expect("a copy");
    insert(&place.writer(), "b");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    take(&mut tail, 2).await;
    std::fs::rename(&copy, place.path()).expect("replaced");
    let error = timeout(SOON, tail.next()).await.expect("it is noticed");
    let error = error.expect_err("the file is another one");
    assert!(!error.is_fatal(), "{error}");
    assert!(error.to_string().contains("replaced"), "{error}");
    tail.close().await;
    let refusal = place.refusal(&at(2, "b")).await;
    assert!(refusal.contains("end at 1"), "{refusal}");
}

#[tokio::test]
async fn a_table_that_is_made_anew_is_refused_also_under_a_running_reader() {
    let place = Place::new("wal");
    let writer = place.writer();
    insert(&writer, "a");
    insert(&writer, "b");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    take(&mut tail, 2).await;
    writer
        .execute_batch(&format!("BEGIN; DROP TABLE events; {SCHEMA} COMMIT;"))
        .expect("a new table");
    let error = timeout(SOON, tail.next()).await.expect("it is noticed");
    let error = error.expect_err("the table is another one");
    assert!(error.is_fatal(), "{error}");
    assert!(error.to_string().contains("end at 0"), "{error}");
    insert(&writer, "x");
    insert(&writer, "y");
    insert(&writer, "z");
    let refusal = place.refusal(&at(2, "b")).await;
    assert!(refusal.contains("id y"), "{refusal}");
}

#[tokio::test]
async fn a_table_that_numbers_could_fool_is_refused() {
    let place = Place::new("wal");
    let writer = place.writer();
    for sql in [
        "CREATE TABLE events (seq INTEGER PRIMARY KEY, id TEXT)",
        "CREATE TABLE events (seq INTEGER PRIMARY KEY /* AUTOINCREMENT */, id TEXT DEFAULT 'AUTOINCREMENT')",
        "CREATE TABLE events (id TEXT PRIMARY KEY) WITHOUT ROWID",
        "CREATE TABLE events (id TEXT)",
        "CREATE TABLE events (a INTEGER, b INTEGER, id TEXT, PRIMARY KEY (a, b))",
    ] {
        writer
            .execute_batch(&format!("DROP TABLE events; {sql};"))
            .expect("a table");
        let refusal = place.refusal(&BEGINNING).await;
        assert!(refusal.contains("AUTOINCREMENT"), "{sql}: {refusal}");
    }
    writer
        .execute_batch("DROP TABLE events; CREATE VIEW events AS SELECT 1 AS seq, 'a' AS id")
        .expect("a view");
    let refusal = place.refusal(&BEGINNING).await;
    assert!(refusal.contains("no table events"), "{refusal}");
}

#[tokio::test]
async fn names_that_need_quotes_and_another_number_column_work() {
    let place = Place::new("wal");
    let writer = place.writer();
    writer
        .execute_batch(
            r#"CREATE TABLE "Out ""box" ("the number" INTEGER PRIMARY KEY AUTOINCREMENT, "select" TEXT, id TEXT,
                                         twice TEXT GENERATED ALWAYS AS (id || id));
               INSERT INTO "Out ""box" ("select", id) VALUES ('x', 'a');"#,
        )
        .expect("a table");
    let settings = Settings {
        table: "out \"BOX".into(),
        ..place.settings()
    };
    let mut origin = Sqlite::new(settings);
    let record = Record {
        source: origin.identity(),
        ..place.record(&BEGINNING)
    };
    let mut tail = origin.open(&record).await.expect("open");
    let Item::Row(row) = next(&mut tail).await else {
        panic!("a row comes first");
    };
    assert_eq!(row.table.name, "Out \"box");
    assert_eq!(row.table.columns, ["the number", "select", "id", "twice"]);
    assert_eq!(row.cells[3], Value::Text("aa".into()));
    assert!(matches!(next(&mut tail).await, Item::Mark(it) if it == at(1, "a")));
}

#[tokio::test]
async fn a_changed_definition_is_followed_and_an_unchanged_one_keeps_its_table() {
    let place = Place::new("wal");
    let writer = place.writer();
    insert(&writer, "a");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    let table = |item| match item {
        Item::Row(row) => {
            assert_eq!(row.cells.len(), row.table.columns.len());
            Arc::<Table>::clone(&row.table)
        }
        other => panic!("{other:?} is no row"),
    };
    let first = table(next(&mut tail).await);
    next(&mut tail).await;
    insert(&writer, "b");
    let second = table(next(&mut tail).await);
    assert!(Arc::ptr_eq(&first, &second));
    next(&mut tail).await;
    writer
        .execute_batch(
            "ALTER TABLE events ADD COLUMN tenant TEXT; ALTER TABLE events RENAME COLUMN namespace TO realm;
             ALTER TABLE events DROP COLUMN model_type; ALTER TABLE events RENAME COLUMN realm TO namespace;
             INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                                 event_date, delivered, tenant)
             VALUES ('c', 'wallet', 'a-1', 'Deposit', '{}', '2026-06-12 03:22:47.000123', '2026-06-12 03:22:47.000123',
                     '2026-06-12 03:22:47.000123', FALSE, 'north')",
        )
        .expect("changes");
    let third = table(next(&mut tail).await);
    assert!(!Arc::ptr_eq(&second, &third));
    assert_eq!(third.columns.last().map(String::as_str), Some("tenant"));
    assert!(!third.columns.contains(&"model_type".to_owned()));
    next(&mut tail).await;
    writer
        .execute_batch("ALTER TABLE events RENAME TO former")
        .expect("a new name");
    let error = timeout(SOON, tail.next()).await.expect("it is noticed");
    assert!(error.expect_err("no table").is_fatal());
}

#[tokio::test]
async fn a_writers_locks_are_waited_for() {
    let place = Place::new("delete");
    let writer = place.writer();
    insert(&writer, "a");
    writer.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    insert(&writer, "b");
    // Longer than SQLite waits by itself, while opening and while reading.
    let opening = tokio::spawn({
        let (settings, record) = (place.settings(), place.record(&BEGINNING));
        async move { Sqlite::new(settings).open(&record).await }
    });
    tokio::time::sleep(Duration::from_millis(900)).await;
    assert!(!opening.is_finished());
    writer.execute_batch("COMMIT").expect("commit");
    let mut tail = opening.await.expect("no panic").expect("open");
    assert_eq!(take(&mut tail, 2).await.0, ["a", "b"]);

    writer.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    insert(&writer, "c");
    let item = timeout(Duration::from_millis(900), tail.next()).await;
    assert!(item.is_err(), "{item:?} came");
    writer.execute_batch("COMMIT").expect("commit");
    assert_eq!(take(&mut tail, 1).await.0, ["c"]);
    writer.execute_batch("BEGIN EXCLUSIVE").expect("a lock");
    timeout(SOON, tail.close())
        .await
        .expect("a lock does not keep it open");
}

/// Writers that get in each other's way commit, roll back and prune; each knows what it committed.
fn write_concurrently(place: &Place, writers: usize, rounds: usize) -> Vec<String> {
    let committed = std::thread::scope(|scope| {
        let threads: Vec<_> = (0..writers)
            .map(|number| scope.spawn(move || write_rounds(place, number, rounds)))
            .collect();
        let ids = threads.into_iter().map(|it| it.join().expect("no panic"));
        ids.flatten().collect::<Vec<_>>()
    });
    assert_eq!(committed.len(), writers * (rounds - rounds / 5) * 3);
    committed
}

fn write_rounds(place: &Place, number: usize, rounds: usize) -> Vec<String> {
    let mut writer = place.writer();
    let mut committed = Vec::new();
    for round in 0..rounds {
        std::thread::sleep(Duration::from_millis(2));
        let behavior = rusqlite::TransactionBehavior::Immediate;
        let transaction = writer.transaction_with_behavior(behavior).expect("begin");
        let ids: Vec<String> = (0..3)
            .map(|row| format!("{number}-{round}-{row}"))
            .collect();
        for id in &ids {
            insert(&transaction, id);
        }
        if round % 5 == 4 {
            transaction.rollback().expect("rollback");
        } else {
            transaction.commit().expect("commit");
            committed.extend(ids);
        }
    }
    committed
}

fn in_commit_order(place: &Place) -> Vec<String> {
    let writer = place.writer();
    let mut query = writer
        .prepare("SELECT id FROM events ORDER BY seq")
        .expect("a query");
    let ids = query.query_map([], |row| row.get(0)).expect("rows");
    ids.collect::<Result<_, _>>().expect("ids")
}

#[tokio::test]
async fn with_concurrent_writers_nothing_is_lost_doubled_or_reordered() {
    for (journal, rounds) in [("wal", 60), ("delete", 30)] {
        let place = Arc::new(Place::new(journal));
        let mut tail = place.open(&BEGINNING).await.expect("open");
        let writing = tokio::task::spawn_blocking({
            let place = Arc::clone(&place);
            move || write_concurrently(&place, 3, rounds)
        });
        let total = 3 * (rounds - rounds / 5) * 3;
        let (ids, end) = take(&mut tail, total).await;
        let mut committed = writing.await.expect("no panic");
        assert_eq!(ids, in_commit_order(&place), "{journal}");
        let mut sorted = ids.clone();
        sorted.sort();
        committed.sort();
        assert_eq!(sorted, committed, "{journal}");
        assert_eq!(usize::try_from(end.seq).expect("small"), total);
        quiet(&mut tail).await;
    }
}

#[tokio::test]
async fn dropped_futures_lose_and_double_nothing() {
    let place = Arc::new(Place::new("wal"));
    let mut tail = place.open(&BEGINNING).await.expect("open");
    let writing = tokio::task::spawn_blocking({
        let place = Arc::clone(&place);
        move || write_concurrently(&place, 2, 60)
    });
    let total = 2 * 48 * 3;
    let mut ids = Vec::new();
    let mut dropped = 0_u32;
    let mut seed = 7_u64;
    while ids.len() < total {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let micros = (seed >> 33) % 4000;
        match timeout(Duration::from_micros(micros), tail.next()).await {
            Ok(Ok(Item::Row(row))) => ids.push(id(&row)),
            Ok(Ok(Item::Mark(position))) => {
                assert_eq!(position.id.as_ref(), ids.last());
                assert_eq!(usize::try_from(position.seq).expect("small"), ids.len());
            }
            Ok(other) => panic!("{other:?} came"),
            Err(_) => dropped += 1,
        }
    }
    writing.await.expect("no panic");
    assert!(dropped > 20, "only {dropped} futures were dropped");
    assert_eq!(ids, in_commit_order(&place));
}

#[tokio::test]
async fn a_transaction_of_100_000_rows_is_never_in_memory_as_a_whole() {
    let place = Place::new("wal");
    let mut writer = place.writer();
    let transaction = writer.transaction().expect("begin");
    for number in 0..100_000 {
        insert(&transaction, &number.to_string());
    }
    transaction.commit().expect("commit");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    let (mut count, mut since_mark) = (0, 0);
    while count < 100_000 || since_mark > 0 {
        match next(&mut tail).await {
            Item::Row(row) => {
                assert_eq!(id(&row), count.to_string());
                count += 1;
                since_mark += 1;
            }
            Item::Mark(position) => {
                assert_eq!(position.seq, count);
                assert!(since_mark <= rows::MAX_ROWS);
                since_mark = 0;
            }
            Item::Hurry | Item::End => panic!("nobody hurries, and a table has no end"),
        }
    }
}

#[tokio::test]
async fn large_rows_make_small_batches() {
    let place = Place::new("wal");
    let writer = place.writer();
    let payload = format!("\"{}\"", "x".repeat(400_000));
    for number in 0..8 {
        insert_payload(&writer, &number.to_string(), &payload);
    }
    let mut tail = place.open(&BEGINNING).await.expect("open");
    let (mut rows, mut marks) = (0, Vec::new());
    while rows < 8 || marks.last() != Some(&8) {
        match next(&mut tail).await {
            Item::Row(_) => rows += 1,
            Item::Mark(position) => marks.push(position.seq),
            Item::Hurry | Item::End => panic!("nobody hurries, and a table has no end"),
        }
    }
    assert_eq!(marks, [3, 6, 8]);
}

#[tokio::test]
async fn a_slow_reader_never_holds_up_the_writer() {
    let place = Place::new("delete");
    let writer = place.writer();
    writer
        .busy_timeout(Duration::from_secs(2))
        .expect("a timeout");
    for number in 0..2000 {
        insert(&writer, &number.to_string());
    }
    let mut tail = place.open(&BEGINNING).await.expect("open");
    next(&mut tail).await;
    tokio::time::sleep(Duration::from_millis(300)).await;
    // The reader waits for us with batches at hand; a lock that it kept would make this fail.
    insert(&writer, "last");
    writer.execute_batch("VACUUM").expect("a vacuum");
    let (ids, end) = take(&mut tail, 2000).await;
    assert_eq!(ids.last().map(String::as_str), Some("last"));
    assert_eq!(end.seq, 2001);
}

#[tokio::test]
async fn a_file_without_its_writer_can_be_opened_and_is_not_changed() {
    for journal in ["wal", "delete"] {
        let place = Place::new(journal);
        insert(&place.writer(), "a");
        let before = std::fs::read(place.path()).expect("the file");
        let mut tail = place.open(&BEGINNING).await.expect("open");
        take(&mut tail, 1).await;
        tail.close().await;
        assert_eq!(std::fs::read(place.path()).expect("the file"), before);
        insert(&place.writer(), "b");
        assert_eq!(in_commit_order(&place), ["a", "b"]);
    }
}

/// A copy of a file as a writer leaves it behind when it is killed in the middle of a transaction.
fn killed_writer(journal: &'static str, beside: &str) -> Place {
    let place = Place::new(journal);
    let killed = Place::new(journal);
    let mut writer = place.writer();
    insert(&writer, "a");
    // So small that rows go to the file before the commit.
    writer
        .pragma_update(None, "cache_size", 2)
        .expect("a small cache");
    let transaction = writer.transaction().expect("begin");
    for number in 0..300 {
        insert(&transaction, &format!("never-{number}"));
    }
    for suffix in ["", beside] {
        let copy = format!("shop.db{suffix}");
        std::fs::copy(
            place.folder.path().join(&copy),
            killed.folder.path().join(&copy),
        )
        .expect("a copy");
    }
    killed
}

#[tokio::test]
async fn a_transaction_that_was_broken_off_is_never_read() {
    let place = killed_writer("wal", "-wal");
    let mut tail = place.open(&BEGINNING).await.expect("open");
    assert_eq!(take(&mut tail, 1).await, (vec!["a".into()], at(1, "a")));
    quiet(&mut tail).await;

    // Without WAL only someone who may write can roll it back: until then, trying again is all there is.
    let place = killed_writer("delete", "-journal");
    let error = place
        .open(&BEGINNING)
        .await
        .expect_err("half a transaction");
    assert!(!error.is_fatal(), "{error}");
    assert!(error.to_string().contains("broken off"), "{error}");
    assert_eq!(in_commit_order(&place), ["a"]);
    let mut tail = place.open(&BEGINNING).await.expect("open");
    assert_eq!(take(&mut tail, 1).await, (vec!["a".into()], at(1, "a")));
    quiet(&mut tail).await;
}

#[tokio::test]
async fn a_missing_file_a_missing_table_and_another_kind_of_file_are_fatal_with_advice() {
    let place = Place::new("wal");
    place
        .writer()
        .execute_batch("DROP TABLE events")
        .expect("a drop");
    let refusal = place.refusal(&BEGINNING).await;
    assert!(refusal.contains("schemas/outbox/sqlite.sql"), "{refusal}");

    let place = Place::new("wal");
    let record = place.record(&BEGINNING);
    std::fs::remove_file(place.path()).expect("removed");
    let error = Sqlite::new(place.settings()).open(&record).await;
    let error = error.expect_err("there is no file");
    assert!(
        error.is_fatal() && error.to_string().contains("no SQLite file"),
        "{error}"
    );
    assert!(!place.path().exists(), "nothing is made");

    std::fs::write(place.path(), "x".repeat(5000)).expect("written");
    let refusal = place.refusal(&BEGINNING).await;
    assert!(refusal.contains("source.url"), "{refusal}");
}

#[tokio::test]
async fn a_record_of_another_log_is_refused() {
    let place = Place::new("wal");
    let ours = place.record(&BEGINNING);
    let elsewhere = Place::new("wal").record(&BEGINNING).source;
    for source in [
        elsewhere,
        serde_json::json!({"system": "7312", "timeline": 1, "database": "shop"}),
        serde_json::Value::Null,
    ] {
        let record = Record {
            source,
            ..ours.clone()
        };
        let error = Sqlite::new(place.settings()).open(&record).await;
        let error = error.expect_err("another log");
        assert!(error.is_fatal(), "{error}");
        assert!(error.to_string().contains("another log"), "{error}");
    }
    let record = Record {
        position: "0/16B3748".into(),
        ..ours.clone()
    };
    let error = Sqlite::new(place.settings()).open(&record).await;
    assert!(error.expect_err("no position").is_fatal());

    // The same file by another name is the same log.
    let link = place.folder.path().join("link.db");
    std::os::unix::fs::symlink(place.path(), &link).expect("a link");
    let settings = Settings {
        path: link,
        ..place.settings()
    };
    let mut origin = Sqlite::new(settings);
    assert_eq!(origin.identity(), ours.source);
    let tail = origin.open(&ours).await.expect("open");
    assert_eq!(tail.identity(), ours.source);
}

#[tokio::test]
async fn one_instance_at_a_time_holds_the_lock() {
    let place = Place::new("wal");
    let mut first = Sqlite::new(place.settings());
    first.lock().await.expect("the lock");
    first.lock().await.expect("still");
    let mut other = Sqlite::new(Settings {
        name: "another".into(),
        ..place.settings()
    });
    other.lock().await.expect("another pipeline's lock");

    let mut second = Sqlite::new(place.settings());
    assert!(timeout(NOTHING_COMES, second.lock()).await.is_err());
    drop(first);
    let taken = timeout(Duration::from_secs(5), second.lock()).await;
    taken.expect("within 5 s").expect("the lock");

    // Someone tidied up: the lock is taken anew.
    let file = place.folder.path().join("shop.db.headwater-shop.lock");
    std::fs::remove_file(&file).expect("removed");
    second.lock().await.expect("the lock");
    assert!(file.exists());
}

#[test]
fn a_position_is_told_and_remembered() {
    let position = at(42, "a");
    assert_eq!(position.to_string(), "seq 42");
    let json = serde_json::to_string(&position).expect("json");
    assert_eq!(json, r#"{"seq":42,"id":"a"}"#);
    assert_eq!(
        serde_json::from_str::<Position>(&json).expect("read"),
        position
    );
    let json = serde_json::to_string(&BEGINNING).expect("json");
    assert_eq!(json, r#"{"seq":0}"#);
    assert_eq!(
        serde_json::from_str::<Position>(&json).expect("read"),
        BEGINNING
    );
}

#[tokio::test]
async fn a_pipeline_starts_at_the_present_end_and_knows_what_it_leaves_out() {
    let place = Place::new("wal");
    let settings = place.settings();
    let (position, identity) = setup::start(&settings).await.expect("the end");
    assert_eq!(position, BEGINNING);
    assert_eq!(identity.to_json(), Sqlite::new(settings.clone()).identity());
    assert_eq!(setup::count_events(&settings).await, Ok(0));

    let writer = place.writer();
    for id in ["a", "b", "c"] {
        insert(&writer, id);
    }
    writer
        .execute("UPDATE events SET event_type = NULL WHERE id = 'b'", [])
        .expect("a sentinel");
    assert_eq!(setup::count_events(&settings).await, Ok(2));
    let (position, _) = setup::start(&settings).await.expect("the end");
    assert_eq!(position, at(3, "c"));
    let latest = setup::latest(&settings, 2).await.expect("rows");
    let ids: Vec<String> = latest.iter().map(id).collect();
    assert_eq!(ids, ["b", "c"]);
    assert!(latest.iter().all(|row| row.change == Change::Read));
    let mut ids = Vec::new();
    let each = setup::each_latest(&settings, 2, |row| ids.push(id(row)));
    each.await.expect("rows");
    assert_eq!(ids, ["c", "b"]);

    let mut tail = place.open(&position).await.expect("open");
    insert(&writer, "d");
    assert_eq!(take(&mut tail, 1).await.0, ["d"]);
}

#[tokio::test]
async fn the_latest_rows_come_page_by_page_and_each_once() {
    let place = Place::new("wal");
    let writer = place.writer();
    writer.execute_batch("BEGIN").expect("begin");
    for number in 0..1200 {
        insert(&writer, &number.to_string());
    }
    writer.execute_batch("COMMIT").expect("commit");
    for (limit, last) in [(1000, 200), (512, 688), (513, 687), (5000, 0)] {
        let mut ids = Vec::new();
        let settings = place.settings();
        let each = setup::each_latest(&settings, limit, |row| ids.push(id(row)));
        each.await.expect("rows");
        let wanted: Vec<String> = (last..1200).rev().map(|it: i32| it.to_string()).collect();
        assert_eq!(ids, wanted, "{limit}");
    }
}

fn levels(findings: &[Finding]) -> Vec<Level> {
    findings.iter().map(|it| it.level).collect()
}

async fn checked(path: &Path, table: &str) -> Vec<Finding> {
    let settings = Settings {
        name: "shop".into(),
        path: path.into(),
        table: table.into(),
    };
    setup::check(&settings, &Outbox::ekbatan(), None).await
}

#[tokio::test]
async fn a_check_finds_what_would_stop_a_run_and_how_to_mend_it() {
    let place = Place::new("wal");
    let findings = checked(&place.path(), "events").await;
    assert_eq!(levels(&findings), [Level::Ok; 5], "{findings:?}");

    let writer = place.writer();
    writer
        .execute_batch(
            "CREATE TABLE undated AS SELECT * FROM events;
             CREATE TABLE narrow (seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT);
             CREATE TABLE texts (seq INTEGER PRIMARY KEY AUTOINCREMENT, id, namespace, action_id, action_name, action_params,
                started_date TEXT, completion_date DATETIME, model_id, model_type, event_type, payload, event_date INTEGER,
                delivered);",
        )
        .expect("tables");
    for (table, words) in [
        ("none", "no table none"),
        ("undated", "AUTOINCREMENT"),
        ("narrow", "has no column namespace, action_id"),
        ("texts", "column started_date, event_date is not declared"),
    ] {
        let findings = checked(&place.path(), table).await;
        let last = findings.last().expect("a finding");
        assert_eq!(last.level, Level::Problem, "{table}: {findings:?}");
        assert!(last.what.contains(words), "{table}: {last:?}");
        assert!(last.mend.is_some(), "{table}");
    }
    let findings = checked(&place.folder.path().join("none.db"), "events").await;
    assert_eq!(levels(&findings), [Level::Problem]);

    let place = Place::new("delete");
    let findings = checked(&place.path(), "events").await;
    assert_eq!(
        levels(&findings),
        [Level::Ok, Level::Warning, Level::Ok, Level::Ok, Level::Ok]
    );
    assert_eq!(
        findings[1].mend.as_deref(),
        Some("PRAGMA journal_mode = WAL;")
    );
}

/// What is said of the table's keys, and what would mend it.
async fn of_keys(place: &Place) -> Vec<(Level, Option<String>)> {
    let findings = checked(&place.path(), "events").await.into_iter();
    let of_keys = findings.filter(|it| it.what.contains("index on") || it.what.contains("key"));
    of_keys.map(|it| (it.level, it.mend)).collect()
}

#[tokio::test]
async fn what_a_table_without_keys_costs_is_told_with_what_adds_them() {
    // GIVEN a small table whose ids need not be unique, WHEN it is looked at, THEN its order is no matter, and its key is
    let place = Place::new("wal");
    let writer = place.writer();
    let keyless = SCHEMA.replace("NOT NULL UNIQUE", "NOT NULL");
    assert_ne!(keyless, SCHEMA);
    writer.execute_batch("DROP TABLE events").expect("dropped");
    writer.execute_batch(&keyless).expect("a table");
    let found = of_keys(&place).await;
    let [(Level::Ok, None), (Level::Warning, Some(key))] = found.as_slice() else {
        panic!("{found:?}");
    };

    // WHEN the file has grown, THEN what adds an index is told
    let grow = "CREATE TABLE other AS SELECT zeroblob(70000000) AS bytes";
    writer.execute_batch(grow).expect("a large table");
    let found = of_keys(&place).await;
    let [(Level::Warning, Some(index)), (Level::Warning, _)] = found.as_slice() else {
        panic!("{found:?}");
    };

    // WHEN just that is done, THEN nothing is left to say
    writer.execute_batch(key).expect("a key");
    writer.execute_batch(index).expect("an index");
    assert_eq!(of_keys(&place).await, [(Level::Ok, None)]);
}

#[tokio::test]
async fn an_index_that_does_not_give_the_order_is_not_taken_for_it() {
    let place = Place::new("wal");
    let grow = "CREATE TABLE other AS SELECT zeroblob(70000000) AS bytes";
    place.writer().execute_batch(grow).expect("a large table");
    for columns in [
        "id, event_date",
        "event_date, id DESC",
        "event_date DESC, id, event_type",
        "event_date, id) WHERE (delivered",
        "event_date, lower(id)",
    ] {
        let index = format!("CREATE INDEX tried ON events ({columns})");
        place.writer().execute_batch(&index).expect("an index");
        let found = of_keys(&place).await;
        assert!(
            matches!(found.as_slice(), [(Level::Warning, Some(_))]),
            "{columns}: {found:?}"
        );
        place
            .writer()
            .execute_batch("DROP INDEX tried")
            .expect("dropped");
    }
}

/// The ids of a part of the table, in the order in which they come, and where each stands.
async fn ids_of(place: &Place, window: &Window) -> Vec<(String, Key)> {
    let mut part = part(&place.settings(), window).await.expect("a part");
    let mut ids = Vec::new();
    while let Some((row, key)) = part.next().await.expect("a row") {
        let Value::Text(id) = &row.cells[1] else {
            panic!("{:?}", row.cells)
        };
        ids.push((id.to_string(), key));
    }
    ids
}

#[tokio::test]
async fn dates_in_several_spellings_come_in_the_order_of_their_moments() {
    // GIVEN dates that SQLite, which compares letters, has in another order, and one that is none
    let place = Place::new("wal");
    let writer = place.writer();
    writer
        .pragma_update(None, "ignore_check_constraints", true)
        .expect("no checks");
    let dates = [
        ("g", "2026-06-12T03:00:07"),
        ("f", "2026-06-12 03:00:06.000000"),
        ("e", "2026-06-12T03:00:05.1Z"),
        ("d", "2026-06-12 03:00:04.100"),
        ("c2", "2026-06-12 03:00:03"),
        ("c1", "2026-06-12T03:00:03Z"),
        ("b", "2026-06-12 03:00:02"),
        ("a", "no date"),
    ];
    for (id, date) in dates {
        insert(&writer, id);
        let set = "UPDATE events SET event_date = ?2 WHERE id = ?1";
        writer.execute(set, [id, date]).expect("a date");
    }

    // WHEN they are read, THEN they come as their moments do, and then as their ids
    let all = ids_of(&place, &Window::default()).await;
    let names: Vec<&str> = all.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(names, ["a", "b", "c1", "c2", "d", "e", "f", "g"]);

    // AND behind each of them come those that came behind it
    for (number, (id, key)) in all.iter().enumerate() {
        let window = Window {
            after: Some(key.clone()),
            ..Window::default()
        };
        assert_eq!(ids_of(&place, &window).await, all[number + 1..], "{id}");
    }

    // AND when those of one spelling alone are left, it is still so
    let one = "DELETE FROM events WHERE length(event_date) <> 19 OR event_date LIKE '%T%'";
    writer.execute(one, []).expect("deleted");
    let window = Window {
        after: Some(all[4].1.clone()),
        ..Window::default()
    };
    assert_eq!(ids_of(&place, &window).await, []);
    let window = Window {
        after: Some(all[2].1.clone()),
        ..Window::default()
    };
    assert_eq!(ids_of(&place, &window).await, all[3..4]);
}

#[tokio::test]
async fn behind_a_row_without_a_date_or_an_id_come_all_that_stand_there() {
    // GIVEN rows without a date, and one without an id
    let place = Place::new("wal");
    let writer = place.writer();
    writer
        .pragma_update(None, "ignore_check_constraints", true)
        .expect("no checks");
    let lenient = SCHEMA.replace("NOT NULL", "");
    writer.execute_batch("DROP TABLE events").expect("dropped");
    writer.execute_batch(&lenient).expect("a table");
    let spoiled = [
        ("a", "event_date = NULL"),
        ("b", "event_date = NULL"),
        ("c", "id = NULL"),
    ];
    for id in ["a", "b", "c", "d", "e"] {
        insert(&writer, id);
        if let Some((_, how)) = spoiled.iter().find(|(spoiled, _)| *spoiled == id) {
            let spoil = format!("UPDATE events SET {how} WHERE id = '{id}'");
            writer.execute(&spoil, []).expect("spoiled");
        }
    }

    // WHEN it is read behind each of them, in either order, THEN nothing is passed over
    for order in [
        "",
        "UPDATE events SET event_date = replace(event_date, ' ', 'T') WHERE id = 'e'",
    ] {
        writer.execute_batch(order).expect("spelled");
        let all = keys_of(&place, &Window::default()).await;
        assert_eq!(all.len(), 5);
        for (number, key) in all.iter().enumerate() {
            let window = Window {
                after: Some(key.clone()),
                ..Window::default()
            };
            let left = keys_of(&place, &window).await;
            assert!(left.ends_with(&all[number + 1..]), "{key}: {left:?}");
        }
    }
}

/// Where the rows of a part of the table stand.
async fn keys_of(place: &Place, window: &Window) -> Vec<Key> {
    let mut part = part(&place.settings(), window).await.expect("a part");
    let mut keys = Vec::new();
    while let Some((_, key)) = part.next().await.expect("a row") {
        keys.push(key);
    }
    keys
}

#[tokio::test]
async fn a_date_and_id_that_are_one_key_are_there_once() {
    let place = Place::new("wal");
    let writer = place.writer();
    let keyless = SCHEMA.replace("NOT NULL UNIQUE", "NOT NULL");
    writer.execute_batch("DROP TABLE events").expect("dropped");
    writer.execute_batch(&keyless).expect("a table");
    let key = "CREATE UNIQUE INDEX k ON events (event_date, id)";
    writer.execute_batch(key).expect("a key");
    assert_eq!(of_keys(&place).await, [(Level::Ok, None)]);
}
