//! The wire: the same rows in any database are the same bytes on Kafka.

use headwater_testkit::{Kafka, Mysql, Outbox, Server, unique};
use uuid::Uuid;

use crate::scene::{Event, LIMIT, Scene};

const AVRO: &str = r#"format = "avro"
schemas = ["changed.avsc"]"#;
const AVRO_SCHEMA: &str = r#"{"type": "record", "name": "WalletChangedEvent", "namespace": "NAMESPACE.avro",
    "fields": [{"name": "seq", "type": "long"}, {"name": "text", "type": "string"}, {"name": "half", "type": "double"}]}"#;
const PROTOBUF: &str = r#"format = "protobuf"
schemas = ["changed.proto"]"#;
const PROTOBUF_SCHEMA: &str = r#"syntax = "proto3"; package NAMESPACE.proto;
message WalletChangedEvent { int64 seq = 1; string text = 2; double half = 3; }"#;

#[tokio::test]
async fn the_same_rows_are_the_same_bytes_whatever_the_database() {
    let namespace = unique("wire");
    let events: Vec<Event> = (1..=20)
        .map(|seq: i64| Event {
            id: id(seq),
            ..Event::new(&namespace, "k", seq)
        })
        .collect();
    for (encode, file, schema) in [
        (AVRO, "changed.avsc", AVRO_SCHEMA),
        (PROTOBUF, "changed.proto", PROTOBUF_SCHEMA),
    ] {
        let schema = schema.replace("NAMESPACE", &namespace);
        // GIVEN pipelines on four databases WHEN the same rows are written to each
        let postgres = Scene::shared(17, "wire").await;
        let expected = published(postgres, encode, (file, &schema), &events).await;
        assert_eq!(expected.len(), events.len());
        for server in Server::ALL {
            let scene = Scene::binlog(Mysql::shared(server), Kafka::shared(), "wire").await;
            let found = published(scene, encode, (file, &schema), &events).await;
            // THEN the same keys and values arrive
            assert!(
                found == expected,
                "{server:?}: other bytes than PostgreSQL's"
            );
        }
    }
}

/// Some end in zero bytes, which MariaDB's log cuts off.
fn id(seq: i64) -> Uuid {
    let end = u128::from(seq % 3 == 0);
    Uuid::from_u128(
        0x0000_5678_9abc_4def_8123_4567_89ab_0000 | end | (u128::from(seq.unsigned_abs()) << 112),
    )
}

/// Key and value of each message, in order.
async fn published(
    mut scene: Scene<'_, impl Outbox>,
    encode: &str,
    (file, schema): (&str, &str),
    events: &[Event],
) -> Vec<(Option<Vec<u8>>, Option<Vec<u8>>)> {
    let topic = unique("wire_topic");
    scene.kafka.create_topic(&topic, 1, 1, &[]).await;
    encode.clone_into(&mut scene.pipeline.encode);
    scene.pipeline.more = format!("[[route]]\ntopic = \"{topic}\"");
    scene.configure();
    std::fs::write(scene.headwater.folder().join(file), schema).unwrap();
    scene.init();
    let mut run = scene.start().await;
    let inserts: Vec<String> = events
        .iter()
        .map(|event| {
            let payload = format!(
                r#"'{{"seq": {}, "text": "Grüße 🍀 {}", "half": {}.5}}'"#,
                event.seq, event.key, event.seq
            );
            scene.insert_with(
                event,
                &[
                    ("payload", &payload),
                    ("action_id", "'9d2e4c70-51b8-4f3a-8c6d-e7f1a2b30000'"),
                    ("started_date", "'1969-12-31 23:59:59.999999'"),
                    ("completion_date", "'2026-06-12 03:22:47.5'"),
                    ("event_date", "'9999-12-31 23:59:59.999999'"),
                ],
            )
        })
        .collect();
    scene.database.execute_each(&inserts).await;
    let count = u64::try_from(events.len()).unwrap();
    let arrived = scene.kafka.wait_for_messages(&topic, count, LIMIT).await;
    assert!(arrived, "{}", run.tail());
    run.ask_to_stop().await;
    let messages = scene.kafka.consume_all(&[&topic]).await;
    messages.into_iter().map(|m| (m.key, m.value)).collect()
}
