//! A SQLite file that was put back: its numbers disagree with the record, and its rows with the topic.

use std::fs;

use headwater_testkit::{Committed, Kafka, Pipeline, Verdict, Written, check, unique};
use rusqlite::Connection;
use uuid::Uuid;

use super::{audit_of, told};
use crate::scene::{LIMIT, Running, headwater};

/// Commits so many events, one transaction each.
fn insert(database: &Connection, count: i64) -> Written {
    let sql = "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
        model_id, model_type, event_type, payload, event_date, delivered) \
        VALUES (?1, 'shop', 'a', 'Open', '{}', ?2, ?2, ?3, 'M', 'Opened', json_object('seq', ?4), ?2, 0)";
    let now = "2026-06-11 10:22:47.000123";
    let key = unique("m");
    let one = |seq| {
        let id = Uuid::new_v4();
        database
            .execute(sql, (id.to_string(), now, &key, seq))
            .unwrap();
        let key = key.clone();
        Committed { id, key, seq }
    };
    Written {
        committed: (1..=count).map(one).collect(),
        ..Written::default()
    }
}

async fn judge(kafka: &Kafka, topic: &str, written: &[&Written]) -> Verdict {
    let mut all = Written::default();
    for one in written {
        all.add((*one).clone());
    }
    check(&all, &kafka.consume_all(&[topic]).await)
}

#[tokio::test]
async fn a_restored_file_is_recovered() {
    // GIVEN a pipeline that was stopped, and a copy of the file from before its last rows
    let (kafka, folder, topic) = (Kafka::shared(), tempfile::tempdir().unwrap(), unique("put"));
    let (file, copy) = (folder.path().join("shop.db"), folder.path().join("copy.db"));
    let database = Connection::open(&file).unwrap();
    let schema = include_str!("../../../schemas/outbox/sqlite.sql");
    database.execute_batch(schema).unwrap();
    kafka.create_topic(&topic, 3, 1, &[]).await;
    let url = format!("sqlite:{}", file.display());
    let mut pipeline = Pipeline::new(&unique("put"), &url, &kafka.brokers());
    pipeline.more = format!("[[route]]\ntopic = \"{topic}\"\n");
    let program = headwater(&pipeline);
    assert_eq!(program.run(&["init"]).code, 0);
    let mut run = Running::of(program.spawn(&["run"]));
    run.wait_until_it_carries().await;
    let mut held = insert(&database, 10);
    assert!(kafka.wait_for_messages(&topic, 10, LIMIT).await);
    database
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    let gone = insert(&database, 5);
    assert!(kafka.wait_for_messages(&topic, 15, LIMIT).await);
    run.ask_to_stop().await;

    // WHEN the copy is put back, and rows are added that take the numbers of those that are gone
    drop(database);
    for leftover in ["shop.db-wal", "shop.db-shm"] {
        let _ = fs::remove_file(folder.path().join(leftover));
    }
    fs::rename(&copy, &file).unwrap();
    let database = Connection::open(&file).unwrap();
    held.add(insert(&database, 8));

    // THEN a person is asked for, and the way out is named
    let mut run = Running::of(program.spawn(&["run"]));
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.tail().contains("headwater recover"), "{}", run.tail());
    assert_eq!(told(&audit_of(&program, 3), " missing"), 8);
    let verdict = judge(kafka, &topic, &[&held, &gone]).await;
    assert_eq!((verdict.lost.len(), verdict.arrived), (8, 15), "{verdict}");

    // AND it brings each of the new rows once, and nothing again
    let output = program.run(&["recover"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let verdict = judge(kafka, &topic, &[&held, &gone]).await;
    verdict.assert_each_once();

    // AND the log goes on where that ended; the checker and `audit` agree that nothing is missing
    let mut run = Running::of(program.spawn(&["run"]));
    run.wait_until_it_carries().await;
    held.add(insert(&database, 1));
    assert!(kafka.wait_for_messages(&topic, 24, LIMIT).await);
    run.ask_to_stop().await;
    let verdict = judge(kafka, &topic, &[&held, &gone]).await;
    verdict.assert_each_once();
    let output = audit_of(&program, 0);
    for (count, words) in [
        (19, "on the topics"),
        (0, " missing"),
        (0, " doubled"),
        (5, " foreign"),
    ] {
        assert_eq!(told(&output, words), count, "{}", output.stdout);
    }
}
