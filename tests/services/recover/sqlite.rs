//! A SQLite file that was put back: its numbers disagree with the record, and its rows with the topic.

use std::collections::HashMap;
use std::fs;

use headwater_testkit::{Kafka, Pipeline, unique};
use rusqlite::Connection;
use serde_json::Value;

use crate::scene::{LIMIT, Running, headwater};

fn insert(database: &Connection, id: &str) {
    let sql = "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
        model_id, model_type, event_type, payload, event_date, delivered) \
        VALUES (?1, 'shop', 'a', 'Open', '{}', ?2, ?2, 'm', 'M', 'Opened', '{}', ?2, 0)";
    let now = "2026-06-11 10:22:47.000123";
    database.execute(sql, [id, now]).unwrap();
}

/// How often each id is on the topic.
async fn arrived(kafka: &Kafka, topic: &str) -> HashMap<String, usize> {
    let mut counts = HashMap::new();
    for message in kafka.consume_all(&[topic]).await {
        let value: Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
        let id = value["id"].as_str().unwrap().to_owned();
        *counts.entry(id).or_default() += 1;
    }
    counts
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
    (0..10).for_each(|n| insert(&database, &format!("kept-{n}")));
    assert!(kafka.wait_for_messages(&topic, 10, LIMIT).await);
    database
        .execute("VACUUM INTO ?1", [copy.to_str().unwrap()])
        .unwrap();
    (0..5).for_each(|n| insert(&database, &format!("gone-{n}")));
    assert!(kafka.wait_for_messages(&topic, 15, LIMIT).await);
    run.ask_to_stop().await;

    // WHEN the copy is put back, and rows are added that take the numbers of those that are gone
    drop(database);
    for leftover in ["shop.db-wal", "shop.db-shm"] {
        let _ = fs::remove_file(folder.path().join(leftover));
    }
    fs::rename(&copy, &file).unwrap();
    let database = Connection::open(&file).unwrap();
    (0..8).for_each(|n| insert(&database, &format!("new-{n}")));

    // THEN a person is asked for, and the way out is named
    let mut run = Running::of(program.spawn(&["run"]));
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.tail().contains("headwater recover"), "{}", run.tail());

    // AND it brings each of the new rows once, and nothing again
    let output = program.run(&["recover"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let mut run = Running::of(program.spawn(&["run"]));
    run.wait_until_it_carries().await;
    insert(&database, "last");
    assert!(kafka.wait_for_messages(&topic, 24, LIMIT).await);
    run.ask_to_stop().await;
    let arrived = arrived(kafka, &topic).await;
    assert_eq!(arrived.len(), 24, "{arrived:?}");
    assert!(arrived.values().all(|count| *count == 1), "{arrived:?}");
}
