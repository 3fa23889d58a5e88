//! A part of a SQLite table, published again to standard output.

use std::collections::HashSet;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use serde_json::Value;

use crate::sqlite::{outbox, wait};
use crate::{code, headwater, run, stderr, stdout};

const DAY: [&str; 4] = ["--from", "2026-06-11", "--to", "2026-06-12"];

fn insert(database: &rusqlite::Connection, id: &str, at: &str, payload: Option<&str>) {
    database
        .execute(
            "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
             model_id, model_type, event_type, payload, event_date, delivered) \
             VALUES (?1, 'shop', 'a', 'Open', '{}', ?2, ?2, 'm-' || ?1, 'M', 'Opened', ?3, ?2, 0)",
            rusqlite::params![id, at, payload],
        )
        .unwrap();
}

fn replay(folder: &Path, more: &[&str]) -> Output {
    run(folder, &[&["replay"], more].concat())
}

fn replay_day(folder: &Path, more: &[&str]) -> Output {
    replay(folder, &[&DAY, more].concat())
}

fn messages(output: &Output) -> Vec<Value> {
    let lines = stdout(output);
    let lines = lines.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

fn ids(messages: &[Value]) -> Vec<&str> {
    let ids = messages.iter().map(|message| &message["value"]["id"]);
    ids.map(|id| id.as_str().expect("an id")).collect()
}

/// As it is told at the beginning.
fn id_of(log: &str) -> String {
    let told = log.lines().find_map(|line| line.strip_prefix("replay "));
    let told = told.unwrap_or_else(|| panic!("no id in {log}"));
    told.split([':', ' ']).next().unwrap().to_owned()
}

#[test]
fn what_lies_between_two_dates_is_published_again_as_it_was_with_a_header() {
    // GIVEN rows before, on and behind both ends of a day, a sentinel among them, and a pipeline that has published them
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    for (id, at) in [
        ("end", "2026-06-12 00:00:00.000000"),
        ("last", "2026-06-11 23:59:59.999999"),
        ("first", "2026-06-11 00:00:00.000000"),
        ("before", "2026-06-10 23:59:59.999999"),
        ("none", "2026-06-11 12:00:00.000000"),
    ] {
        insert(&database, id, at, Some(r#"{"b": 1, "a": [1.50]}"#));
    }
    let sentinel = "UPDATE events SET event_type = NULL WHERE id = 'none'";
    database.execute(sentinel, []).unwrap();
    let config = folder.path().join("headwater.toml");
    let initial = fs::read_to_string(&config).unwrap();
    fs::write(&config, initial.replace("\"never\"", "\"only\"")).unwrap();
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let published = run(folder.path(), &["run"]);
    let position = fs::read(folder.path().join("position.json")).unwrap();

    // WHEN the day is replayed
    let output = replay_day(folder.path(), &[]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));

    // THEN its rows come in the order of their dates, the first moment included and the last one not
    let mut again = messages(&output);
    assert_eq!(ids(&again), ["first", "last"]);
    // AND with the replay's id in a header, else as they were
    let id = id_of(&stderr(&output));
    for message in &mut again {
        assert_eq!(message["headers"]["headwater-replay"], id.as_str());
        message["headers"] = serde_json::json!({});
    }
    let originals = messages(&published);
    assert_eq!(again, originals[1..3]);
    // AND the pipeline's own position is what it was
    assert_eq!(
        fs::read(folder.path().join("position.json")).unwrap(),
        position
    );
}

#[test]
fn other_zones_and_shorter_times_are_understood() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    insert(&database, "one", "2026-06-11 10:00:00.000000", Some("{}"));
    for (from, to, there) in [
        ("2026-06-11T12:00:00+02:00", "2026-06-11T12:01+02:00", true),
        ("2026-06-11 10:00:00.000001", "2026-06-12", false),
        ("2026-06-01", "2026-06-11T10:00:00Z", false),
    ] {
        let output = replay(folder.path(), &["--from", from, "--to", to]);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert_eq!(messages(&output).len(), usize::from(there), "{from} {to}");
    }
}

#[test]
fn only_rows_with_all_the_values_that_are_asked_for_come() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    for id in ["a", "b", "c=d"] {
        insert(&database, id, "2026-06-11 10:00:00.000000", Some("{}"));
    }
    for (asked, wanted) in [
        (&["--where", "model_id=m-b"][..], &["b"][..]),
        (&["--where", "id=c=d"], &["c=d"]),
        (&["--where", "seq=1"], &["a"]),
        (&["--where", "model_type=M", "--where", "id=a"], &["a"]),
        (&["--where", "model_type=N", "--where", "id=a"], &[]),
        (&["--where", "id=' OR '1'='1"], &[]),
    ] {
        let output = replay_day(folder.path(), asked);
        assert_eq!(code(&output), Some(0), "{}", stderr(&output));
        assert_eq!(ids(&messages(&output)), wanted, "{asked:?}");
    }
}

#[test]
fn what_cannot_be_asked_for_is_told_before_anything_is_done() {
    let folder = tempfile::tempdir().unwrap();
    outbox(folder.path());
    for (args, says) in [
        (&["--from", "2026-06-11"][..], "--to <TIME>"),
        (
            &["--from", "soon", "--to", "2026-06-12"],
            "2026-06-11T10:22:47Z",
        ),
        (
            &["--from", "2026-06-12", "--to", "2026-06-12"],
            "is not before",
        ),
        (
            &["--from", "2026-06-12", "--to", "2026-06-11"],
            "--from 2026-06-11 --to 2026-06-12T12",
        ),
        (
            &[&DAY[..], &["--where", "colour=red"]].concat(),
            "event_type",
        ),
        (
            &[&DAY[..], &["--where", "model_id"]].concat(),
            "model_type=Wallet",
        ),
        (&[&DAY[..], &["--topic", "a b"]].concat(), "\"a b\""),
        (&[&DAY[..], &["--rate", "0"]].concat(), "--rate"),
        (&[&DAY[..], &["--resume", "x"]].concat(), "--resume"),
        (
            &["--resume", "20260611-000000-00000000"],
            "no replay 20260611-000000-00000000",
        ),
        (&["--resume", "../position"], "no replay"),
    ] {
        let output = replay(folder.path(), args);
        assert_eq!(code(&output), Some(2), "{args:?}: {}", stderr(&output));
        assert!(stderr(&output).contains(says), "{}", stderr(&output));
    }
    assert_eq!(left_beside(folder.path()), Vec::<String>::new());
}

fn left_beside(folder: &Path) -> Vec<String> {
    let files = fs::read_dir(folder).unwrap();
    let names = files.map(|it| it.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.contains("replay")).collect()
}

#[test]
fn another_topic_takes_them_all() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    insert(&database, "a", "2026-06-11 10:00:00.000000", Some("{}"));
    let output = replay_day(folder.path(), &["--topic", "again"]);
    let messages = messages(&output);
    assert_eq!(messages[0]["topic"], "again");
    assert_eq!(messages[0]["key"], "m-a");
}

#[test]
fn a_dry_run_counts_and_publishes_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    for row in 0..30 {
        let at = format!("2026-06-11 10:00:{row:02}.000000");
        insert(&database, &format!("{row:02}"), &at, Some("{}"));
    }
    database
        .execute("UPDATE events SET namespace = 'till' WHERE id >= '20'", [])
        .unwrap();
    let output = replay_day(folder.path(), &["--dry-run"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(
        stdout(&output),
        "30 events would be published again, the first of 2026-06-11T10:00:00.000000Z, the last of \
         2026-06-11T10:00:29.000000Z\n  20 to topic ekbatan.shop\n  10 to topic ekbatan.till\n"
    );
    let output = replay_day(folder.path(), &["--dry-run", "--where", "id=99"]);
    assert_eq!(stdout(&output), "no event would be published again\n");
    assert_eq!(left_beside(folder.path()), Vec::<String>::new());
}

#[test]
fn a_row_that_cannot_be_published_stops_it_and_is_never_passed_over() {
    // GIVEN a row without a payload between two others
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    for (id, payload) in [("a", Some("{}")), ("b", None), ("c", Some("{}"))] {
        insert(&database, id, "2026-06-11 10:00:00.000000", payload);
    }

    // WHEN it is replayed, THEN it ends before that row, named, also when it only looks
    let output = replay_day(folder.path(), &["--dry-run"]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(stderr(&output).contains("id b"), "{}", stderr(&output));
    let output = replay_day(folder.path(), &[]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert_eq!(ids(&messages(&output)), ["a"]);
    assert!(stderr(&output).contains("id b"), "{}", stderr(&output));
    let id = id_of(&stderr(&output));
    let resume = format!("headwater replay --resume {id}");
    assert!(stderr(&output).contains(&resume), "{}", stderr(&output));

    // AND gone on with, it ends there again, until the row is mended
    let output = replay(folder.path(), &["--resume", &id]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(3), ""));
    let mend = "UPDATE events SET payload = '{}' WHERE id = 'b'";
    database.execute(mend, []).unwrap();
    let output = replay(folder.path(), &["--resume", &id]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(ids(&messages(&output)), ["b", "c"]);

    // AND once it is complete, there is nothing to go on with
    let output = replay(folder.path(), &["--resume", &id]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(0), ""));
    assert!(stderr(&output).contains("complete"), "{}", stderr(&output));
}

/// Its messages go to `out<number>`, its log to `log<number>`.
fn start(folder: &Path, number: usize, args: &[&str]) -> Child {
    let file = |name: &str| fs::File::create(folder.join(format!("{name}{number}"))).unwrap();
    headwater(folder, &[&["replay"], args].concat())
        .stdout(file("out"))
        .stderr(file("log"))
        .stdin(Stdio::null())
        .spawn()
        .unwrap()
}

fn log(folder: &Path, number: usize) -> String {
    fs::read_to_string(folder.join(format!("log{number}"))).unwrap()
}

fn arrived(folder: &Path, number: usize) -> Vec<Value> {
    let text = fs::read_to_string(folder.join(format!("out{number}"))).unwrap();
    let complete = text.rsplit_once('\n').map_or("", |(lines, _)| lines);
    let lines = complete.lines().map(serde_json::from_str);
    lines.collect::<Result<_, _>>().expect("JSON")
}

fn many(folder: &Path) -> (rusqlite::Connection, Vec<String>) {
    let database = outbox(folder);
    let wanted: Vec<String> = (0..2000).map(|row| format!("{row:04}")).collect();
    let all = database.unchecked_transaction().unwrap();
    for id in wanted.iter().rev() {
        insert(&all, id, "2026-06-11 10:00:00.000000", Some("{}"));
    }
    all.commit().unwrap();
    (database, wanted)
}

#[test]
fn a_replay_is_not_gone_on_with_in_another_database() {
    // GIVEN a replay of one file that was interrupted
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    for (id, payload) in [("a", Some("{}")), ("b", None)] {
        insert(&database, id, "2026-06-11 10:00:00.000000", payload);
    }
    let id = id_of(&stderr(&replay_day(folder.path(), &[])));

    // WHEN the configuration leads to another file, with the same rows, THEN it is refused
    let other = folder.path().join("other.db");
    let copy = "UPDATE events SET payload = '{}'";
    database.execute(copy, []).unwrap();
    let path = other.to_str().unwrap();
    database.execute("VACUUM INTO ?1", [path]).unwrap();
    let config = folder.path().join("headwater.toml");
    let here = fs::read_to_string(&config).unwrap();
    fs::write(&config, here.replace("shop.db", "other.db")).unwrap();
    let output = replay(folder.path(), &["--resume", &id]);
    assert_eq!((code(&output), stdout(&output).as_str()), (Some(3), ""));
    assert!(stderr(&output).contains("other.db"), "{}", stderr(&output));

    // AND in the first one it goes on
    fs::write(&config, here).unwrap();
    let output = replay(folder.path(), &["--resume", &id]);
    assert_eq!(ids(&messages(&output)), ["b"], "{}", stderr(&output));
}

#[test]
fn killed_again_and_again_it_goes_on_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, wanted) = many(folder.path());
    let again = [
        "--topic",
        "again",
        "--where",
        "model_type=M",
        "--rate",
        "1000",
    ];
    let first = [&DAY[..], &again].concat();
    let mut id = String::new();
    let mut all = Vec::new();
    for round in 0..3 {
        let args = match round {
            0 => first.clone(),
            _ => vec!["--resume", &*id],
        };
        let mut child = start(folder.path(), round, &args);
        wait("some hundred are there", || {
            arrived(folder.path(), round).len() > 400
        });
        child.kill().unwrap();
        child.wait().unwrap();
        all.extend(arrived(folder.path(), round));
        let now = id_of(&log(folder.path(), round));
        assert!(id.is_empty() || id == now, "{id} {now}");
        id = now;
    }
    // What the id is of is told to whoever has it wrong.
    let output = replay(folder.path(), &["--resume", "wrong"]);
    assert_eq!(code(&output), Some(2));
    for part in [&*id, "2026-06-11T00:00:00.000000Z", "model_type = M"] {
        assert!(stderr(&output).contains(part), "{}", stderr(&output));
    }
    let output = replay(folder.path(), &["--resume", &id, "--rate", "100000"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let last = messages(&output);
    assert!(last.len() < wanted.len(), "it began anew");
    all.extend(last);
    for message in &all {
        assert_eq!(message["topic"], "again");
        assert_eq!(message["headers"]["headwater-replay"], id.as_str());
    }
    let mut seen = HashSet::new();
    let mut first = ids(&all);
    first.retain(|id| seen.insert(*id));
    assert_eq!(first, wanted);
}

#[test]
fn asked_to_stop_it_tells_how_to_go_on_and_each_row_comes_once() {
    let folder = tempfile::tempdir().unwrap();
    let (_database, wanted) = many(folder.path());
    let first = [&DAY[..], &["--rate", "1000"]].concat();
    let mut child = start(folder.path(), 0, &first);
    wait("some hundred are there", || {
        arrived(folder.path(), 0).len() > 400
    });
    let sent = Command::new("kill").arg(child.id().to_string()).status();
    assert!(sent.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(0));
    let log = log(folder.path(), 0);
    let mut all = arrived(folder.path(), 0);
    assert!(all.len() < wanted.len(), "it was too fast to be stopped");
    let stood = format!("was stopped after {} rows of the table", all.len());
    assert!(log.contains(&stood), "{log}");
    let (_, command) = log.split_once("To go on: headwater ").expect("a command");
    let output = run(
        folder.path(),
        &command.trim().split(' ').collect::<Vec<_>>(),
    );
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    all.extend(messages(&output));
    assert_eq!(ids(&all), wanted);
}

#[test]
fn beside_a_running_pipeline_it_takes_nothing_from_it() {
    let folder = tempfile::tempdir().unwrap();
    let database = outbox(folder.path());
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let out = fs::File::create(folder.path().join("out9")).unwrap();
    let mut pipeline = headwater(folder.path(), &["run"]);
    let pipeline = pipeline.stdout(out).stderr(Stdio::null());
    let mut pipeline = pipeline.spawn().unwrap();
    insert(&database, "one", "2026-06-11 10:00:00.000000", Some("{}"));
    wait("it is carried", || arrived(folder.path(), 9).len() == 1);
    let output = replay_day(folder.path(), &[]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert_eq!(ids(&messages(&output)), ["one"]);
    insert(&database, "two", "2026-06-11 10:00:00.000000", Some("{}"));
    wait("it goes on", || arrived(folder.path(), 9).len() == 2);
    pipeline.kill().unwrap();
    pipeline.wait().unwrap();
    assert_eq!(ids(&arrived(folder.path(), 9)), ["one", "two"]);
}
