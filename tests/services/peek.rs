//! What a person looks at is what is published: `peek`, `demo` on a real broker, and the log for machines.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use headwater_testkit::{Consumed, Headwater, Kafka};
use serde_json::Value;
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Scene};

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
    for insert in inserts {
        scene.database.execute(&insert).await;
    }

    // WHEN they are looked at, and then published
    let peek = scene.headwater.run(&["peek", "--limit", "3"]);
    assert_eq!(peek.code, 0, "{}", peek.stderr);
    let mut run = scene.start().await;
    assert!(scene.kafka.wait_for_messages(scene.topic(), 4, LIMIT).await);
    run.ask_to_stop().await;
    let published = scene.consume().await;

    // THEN it is the same, to the byte: the latest three, the oldest of them first
    let shown: Vec<&str> = peek.stdout.lines().collect();
    assert_eq!(shown, lines(&published, &[&earlier, &later, &latest]));
    assert_eq!(published.len(), 4);
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

    // WHEN an event, a sentinel and another event are committed
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let [first, sentinel, second] = [1, 2, 3].map(event);
    for sql in [first.insert(), sentinel.insert_sentinel(), second.insert()] {
        scene.database.execute(&sql).await;
    }

    // THEN they are shown, and the end is orderly
    let end = Instant::now() + LIMIT;
    while peek.stdout().lines().count() < 2 {
        assert!(Instant::now() < end && peek.is_running(), "not shown");
        sleep(Duration::from_millis(20)).await;
    }
    peek.ask_to_stop().await;
    let all = format!(
        "SELECT string_agg(slot_name, ' ') FROM pg_replication_slots WHERE database = '{}'",
        scene.database.name()
    );
    assert!(comes_to(&scene, &all, &slot).await, "slots are left");

    // THEN the pipeline was not moved, and publishes the same bytes
    assert_eq!(scene.database.confirmed_lsn(&slot).await, begins);
    let mut run = scene.start().await;
    assert!(scene.kafka.wait_for_messages(scene.topic(), 2, LIMIT).await);
    run.ask_to_stop().await;
    let published = scene.consume().await;
    let shown = peek.stdout();
    let shown: Vec<&str> = shown.lines().collect();
    assert_eq!(shown, lines(&published, &[&first, &second]));
    assert_eq!(published.len(), 2);
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
