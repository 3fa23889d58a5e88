//! What a person looks at is what is published: `peek`, `demo` on a real broker, and the log for machines.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use headwater_testkit::{Consumed, Headwater, Kafka, MysqlDatabase, Outbox};
use serde_json::Value;
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Running, Scene, on_every_binlog};

/// The line that shows a message on standard output, its value to the byte.
fn line(message: &Consumed) -> String {
    let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap()).unwrap();
    let (topic, key, value) = (&message.topic, text(&message.key), text(&message.value));
    format!(r#"{{"topic":"{topic}","key":"{key}","headers":{{}},"value":{value}}}"#)
}

/// The lines of these events, in their order.
fn lines(published: &[Consumed], events: &[&Event]) -> Vec<String> {
    let of = |event: &&Event| {
        let id = format!(r#"{{"id":"{}","#, event.id);
        let mut found = published.iter().map(line).filter(|l| l.contains(&id));
        let line = found.next().expect("it was published");
        assert_eq!(found.next(), None, "published twice");
        line
    };
    events.iter().map(of).collect()
}

#[tokio::test]
async fn peek_shows_the_latest_rows_as_run_publishes_them() {
    // GIVEN rows with all that is awkward, written in another order than their dates
    let scene = Scene::ready(17, "peek").await;
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let [latest, oldest, earlier, later] = [1, 2, 3, 4].map(event);
    let awkward = [
        ("action_name", r#"$$Seal "it" \ with	tab, é, €, 😀$$"#),
        ("action_params", r#"'{"dock": 12, "a": null}'"#),
        (
            "payload",
            r#"'{"n": 77.10, "big": 12345678901234567890.123456789, "t": "a\n\"b\" \u20ac"}'"#,
        ),
        ("event_date", "'2026-06-12 03:22:47.000123'"),
    ];
    let nothing = [
        ("model_type", "NULL"),
        ("started_date", "'0044-03-15 12:00:00 BC'"),
        ("event_date", "'2026-06-11'"),
    ];
    let inserts = [
        latest.insert_with(&[("event_date", "'10000-01-01'"), ("delivered", "true")]),
        oldest.insert_with(&[("event_date", "'2026-06-10'")]),
        earlier.insert_with(&nothing),
        later.insert_with(&awkward),
    ];
    scene.database.execute_each(&inserts).await;
    shows_what_is_published(scene, &[&earlier, &later, &latest], 4).await;
}

on_every_binlog!(peek_shows_what_is_published: "peek", shared server, shared kafka);

async fn peek_shows_what_is_published(scene: Scene<'_, MysqlDatabase<'_>>) {
    // GIVEN rows with all that is awkward, written in another order than their dates
    scene.init();
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let [latest, oldest, earlier, later] = [1, 2, 3, 4].map(event);
    let awkward = [
        ("action_name", r#"'Seal "it" \\ with\ttab, é, €, 😀'"#),
        (
            "action_params",
            r#"'{"dock": 12, "a" :null,"bb":{"y":[1, true], "x":"é😀"}, "t": "\\n\\"b\\" \\u20ac \\u0001 /"}'"#,
        ),
        (
            "payload",
            r#"'{"n": 77.10, "e": 1e3, "tiny": 0.0001, "whole": -9223372036854775808, "most": 18446744073709551615, "big": 12345678901234567890.123456789, "far": 12345678.9, "t": "a\\n\\"b\\" \\u20ac"}'"#,
        ),
        ("event_date", "'2026-06-12 03:22:47.000123'"),
    ];
    let nothing = [
        ("model_type", "NULL"),
        ("started_date", "'1000-01-01 12:00:00'"),
        ("event_date", "'2026-06-11'"),
    ];
    let last = "'9999-12-31 23:59:59.999999'";
    let inserts = [
        scene.insert_with(&latest, &[("event_date", last), ("delivered", "7")]),
        scene.insert_with(&oldest, &[("event_date", "'2026-06-10'")]),
        scene.insert_with(&earlier, &nothing),
        scene.insert_with(&later, &awkward),
    ];
    scene.database.execute_each(&inserts).await;
    shows_what_is_published(scene, &[&earlier, &later, &latest], 4).await;
}

async fn shows_what_is_published(scene: Scene<'_, impl Outbox>, last: &[&Event; 3], all: u64) {
    // WHEN the latest three are looked at, and then all are published
    let peek = scene.headwater.run(&["peek", "--limit", "3"]);
    assert_eq!(peek.code, 0, "{}", peek.stderr);
    let published = publish(&scene, all).await;

    // THEN it is the same, to the byte, the oldest of them first
    let shown: Vec<&str> = peek.stdout.lines().collect();
    assert_eq!(shown, lines(&published, last));
}

/// Runs until so many messages are there.
async fn publish(scene: &Scene<'_, impl Outbox>, count: u64) -> Vec<Consumed> {
    let mut run = scene.start().await;
    let arrived = scene
        .kafka
        .wait_for_messages(scene.topic(), count, LIMIT)
        .await;
    assert!(arrived, "{}", run.tail());
    run.ask_to_stop().await;
    let published = scene.consume().await;
    assert_eq!(published.len(), usize::try_from(count).unwrap());
    published
}

#[tokio::test]
async fn peek_follows_new_rows_and_leaves_nothing_behind() {
    // GIVEN a pipeline that does not run, and somebody who follows its table
    let scene = Scene::ready(17, "follow").await;
    let slot = scene.pipeline.slot();
    let begins = scene.database.confirmed_lsn(&slot).await;
    let mut peek = scene.spawn(&["peek", "--follow"]);
    let ready = format!(
        "SELECT count(*) FROM pg_replication_slots WHERE temporary AND confirmed_flush_lsn IS NOT NULL AND database = '{}'",
        scene.database.name()
    );
    assert!(comes_to(&scene, &ready, "1").await, "{}", peek.tail());

    let events = [1, 3].map(|seq| Event::new(&scene.namespace, "k", seq));
    follows(&scene, &mut peek, &events).await;
    let all = format!(
        "SELECT string_agg(slot_name, ' ') FROM pg_replication_slots WHERE database = '{}'",
        scene.database.name()
    );
    assert!(comes_to(&scene, &all, &slot).await, "slots are left");

    // THEN the pipeline was not moved, and publishes the same bytes
    assert_eq!(scene.database.confirmed_lsn(&slot).await, begins);
    publishes_what_was_shown(&scene, &peek, &events).await;
}

on_every_binlog!(peek_follows_new_rows: "follow", shared server, shared kafka);

async fn peek_follows_new_rows(scene: Scene<'_, MysqlDatabase<'_>>) {
    // GIVEN a pipeline that does not run, and somebody who follows its table
    scene.init();
    // The server has not noticed yet that init's own reading is over.
    scene.database.end_readers().await;
    let mut peek = scene.spawn(&["peek", "--follow"]);
    let end = Instant::now() + LIMIT;
    while scene.database.readers().await == 0 {
        assert!(Instant::now() < end && peek.is_running(), "nobody follows");
        sleep(Duration::from_millis(20)).await;
    }
    let events = [1, 3].map(|seq| Event::new(&scene.namespace, "k", seq));
    follows(&scene, &mut peek, &events).await;

    // THEN the pipeline was not moved, and publishes the same bytes
    publishes_what_was_shown(&scene, &peek, &events).await;
}

async fn follows(scene: &Scene<'_, impl Outbox>, peek: &mut Running, [first, second]: &[Event; 2]) {
    // WHEN an event, a sentinel and another event are committed
    let sentinel = Event::new(&scene.namespace, "k", 2);
    let statements = [
        scene.insert(first),
        sentinel.insert_sentinel_into(scene.database.table()),
        scene.insert(second),
    ];
    scene.database.execute_each(&statements).await;

    // THEN they are shown, and the end is orderly
    let end = Instant::now() + LIMIT;
    while peek.stdout().lines().count() < 2 {
        assert!(Instant::now() < end && peek.is_running(), "not shown");
        sleep(Duration::from_millis(20)).await;
    }
    peek.ask_to_stop().await;
}

async fn publishes_what_was_shown(
    scene: &Scene<'_, impl Outbox>,
    peek: &Running,
    [first, second]: &[Event; 2],
) {
    let published = publish(scene, 2).await;
    let shown = peek.stdout();
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(shown, lines(&published, &[first, second]));
}

/// Whether the server comes to give this answer.
async fn comes_to(scene: &Scene<'_>, sql: &str, answer: &str) -> bool {
    let end = Instant::now() + LIMIT;
    while scene.database.ask(sql).await.as_deref() != Some(answer) {
        if Instant::now() >= end {
            return false;
        }
        sleep(Duration::from_millis(20)).await;
    }
    true
}

#[tokio::test]
async fn the_demo_puts_each_event_onto_kafka_once() {
    // GIVEN a broker; no other test of this process writes to the demo's topic
    const TOPIC: &str = "ekbatan.demo.wallet";
    let kafka = Kafka::shared();
    assert_eq!(kafka.message_count(TOPIC).await, 0);

    // WHEN the demo is shown on it
    let headwater = Headwater::new(env!("CARGO_BIN_EXE_headwater"), "");
    let brokers = kafka.brokers();
    let args = ["--kafka", &brokers, "--events", "30", "--rate", "500"];
    let output = headwater.run(&[&["demo"], &args[..]].concat());

    // THEN it says that all is well, and it is
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("lost        0"), "{}", output.stderr);
    assert_eq!(output.stdout, "");
    let messages = kafka.consume_all(&[TOPIC]).await;
    assert_eq!(messages.len(), 30);
    let ids: HashSet<String> = messages
        .iter()
        .map(|m| serde_json::from_slice::<Value>(m.value.as_ref().unwrap()).unwrap())
        .map(|value| value["id"].as_str().unwrap().to_owned())
        .collect();
    assert_eq!(ids.len(), 30);
}

#[tokio::test]
async fn every_line_of_the_log_for_machines_is_json() {
    // GIVEN a pipeline that logs everything, for machines
    let mut scene = Scene::shared(17, "machines").await;
    scene.pipeline.log_level = "trace".to_owned();
    let toml = scene.pipeline.toml();
    let toml = toml.replace("[log]", "[log]\nformat = \"json\"");
    scene.headwater.configure(&toml);

    // WHEN it is begun, loses its connection, and ends
    let mut run = scene.spawn(&["run", "--init"]);
    run.wait_until_it_carries().await;
    assert_eq!(scene.database.terminate_walsenders().await, 1);
    let written = scene.commit_events(5).await;
    scene.judge(&written).await.assert_at_least_once();
    run.ask_to_stop().await;

    // THEN each line is an object with a level and a sentence
    let log = run.log();
    let lines: Vec<Value> = log
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{line}: {e}")))
        .collect();
    for line in &lines {
        assert!(line["level"].is_string(), "{line}");
        assert!(line["message"].is_string(), "{line}");
    }
    let said = |sentence: &str| lines.iter().any(|line| line["message"] == sentence);
    assert!(said("the run ended: trying again"), "{log}");
    assert!(said("ended"), "{log}");
}
