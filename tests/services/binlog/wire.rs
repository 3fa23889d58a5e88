//! The wire: the same rows in any database are the same bytes on Kafka, but for the JSON text that each of them keeps.

use std::path::PathBuf;

use headwater_testkit::{Consumed, Kafka, Mysql, Outbox, Server, unique};
use serde_json::{Value, json};
use uuid::Uuid;

use crate::readers::python::Reader;
use crate::scene::{Event, LIMIT, Scene};

const AVRO: &str = r#"format = "avro"
schemas = ["changed.avsc"]"#;
const AVRO_SCHEMA: &str = r#"{"type": "record", "name": "WalletChangedEvent", "namespace": "NAMESPACE.avro",
    "fields": [{"name": "seq", "type": "long"}, {"name": "text", "type": "string"}, {"name": "half", "type": "double"}]}"#;
const PROTOBUF: &str = r#"format = "protobuf"
schemas = ["changed.proto"]"#;
const PROTOBUF_SCHEMA: &str = r#"syntax = "proto3"; package NAMESPACE.proto;
message WalletChangedEvent { int64 seq = 1; string text = 2; double half = 3; }"#;

/// A format: the lines of `[encode]`, its schema's file and text, and a reader that knows nothing of Headwater.
struct Format {
    encode: &'static str,
    file: &'static str,
    schema: String,
    reader: fn(PathBuf) -> Reader,
}

fn formats(namespace: &str) -> [Format; 2] {
    [
        Format {
            encode: AVRO,
            file: "changed.avsc",
            schema: AVRO_SCHEMA.replace("NAMESPACE", namespace),
            reader: |file| Reader::avro(&[file], None),
        },
        Format {
            encode: PROTOBUF,
            file: "changed.proto",
            schema: PROTOBUF_SCHEMA.replace("NAMESPACE", namespace),
            reader: |file| Reader::protobuf(&file.with_file_name(""), &[file]),
        },
    ]
}

fn events(namespace: &str) -> Vec<Event> {
    let event = |seq: i64| Event {
        id: id(seq),
        ..Event::new(namespace, "k", seq)
    };
    (1..=20).map(event).collect()
}

/// Some end in zero bytes, which MariaDB's log cuts off.
fn id(seq: i64) -> Uuid {
    let end = u128::from(seq % 3 == 0);
    Uuid::from_u128(
        0x0000_5678_9abc_4def_8123_4567_89ab_0000 | end | (u128::from(seq.unsigned_abs()) << 112),
    )
}

/// Every fourth row belongs to no model.
fn has_model(event: &Event) -> bool {
    event.seq % 4 != 0
}

fn is_delivered(event: &Event) -> bool {
    event.seq % 2 == 0
}

#[tokio::test]
async fn the_same_rows_are_the_same_bytes_whatever_the_database() {
    let namespace = unique("wire");
    let events = events(&namespace);
    for format in formats(&namespace) {
        // GIVEN pipelines on four databases WHEN the same rows are written to each
        let mut postgres = Scene::shared(17, "wire").await;
        let expected = published(&mut postgres, &format, &events, "{}").await;
        assert_eq!(expected.len(), events.len());
        for server in Server::ALL {
            let mut scene = Scene::binlog(Mysql::shared(server), Kafka::shared(), "wire").await;
            let found = published(&mut scene, &format, &events, "{}").await;
            // THEN the same keys and values arrive
            assert!(
                bytes(&found) == bytes(&expected),
                "{server:?}: other bytes than PostgreSQL's"
            );
        }
    }
}

/// Key and value of each message, in order.
fn bytes(messages: &[Consumed]) -> Vec<[Option<&[u8]>; 2]> {
    messages
        .iter()
        .map(|m| [m.key.as_deref(), m.value.as_deref()])
        .collect()
}

/// As the application writes it, and as each database keeps it: PostgreSQL's text, MySQL's binary form told as Debezium tells
/// it, and what was written.
const PARAMS: &str = r#"{"b": 1, "aa": [1.50, true,null], "a": {"x": "Grüße \"q\" \\ / 🍀"}, "n": 12345678.9, "e": 1e3}"#;
const BY_POSTGRES: &str = r#"{"a": {"x": "Grüße \"q\" \\ / 🍀"}, "b": 1, "e": 1000, "n": 12345678.9, "aa": [1.50, true, null]}"#;
const BY_MYSQL: &str = r#"{"a":{"x":"Grüße \"q\" \\ / 🍀"},"b":1,"e":1000.0,"n":12345678.90000000037252902984619140625,"aa":[1.5,true,null]}"#;
const BY_MARIADB: &str = PARAMS;

#[tokio::test]
async fn fastavro_and_googles_protobuf_read_what_any_database_holds() {
    let namespace = unique("others");
    let events = events(&namespace);
    for format in formats(&namespace) {
        // GIVEN pipelines on four databases WHEN the same rows are written to each THEN others read them, field by field
        let mut postgres = Scene::shared(17, "others").await;
        let messages = published(&mut postgres, &format, &events, PARAMS).await;
        are_read(&postgres, &format, &messages, &events, BY_POSTGRES);
        // A backslash is one only if it is written twice.
        let escaped = PARAMS.replace('\\', r"\\");
        for server in Server::ALL {
            let mut scene = Scene::binlog(Mysql::shared(server), Kafka::shared(), "others").await;
            let messages = published(&mut scene, &format, &events, &escaped).await;
            let params = if server.is_mariadb() {
                BY_MARIADB
            } else {
                BY_MYSQL
            };
            are_read(&scene, &format, &messages, &events, params);
        }
    }
}

fn are_read(
    scene: &Scene<'_, impl Outbox>,
    format: &Format,
    messages: &[Consumed],
    events: &[Event],
    params: &str,
) {
    let schema = scene.headwater.folder().join(format.file);
    let found = (format.reader)(schema).read(messages);
    let expected: Vec<Value> = events.iter().map(|event| row(event, params)).collect();
    for (found, expected) in found.iter().zip(&expected) {
        assert_eq!(found, expected, "{}", scene.database.url());
    }
    assert_eq!(found.len(), expected.len());
}

/// As a reader finds it. Dates are microseconds since 1970, a double is its bits.
fn row(event: &Event, params: &str) -> Value {
    let seq = event.seq;
    let half: f64 = format!("{seq}.5").parse().unwrap();
    json!({
        "id": event.id.to_string(),
        "namespace": event.namespace,
        "action_id": ACTION,
        "action_name": "TestAction",
        "action_params": params,
        "started_date": -1,
        "completion_date": 1_781_234_567_500_000_i64,
        "model_id": has_model(event).then_some(&event.key),
        "model_type": has_model(event).then_some("Wallet"),
        "event_type": "WalletChangedEvent",
        "payload": {
            "seq": seq,
            "text": format!("Grüße 🍀 {}", event.key),
            "half": {"$float8": format!("{:016x}", half.to_bits())},
        },
        "event_date": 253_402_300_799_999_999_i64,
        "delivered": is_delivered(event),
    })
}

const ACTION: &str = "9d2e4c70-51b8-4f3a-8c6d-e7f1a2b30000";

/// The messages of these events, in order; `params` as it may stand between quotes in SQL.
async fn published(
    scene: &mut Scene<'_, impl Outbox>,
    format: &Format,
    events: &[Event],
    params: &str,
) -> Vec<Consumed> {
    let topic = unique("wire_topic");
    scene.kafka.create_topic(&topic, 1, 1, &[]).await;
    format.encode.clone_into(&mut scene.pipeline.encode);
    scene.pipeline.more = format!("[[route]]\ntopic = \"{topic}\"");
    scene.configure();
    let file = scene.headwater.folder().join(format.file);
    std::fs::write(file, &format.schema).unwrap();
    scene.init();
    let mut run = scene.start().await;
    let inserts: Vec<String> = events
        .iter()
        .map(|event| insert(scene, event, params))
        .collect();
    scene.database.execute_each(&inserts).await;
    let count = u64::try_from(events.len()).unwrap();
    let arrived = scene.kafka.wait_for_messages(&topic, count, LIMIT).await;
    assert!(arrived, "{}", run.tail());
    run.ask_to_stop().await;
    scene.kafka.consume_all(&[&topic]).await
}

fn insert(scene: &Scene<'_, impl Outbox>, event: &Event, params: &str) -> String {
    let Event { seq, key, .. } = event;
    let payload = format!(r#"'{{"seq": {seq}, "text": "Grüße 🍀 {key}", "half": {seq}.5}}'"#);
    let (params, action) = (format!("'{params}'"), format!("'{ACTION}'"));
    let mut changed = vec![
        ("payload", payload.as_str()),
        ("action_params", &params),
        ("action_id", &action),
        ("started_date", "'1969-12-31 23:59:59.999999'"),
        ("completion_date", "'2026-06-12 03:22:47.5'"),
        ("event_date", "'9999-12-31 23:59:59.999999'"),
    ];
    if !has_model(event) {
        changed.extend([("model_id", "NULL"), ("model_type", "NULL")]);
    }
    if is_delivered(event) {
        changed.push(("delivered", "true"));
    }
    scene.insert_with(event, &changed)
}
