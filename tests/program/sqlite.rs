//! A pipeline from a SQLite file to standard output, killed and started again.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use headwater_testkit::long;
use serde_json::Value;

use crate::{code, headwater, run, stderr, stdout};

const CONFIG: &str = r#"name = "shop"
[source]
url = "sqlite:shop.db"
snapshot = "never"
[encode]
format = "json"
[sink]
kind = "stdout"
[position]
file = "position.json"
[admin]
listen = "off"
"#;

pub fn outbox(folder: &Path) -> rusqlite::Connection {
    fs::write(folder.join("headwater.toml"), CONFIG).unwrap();
    let database = rusqlite::Connection::open(folder.join("shop.db")).unwrap();
    // Killed is the reader, never the machine: the writer need not wait for the disk.
    database.pragma_update(None, "synchronous", "off").unwrap();
    database
        .execute_batch(include_str!("../../schemas/outbox/sqlite.sql"))
        .unwrap();
    database
}

fn insert(database: &rusqlite::Connection, id: &str, payload: Option<&str>) {
    let at = "2026-06-11 10:22:47.000123";
    database
        .execute(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
             model_id, model_type, event_type, payload, event_date, delivered) \
             VALUES (?1, 'shop', 'a', 'Open', '{}', ?2, ?2, 'm', 'M', 'Opened', ?3, ?2, 0)",
            rusqlite::params![id, at, payload],
        )
        .unwrap();
}

fn start(folder: &Path, number: usize) -> Child {
    let out = fs::File::create(folder.join(format!("out{number}"))).unwrap();
    headwater(folder, &["run"])
        .stdout(out)
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

fn published(folder: &Path, number: usize) -> Vec<String> {
    let text = fs::read_to_string(folder.join(format!("out{number}"))).unwrap();
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    complete
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"))
        .map(|message| message["value"]["id"].as_str().unwrap().to_owned())
        .collect()
}

pub fn wait(what: &str, mut done: impl FnMut() -> bool) {
    let deadline = Instant::now() + Duration::from_secs(20);
    while !done() {
        assert!(Instant::now() < deadline, "waited too long until {what}");
        thread::sleep(Duration::from_millis(10));
    }
}

#[test]
fn nothing_is_lost_over_kills() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let mut arrived = HashSet::new();
    for round in 0..5 {
        let mut child = start(folder.path(), round);
        for row in 0..200 {
            insert(&database, &format!("{round}-{row}"), Some("{}"));
        }
        wait("something is published", || {
            !published(folder.path(), round).is_empty()
        });
        child.kill().unwrap();
        child.wait().unwrap();
        arrived.extend(published(folder.path(), round));
    }
    let mut child = start(folder.path(), 9);
    wait("all are published", || {
        arrived.extend(published(folder.path(), 9));
        arrived.len() == 1000
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_row_that_cannot_be_published_stops_it_and_is_never_passed_over() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    insert(&database, "good", Some("{}"));
    insert(&database, "bad", None);
    insert(&database, "after", Some("{}"));
    for start in 0..3 {
        let output = run(folder.path(), &["run"]);
        let publishes = stdout(&output).contains("good");
        assert_eq!(publishes, start == 0, "{}", stdout(&output));
        assert_eq!(code(&output), Some(3), "{}", stderr(&output));
        assert!(stderr(&output).contains("id bad"), "{}", stderr(&output));
        assert!(
            stderr(&output).contains("column payload is null"),
            "{}",
            stderr(&output)
        );
        assert!(!stdout(&output).contains("after"), "{}", stdout(&output));
    }
}

#[test]
fn a_row_that_stopped_it_and_was_mended_is_published_with_those_behind_it() {
    for mend in [
        "UPDATE events SET payload = '{}' WHERE id = 'bad'",
        "DELETE FROM events WHERE id = 'bad'",
    ] {
        let folder = tempfile::tempdir().unwrap();
        let database = outbox(folder.path());
        assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
        insert(&database, "good", Some("{}"));
        insert(&database, "bad", None);
        insert(&database, "after", Some("{}"));
        assert_eq!(code(&run(folder.path(), &["run"])), Some(3));
        database.execute_batch(mend).unwrap();
        let mut child = start(folder.path(), 1);
        wait("all are published", || {
            published(folder.path(), 1).contains(&"after".to_owned())
        });
        let there = published(folder.path(), 1).contains(&"bad".to_owned());
        assert_eq!(there, mend.starts_with("UPDATE"), "{mend}");
        child.kill().unwrap();
        child.wait().unwrap();
    }
}

#[test]
fn without_init_it_refuses_and_says_so() {
    let folder = tempfile::tempdir().unwrap();
    outbox(folder.path());
    let output = run(folder.path(), &["run"]);
    assert_eq!(code(&output), Some(3));
    assert!(
        stderr(&output).contains("headwater init"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_init_that_was_killed_is_done_again_and_run_says_so() {
    let folder = tempfile::tempdir().unwrap();
    outbox(folder.path());
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    // What init leaves behind when it is killed before it knows the position.
    let file = folder.path().join("position.json");
    let mut record: Value = serde_json::from_slice(&fs::read(&file).unwrap()).unwrap();
    record["position"] = Value::Null;
    record["source"] = Value::Null;
    fs::write(&file, record.to_string()).unwrap();
    let output = run(folder.path(), &["run"]);
    assert_eq!(code(&output), Some(3));
    assert!(
        stderr(&output).contains("headwater init"),
        "{}",
        stderr(&output)
    );
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    assert_eq!(code(&run(folder.path(), &["check"])), Some(0));
}

#[test]
fn rows_that_are_already_there_need_the_users_word() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    insert(&database, "old", Some("{}"));
    let asked = CONFIG.replace("snapshot = \"never\"\n", "");
    fs::write(folder.path().join("headwater.toml"), asked).unwrap();
    let output = run(folder.path(), &["init"]);
    assert_eq!(code(&output), Some(2));
    assert!(
        stderr(&output).contains("holds 1 event"),
        "{}",
        stderr(&output)
    );
    assert!(
        !folder.path().join("position.json").exists(),
        "nothing was changed"
    );
}

fn configure(folder: &Path, snapshot: &str) {
    let config = CONFIG.replace("\"never\"", &format!("\"{snapshot}\""));
    fs::write(folder.join("headwater.toml"), config).unwrap();
}

#[test]
fn rows_that_are_already_there_come_first_and_once_over_kills() {
    // GIVEN rows, some of them the same moment's, and a sentinel
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    let mut old: Vec<String> = (0..3000).map(|row| format!("old{row:04}")).collect();
    for id in old.iter().rev() {
        insert(&database, id, Some("{}"));
    }
    let sentinel = "UPDATE events SET event_type = NULL WHERE id = 'old0007'";
    database.execute(sentinel, []).unwrap();
    old.retain(|id| id != "old0007");
    configure(folder.path(), "initial");
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));

    // WHEN runs are killed while they publish them, and another goes on
    let mut arrived = Vec::new();
    for round in 0..3 {
        let mut child = start(folder.path(), round);
        wait("something is published", || {
            !published(folder.path(), round).is_empty()
        });
        insert(&database, &format!("new{round}"), Some("{}"));
        child.kill().unwrap();
        child.wait().unwrap();
        arrived.extend(published(folder.path(), round));
    }
    let mut child = start(folder.path(), 9);
    wait("the log is carried", || {
        published(folder.path(), 9)
            .last()
            .is_some_and(|id| id == "new2")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    arrived.extend(published(folder.path(), 9));

    // THEN the first arrivals are all of them, in the order of date and id, and then those that came later
    let mut seen = HashSet::new();
    arrived.retain(|id| seen.insert(id.clone()));
    old.extend((0..3).map(|round| format!("new{round}")));
    assert_eq!(arrived, old);
}

#[test]
fn beside_a_writer_that_does_not_pause_each_row_comes_once() {
    for _ in 0..if long() { 50 } else { 5 } {
        handed_over();
    }
}

fn handed_over() {
    // GIVEN rows, and a writer that goes on whatever happens
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    // Otherwise nobody can write while somebody reads.
    database.pragma_update(None, "journal_mode", "wal").unwrap();
    database.execute_batch("BEGIN").unwrap();
    let mut written: Vec<String> = (0..2000).map(|row| format!("old{row:04}")).collect();
    for id in &written {
        insert(&database, id, Some("{}"));
    }
    database.execute_batch("COMMIT").unwrap();
    let is_over = Arc::new(AtomicBool::new(false));
    let writer = thread::spawn({
        let is_over = Arc::clone(&is_over);
        move || {
            let mut new = Vec::new();
            while !is_over.load(Ordering::Relaxed) {
                let id = format!("new{:05}", new.len());
                insert(&database, &id, Some("{}"));
                new.push(id);
                thread::sleep(Duration::from_millis(1));
            }
            new
        }
    });

    // WHEN the pipeline begins among them
    configure(folder.path(), "initial");
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let mut child = start(folder.path(), 0);
    wait("rows come that the log alone had", || {
        published(folder.path(), 0).len() > 2300
    });
    is_over.store(true, Ordering::Relaxed);
    written.extend(writer.join().unwrap());
    let last = written.last().cloned();
    wait("all are published", || {
        published(folder.path(), 0).last() == last.as_ref()
    });
    child.kill().unwrap();
    child.wait().unwrap();

    // THEN each row comes once: none is in both, none in neither
    let mut arrived = published(folder.path(), 0);
    arrived.sort_unstable();
    written.sort_unstable();
    assert_eq!(arrived, written);
}

#[test]
fn the_same_row_is_the_same_message_by_snapshot_and_by_log() {
    // GIVEN a pipeline that carries rows as they are committed, one of them delivered already, with all kinds of JSON
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let mut child = start(folder.path(), 0);
    let payloads = [
        r#"{"b": [1, 2.50, -0.0, 1e3], "a": null, "long": 12345678901234567890}"#,
        r#"{"text": "ä€😀 \" \\ / \t", "empty": {}, "none": []}"#,
        "{ \"date\":\t\"2024-02-29T12:00:00Z\",\n\"nested\": {\"z\": 1, \"a\": {\"b\": false}} }",
    ];
    database.execute_batch("BEGIN").unwrap();
    for (id, payload) in ["a", "b", "c"].iter().zip(payloads) {
        insert(&database, id, Some(payload));
    }
    let delivered = "UPDATE events SET delivered = 1 WHERE id = 'b'";
    database.execute(delivered, []).unwrap();
    database.execute_batch("COMMIT").unwrap();
    wait("all are published", || {
        published(folder.path(), 0).len() == payloads.len()
    });
    child.kill().unwrap();
    child.wait().unwrap();
    let streamed = fs::read_to_string(folder.path().join("out0")).unwrap();

    // WHEN another one publishes the same rows as a snapshot
    let other = CONFIG
        .replace("\"never\"", "\"only\"")
        .replace("position.json", "other.json");
    fs::write(folder.path().join("headwater.toml"), other).unwrap();
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let output = run(folder.path(), &["run"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));

    // THEN they are the same to the byte
    assert_eq!(stdout(&output), streamed);
}

#[test]
fn a_table_without_any_key_is_published_in_order_all_the_same() {
    // GIVEN a table that nothing keeps in order, and that may have an id twice
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    let schema = include_str!("../../schemas/outbox/sqlite.sql");
    let keyless = schema.replace("NOT NULL UNIQUE", "NOT NULL");
    let keyless = keyless.split("CREATE INDEX").next().unwrap();
    database.execute_batch("DROP TABLE events").unwrap();
    database.execute_batch(keyless).unwrap();
    for id in ["c", "a", "b", "a"] {
        insert(&database, id, Some("{}"));
    }
    configure(folder.path(), "only");
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));

    // WHEN it is published, THEN all rows come, in their order
    let mut child = start(folder.path(), 0);
    assert!(child.wait().unwrap().success());
    assert_eq!(published(folder.path(), 0), ["a", "a", "b", "c"]);
}

#[test]
fn only_the_rows_that_are_there_and_the_log_when_it_is_wanted() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    insert(&database, "old", Some("{}"));
    configure(folder.path(), "only");
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let output = run(folder.path(), &["run"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(stdout(&output).lines().count(), 1);
    insert(&database, "new", Some("{}"));
    let output = run(folder.path(), &["run"]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), ""));
    configure(folder.path(), "initial");
    let mut child = start(folder.path(), 0);
    wait("the log is carried", || {
        published(folder.path(), 0) == ["new"]
    });
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn a_second_init_changes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let before = fs::read(folder.path().join("position.json")).unwrap();
    insert(&database, "later", Some("{}"));
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    assert_eq!(
        fs::read(folder.path().join("position.json")).unwrap(),
        before
    );
}

#[test]
fn a_restored_copy_of_the_file_is_refused_until_it_is_adopted() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    fs::copy(
        folder.path().join("shop.db"),
        folder.path().join("backup.db"),
    )
    .unwrap();
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let mut child = start(folder.path(), 0);
    insert(&database, "one", Some("{}"));
    wait("it is remembered", || {
        fs::read_to_string(folder.path().join("position.json"))
            .unwrap()
            .contains("\"one\"")
    });
    child.kill().unwrap();
    child.wait().unwrap();
    drop(database);
    fs::rename(
        folder.path().join("backup.db"),
        folder.path().join("shop.db"),
    )
    .unwrap();
    assert_eq!(code(&run(folder.path(), &["check"])), Some(3));
    let output = run(folder.path(), &["run"]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("headwater adopt"),
        "{}",
        stderr(&output)
    );
    assert_eq!(code(&run(folder.path(), &["adopt"])), Some(0));
    let mut child = start(folder.path(), 1);
    let database = rusqlite::Connection::open(folder.path().join("shop.db")).unwrap();
    insert(&database, "two", Some("{}"));
    wait("it goes on", || published(folder.path(), 1) == ["two"]);
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn peek_prints_the_latest_rows_as_they_would_be_published() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    for row in 0..5 {
        insert(&database, &format!("row-{row}"), Some("{}"));
    }
    let output = run(folder.path(), &["peek", "--limit", "2"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let lines: Vec<Value> = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect();
    assert_eq!(lines.len(), 2);
    assert_eq!(lines[0]["value"]["id"], "row-3");
    assert_eq!(lines[1]["value"]["id"], "row-4");
}

#[test]
fn check_finds_nothing_wrong_and_then_what_is() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    let output = run(folder.path(), &["check"]);
    assert_eq!(code(&output), Some(3));
    assert!(
        stdout(&output).contains("has no position record"),
        "{}",
        stdout(&output)
    );
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let output = run(folder.path(), &["check"]);
    assert_eq!(
        code(&output),
        Some(0),
        "{}{}",
        stdout(&output),
        stderr(&output)
    );
    database
        .execute_batch("ALTER TABLE events DROP COLUMN action_name")
        .unwrap();
    let output = run(folder.path(), &["check", "--format", "json"]);
    assert_eq!(code(&output), Some(3));
    let findings: Vec<Value> = serde_json::from_slice(&output.stdout).expect("JSON");
    let problem = findings
        .iter()
        .find(|f| f["level"] == "problem")
        .expect("a problem");
    assert!(
        problem["what"].as_str().unwrap().contains("action_name"),
        "{problem}"
    );
}
