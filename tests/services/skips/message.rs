//! A message, to the letter: what the consumers' programs are written against.

use headwater_testkit::unique;

use crate::scene::{LIMIT, Scene};

#[tokio::test]
async fn a_row_becomes_exactly_this_message() {
    // GIVEN a pipeline at work, and a topic that does not exist yet
    let scene = Scene::ready(17, "letter").await;
    let mut run = scene.start().await;
    let namespace = unique("letter");

    // WHEN a row with all that is awkward is written, and one with what may be null or long ago
    let rows = format!(
        r#"INSERT INTO eventlog.events VALUES
        ('3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a', '{namespace}', '9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5',
         $$Seal "it" \ with	tab, é, €, 😀$$, $${{"dock": 12, "a": null}}$$, '2026-06-12 03:22:47.000123',
         '2026-06-12 03:22:47.5', 'crate-4410 é', 'Crate', 'CrateSealed',
         $${{"amount": 77.10, "big": 12345678901234567890.123456789, "text": "a\n\"b\" \u20ac", "list": [1, {{"x": true}}]}}$$,
         '1999-12-31 23:59:59.999999', true);
        INSERT INTO eventlog.events VALUES
        ('00000000-0000-0000-0000-000000000000', '{namespace}', 'ffffffff-ffff-ffff-ffff-ffffffffffff', '', '[]',
         '0044-03-15 12:00:00 BC', '10000-01-01', NULL, NULL, 'E', '{{}}', '1970-01-01', false);"#
    );
    scene.database.execute(&rows).await;

    // THEN these are the messages
    let topic = format!("ekbatan.{namespace}");
    assert!(scene.kafka.wait_for_messages(&topic, 2, LIMIT).await);
    run.ask_to_stop().await;
    let mut messages = scene.kafka.consume_all(&[&topic]).await;
    assert_eq!(messages.len(), 2);
    messages.sort_by_key(|m| m.key.as_deref() == Some(b"ffffffff-ffff-ffff-ffff-ffffffffffff"));
    let text = |bytes: &Option<Vec<u8>>| String::from_utf8(bytes.clone().unwrap()).unwrap();
    assert_eq!(text(&messages[0].key), "crate-4410 é");
    assert_eq!(
        text(&messages[0].value),
        [
            r#"{"id":"3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a","#,
            &format!(r#""namespace":"{namespace}","#),
            r#""action_id":"9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5","#,
            r#""action_name":"Seal \"it\" \\ with\ttab, é, €, 😀","#,
            r#""action_params":{"a": null, "dock": 12},"#,
            r#""started_date":"2026-06-12T03:22:47.000123Z","#,
            r#""completion_date":"2026-06-12T03:22:47.500000Z","#,
            r#""model_id":"crate-4410 é","#,
            r#""model_type":"Crate","#,
            r#""event_type":"CrateSealed","#,
            r#""payload":{"big": 12345678901234567890.123456789, "list": [1, {"x": true}], "text": "a\n\"b\" €", "amount": 77.10},"#,
            r#""event_date":"1999-12-31T23:59:59.999999Z","#,
            r#""delivered":true}"#,
        ]
        .concat()
    );
    assert_eq!(
        text(&messages[1].key),
        "ffffffff-ffff-ffff-ffff-ffffffffffff"
    );
    assert_eq!(
        text(&messages[1].value),
        [
            r#"{"id":"00000000-0000-0000-0000-000000000000","#,
            &format!(r#""namespace":"{namespace}","#),
            r#""action_id":"ffffffff-ffff-ffff-ffff-ffffffffffff","#,
            r#""action_name":"","action_params":[],"#,
            r#""started_date":"-000043-03-15T12:00:00.000000Z","#,
            r#""completion_date":"+010000-01-01T00:00:00.000000Z","#,
            r#""model_id":null,"model_type":null,"event_type":"E","payload":{},"#,
            r#""event_date":"1970-01-01T00:00:00.000000Z","delivered":false}"#,
        ]
        .concat()
    );
    assert!(messages.iter().all(|m| m.headers.is_empty()));
}

#[tokio::test]
async fn in_debezium_style_a_row_becomes_exactly_this_message() {
    // GIVEN a pipeline that writes what Ekbatan's router wrote
    let mut scene = Scene::shared(17, "letter").await;
    scene.pipeline.encode = "format = \"json\"\njson_style = \"debezium\"".to_owned();
    scene.configure();
    scene.init();
    let mut run = scene.start().await;

    // WHEN a row is written
    let namespace = &scene.namespace;
    let row = format!(
        r#"INSERT INTO eventlog.events VALUES
        ('3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a', '{namespace}', '9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5',
         E'Seal "it"\x1f', $${{"dock": 12, "a": null}}$$, '2026-06-12 03:22:47.000123', '1969-12-31 23:59:59.999999',
         NULL, NULL, 'CrateSealed', $${{"amount": 77.10, "text": "a\n\"b\" \u20ac"}}$$, '2026-06-12 03:22:47.5', true)"#
    );
    scene.database.execute(&row).await;

    // THEN this is the message
    assert!(scene.kafka.wait_for_messages(scene.topic(), 1, LIMIT).await);
    run.ask_to_stop().await;
    let message = scene.consume().await.remove(0);
    assert_eq!(
        String::from_utf8(message.value.unwrap()).unwrap(),
        [
            r#"{"id":"3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a","#,
            &format!(r#""namespace":"{namespace}","#),
            r#""action_id":"9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5","#,
            r#""action_name":"Seal \"it\"\u001F","action_params":"{\"a\": null, \"dock\": 12}","#,
            r#""started_date":1781234567000123,"completion_date":-1,"model_id":null,"model_type":null,"#,
            r#""event_type":"CrateSealed","payload":"{\"text\": \"a\\n\\\"b\\\" €\", \"amount\": 77.10}","#,
            r#""event_date":1781234567500000,"delivered":true}"#,
        ]
        .concat()
    );
}
