//! What others read: Python's fastavro and protobuf, which know nothing of Headwater, decode the messages and find what the
//! database says about the rows, field by field.

pub mod python;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

use headwater_testkit::Consumed;
use serde_json::Value;

use crate::scene::{LIMIT, Scene};
use python::Reader;

/// What PostgreSQL makes of any payload, and the envelopes to write.
const SAYS: &str = include_str!("readers/says.sql");
const AVRO: &str = include_str!("readers/avro.sql");
const PROTOBUF: &str = include_str!("readers/protobuf.sql");

/// The header of every Avro envelope: the mark of single-object encoding and the fingerprint that consumers know.
const ENVELOPE_HEADER: &[u8] = b"\xC3\x01\x73\x55\xC7\xEA\xFA\xD5\xF8\x12";

/// How many envelopes `says.sql` has.
const ENVELOPES: u32 = 5;

#[tokio::test]
async fn fastavro_reads_what_the_database_says() {
    // GIVEN a pipeline at work with Avro schemas
    let mut scene = Scene::shared(17, "avro").await;
    let schemas = [
        "tests/fixtures/schemas/avro/ParcelBooked.avsc",
        "tests/fixtures/schemas/avro/MeterRead.avsc",
        "schemas/examples/WalletToppedUp.avsc",
    ];
    let files = schemas.map(|file| put(&scene, file, "schemas"));
    carry_with(&mut scene, "avro", "avsc");

    // WHEN rows of all kinds are carried
    let messages = carry_rows(&scene, AVRO).await;

    // THEN each message carries the fingerprints, and is its row
    assert!(
        messages
            .iter()
            .all(|m| value(m).starts_with(ENVELOPE_HEADER))
    );
    let reader = Reader::avro(&files, None);
    agree(&scene, &messages, &reader).await;
    // AND the reader would have seen what is amiss
    let message = value(&messages[0]);
    reader.refuses(&flipped(message, 0), "the header of");
    reader.refuses(&flipped(message, 2), "the header of");
    reader.refuses(&[message, b"\0"].concat(), "bytes after");
    reader.refuses(&message[..message.len() - 1], "EOFError");
}

#[tokio::test]
async fn googles_protobuf_reads_what_the_database_says() {
    // GIVEN a pipeline at work with Protobuf schemas, one of which only others import
    let mut scene = Scene::shared(17, "proto").await;
    let schemas = [
        "tests/fixtures/schemas/proto/party.proto",
        "tests/fixtures/schemas/proto/ParcelBooked.proto",
        "tests/fixtures/schemas/proto/MeterRead.proto",
        "tests/fixtures/schemas/proto/SealBroken.proto",
        "schemas/examples/WalletToppedUp.proto",
    ];
    let files = schemas.map(|file| put(&scene, file, "schemas"));
    carry_with(&mut scene, "protobuf", "proto");

    // WHEN rows of all kinds are carried
    let messages = carry_rows(&scene, PROTOBUF).await;

    // THEN each message is its row
    let reader = Reader::protobuf(scene.headwater.folder(), &files);
    agree(&scene, &messages, &reader).await;
    // AND the reader would have seen what is amiss
    let message = value(&messages[0]);
    reader.refuses(&[message, b"\xA0\x06\x01"].concat(), "unknown fields");
    reader.refuses(&[message, b"\x68\x00"].concat(), "written again");
    reader.refuses(&message[..message.len() - 1], "DecodeError");
}

#[tokio::test]
async fn readers_of_an_older_and_of_a_newer_schema_read_both() {
    // GIVEN events that were carried with a schema's first edition, a member that only the second one has among them
    let mut scene = Scene::shared(17, "grow").await;
    let [first, second] = [1, 2].map(|edition| {
        let file = format!("tests/fixtures/schemas/avro/NoteTaken.{edition}.avsc");
        put(&scene, &file, "editions")
    });
    let used = scene.headwater.folder().join("schemas/NoteTaken.avsc");
    fs::create_dir_all(used.parent().unwrap()).unwrap();
    fs::copy(&first, &used).unwrap();
    carry_with(&mut scene, "avro", "avsc");
    scene.init();
    let early = [
        r#"{"text": "a", "pages": 1}"#,
        r#"{"text": "b", "pages": 2, "language": "fr"}"#,
    ];
    carry_notes(&scene, &early, 2).await;

    // WHEN the second edition takes its place
    fs::copy(&second, &used).unwrap();
    let late = [
        r#"{"text": "c", "pages": 3}"#,
        r#"{"text": "d", "pages": 4, "language": "en"}"#,
    ];
    carry_notes(&scene, &late, 4).await;

    // THEN a reader of either edition reads the events of both
    let messages = scene.consume().await;
    let editions = [first.clone(), second.clone()];
    let notes = |edition: &Path| {
        let rows = Reader::avro(&editions, Some(edition)).read(&messages);
        let mut notes: Vec<String> = rows.iter().map(|row| row["payload"].to_string()).collect();
        notes.sort();
        notes
    };
    let languages = [
        ("a", 1, "la"),
        ("b", 2, "la"),
        ("c", 3, "la"),
        ("d", 4, "en"),
    ];
    let new = languages.map(|(text, pages, language)| {
        serde_json::json!({"text": text, "language": language, "pages": pages}).to_string()
    });
    let old = languages
        .map(|(text, pages, _)| serde_json::json!({"text": text, "pages": pages}).to_string());
    let sorted = |mut notes: [String; 4]| {
        notes.sort();
        notes
    };
    assert_eq!(notes(&second), sorted(new));
    assert_eq!(notes(&first), sorted(old));
}

/// The namespaces of the schemas as they stand in their folders.
const NAMESPACES: [&str; 2] = ["NAMESPACE", "shop"];

/// A copy of a schema, in the test's own namespace, in a folder beside the configuration.
fn put(scene: &Scene<'_>, schema: &str, folder: &str) -> PathBuf {
    let from = python::root().join(schema);
    let mut text = fs::read_to_string(&from).unwrap_or_else(|e| panic!("{schema}: {e}"));
    for namespace in NAMESPACES {
        for language in ["avro", "proto"] {
            let own = format!("{}.{language}", scene.namespace);
            text = text.replace(&format!("{namespace}.{language}"), &own);
        }
    }
    let folder = scene.headwater.folder().join(folder);
    fs::create_dir_all(&folder).unwrap();
    let to = folder.join(from.file_name().unwrap());
    fs::write(&to, text).unwrap();
    to
}

fn carry_with(scene: &mut Scene<'_>, format: &str, suffix: &str) {
    scene.pipeline.encode = format!("format = \"{format}\"\nschemas = [\"schemas/*.{suffix}\"]");
    scene.configure();
}

/// Writes every payload of `events` in every envelope, between rows and changes that are no events, and returns all that
/// arrived.
async fn carry_rows(scene: &Scene<'_>, events: &str) -> Vec<Consumed> {
    scene.database.execute(SAYS).await;
    scene.database.execute(events).await;
    scene.init();
    let mut run = scene.start().await;
    let namespace = &scene.namespace;
    for envelope in 1..=ENVELOPES {
        let sql = format!(
            "BEGIN;
            INSERT INTO eventlog.events SELECT gen_random_uuid(), '{namespace}', gen_random_uuid(), action_name, action_params,
                started_date, completion_date, model_id, model_type, event_type, payload, event_date, delivered
                FROM says.envelope, says.event WHERE envelope.n = {envelope} ORDER BY event.n;
            INSERT INTO eventlog.events SELECT gen_random_uuid(), '{namespace}', gen_random_uuid(), 'None', '{{}}', now(), now(),
                NULL, NULL, NULL, payload, now(), false FROM (VALUES (NULL), ('{{}}'::jsonb)) AS sentinel(payload);
            UPDATE eventlog.events SET delivered = NOT delivered;
            COMMIT;
            UPDATE eventlog.events SET delivered = NOT delivered;
            DELETE FROM eventlog.events WHERE event_type IS NULL AND payload IS NULL;"
        );
        scene.database.execute(&sql).await;
    }
    let count = "SELECT count(*) FROM eventlog.events WHERE event_type IS NOT NULL";
    let count = scene.database.ask(count).await.unwrap().parse().unwrap();
    let topic = scene.topic();
    let arrived = scene.kafka.wait_for_messages(topic, count, LIMIT).await;
    assert!(arrived, "not {count} messages:\n{}", run.tail());
    run.ask_to_stop().await;
    scene.consume().await
}

/// Carries notes in a run of its own, until `total` messages are there.
async fn carry_notes(scene: &Scene<'_>, payloads: &[&str], total: u64) {
    let mut run = scene.start().await;
    for payload in payloads {
        let sql = format!(
            "INSERT INTO eventlog.events VALUES (gen_random_uuid(), '{}', gen_random_uuid(), 'TakeNote', '{{}}', now(), now(),
                'n', 'Note', 'NoteTaken', '{payload}', now(), false)",
            scene.namespace
        );
        scene.database.execute(&sql).await;
    }
    let topic = scene.topic();
    let arrived = scene.kafka.wait_for_messages(topic, total, LIMIT).await;
    assert!(arrived, "not {total} messages:\n{}", run.tail());
    run.ask_to_stop().await;
}

/// The rows that are events, as the database itself says that a reader should find them; and their keys.
const ROWS: &str = "SELECT jsonb_build_object('id', id, 'namespace', namespace, 'action_id', action_id, 'action_name', action_name,
        'action_params', action_params::text, 'started_date', says.micros(started_date AT TIME ZONE 'UTC'),
        'completion_date', says.micros(completion_date AT TIME ZONE 'UTC'), 'model_id', model_id, 'model_type', model_type,
        'event_type', event_type, 'payload', says.payload(event_type, payload),
        'event_date', says.micros(event_date AT TIME ZONE 'UTC'), 'delivered', delivered)::text,
    coalesce(model_id, action_id::text)
    FROM eventlog.events WHERE event_type IS NOT NULL";

/// One message a row, and each field of each message as the database says.
async fn agree(scene: &Scene<'_>, messages: &[Consumed], reader: &Reader) {
    let client = scene.database.connect().await;
    let rows = client.query(ROWS, &[]).await.unwrap();
    let said: BTreeMap<String, (Value, String)> = rows
        .iter()
        .map(|row| {
            let said: Value = serde_json::from_str(row.get(0)).unwrap();
            (text(&said["id"]), (said, row.get(1)))
        })
        .collect();
    assert_eq!(messages.len(), said.len(), "one message a row");
    let read = reader.read(messages);
    let mut differences = Vec::new();
    let mut seen = BTreeSet::new();
    for (found, message) in read.iter().zip(messages) {
        let id = text(&found["id"]);
        let (said, key) = said.get(&id).unwrap_or_else(|| panic!("no row {id}"));
        assert_eq!(message.key.as_deref(), Some(key.as_bytes()), "key of {id}");
        let place = format!("{} {id}", found["event_type"]);
        compare(&place, found, said, &mut differences);
        seen.insert(id);
    }
    assert_eq!(seen.len(), said.len(), "each row once");
    assert!(differences.is_empty(), "{}", differences.join("\n"));
}

/// Notes every place where a reader found something else than the database says.
fn compare(place: &str, found: &Value, said: &Value, differences: &mut Vec<String>) {
    match (found, said) {
        (Value::Object(found), Value::Object(said)) => {
            for name in found
                .keys()
                .chain(said.keys().filter(|n| !found.contains_key(*n)))
            {
                let place = format!("{place}.{name}");
                match (found.get(name), said.get(name)) {
                    (Some(found), Some(said)) => compare(&place, found, said, differences),
                    (found, said) => {
                        differences.push(format!("{place}: {found:?}; the database says {said:?}"));
                    }
                }
            }
        }
        (Value::Array(found), Value::Array(said)) if found.len() == said.len() => {
            for (at, (found, said)) in found.iter().zip(said).enumerate() {
                compare(&format!("{place}[{at}]"), found, said, differences);
            }
        }
        _ if found == said => {}
        _ => differences.push(format!("{place}: {found}; the database says {said}")),
    }
}

pub fn value(message: &Consumed) -> &[u8] {
    message.value.as_deref().expect("a message with a value")
}

fn text(value: &Value) -> String {
    value.as_str().expect("text").to_owned()
}

fn flipped(message: &[u8], at: usize) -> Vec<u8> {
    let mut message = message.to_vec();
    message[at] ^= 1;
    message
}
