//! Whatever the format: ids are found again in what was published, by `audit` and by `recover`.

use std::fs;
use std::path::PathBuf;

use headwater_testkit::{Consumed, Outbox, Verdict, Written, check};

use super::{Lose, audit, recover, told, with_own_topic};
use crate::readers::python::Reader;
use crate::scene::{LIMIT, Scene, on_every_binlog};

/// Who reads the messages besides Headwater; none: the checker itself reads JSON.
type Readers = Option<Reader>;

#[tokio::test]
async fn json_is_audited_and_recovered() {
    in_format(Scene::shared(17, "json").await, "json", |_| None).await;
}

#[tokio::test]
async fn avro_is_audited_and_recovered() {
    in_avro(Scene::shared(17, "avro").await).await;
}

on_every_binlog!(in_avro: "avro", own server, shared kafka);

async fn in_avro<D: Outbox + Lose>(scene: Scene<'_, D>) {
    in_format(scene, "avro", |scene| {
        let schema = format!(
            r#"{{"type": "record", "name": "WalletChangedEvent", "namespace": "{}.avro",
                "fields": [{{"name": "seq", "type": "long"}}]}}"#,
            scene.namespace
        );
        let file = put(scene, "changed.avsc", &schema);
        Some(Reader::avro(&[file], None))
    })
    .await;
}

#[tokio::test]
async fn protobuf_is_audited_and_recovered() {
    in_protobuf(Scene::shared(17, "protobuf").await).await;
}

on_every_binlog!(in_protobuf: "protobuf", own server, shared kafka);

async fn in_protobuf<D: Outbox + Lose>(scene: Scene<'_, D>) {
    in_format(scene, "protobuf", |scene| {
        let schema = format!(
            r#"syntax = "proto3"; package {}.proto; message WalletChangedEvent {{ int32 seq = 1; }}"#,
            scene.namespace
        );
        let file = put(scene, "changed.proto", &schema);
        Some(Reader::protobuf(scene.headwater.folder(), &[file]))
    })
    .await;
}

fn put(scene: &Scene<'_, impl Outbox>, name: &str, schema: &str) -> PathBuf {
    let folder = scene.headwater.folder().join("schemas");
    fs::create_dir_all(&folder).unwrap();
    let file = folder.join(name);
    fs::write(&file, schema).unwrap();
    file
}

async fn in_format<'a, D: Outbox + Lose>(
    mut scene: Scene<'a, D>,
    format: &str,
    readers: impl FnOnce(&Scene<'a, D>) -> Readers,
) {
    // GIVEN a pipeline of this format that was stopped, events that it has not read, and a log that is lost
    let reader = readers(&scene);
    scene.pipeline.encode = format!("format = \"{format}\"");
    if reader.is_some() {
        scene.pipeline.encode += "\nschemas = [\"schemas/*\"]";
    }
    let scene = with_own_topic(scene);
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(20).await;
    arrive(&scene, 20).await;
    run.ask_to_stop().await;
    written.add(scene.commit_events(15).await);
    scene.database.lose(&scene.pipeline).await;

    // WHEN it is audited, THEN as much is missing as the checker says
    let verdict = judge(&scene, reader.as_ref(), &written).await;
    assert_eq!((verdict.lost.len(), verdict.arrived), (15, 20), "{verdict}");
    assert_eq!(told(&audit(&scene, 3), " missing"), 15);

    // WHEN it is recovered, THEN what is missing comes, and nothing again
    let output = recover(&scene);
    assert_eq!(told(&output, "already on the topics"), 20);
    assert_eq!(told(&output, "published now"), 15);
    let verdict = judge(&scene, reader.as_ref(), &written).await;
    verdict.assert_each_once();

    // AND the log goes on, and the checker and `audit` agree that nothing is missing
    let mut run = scene.start().await;
    written.add(scene.commit_events(5).await);
    arrive(&scene, 40).await;
    run.ask_to_stop().await;
    let verdict = judge(&scene, reader.as_ref(), &written).await;
    verdict.assert_each_once();
    let output = audit(&scene, 0);
    for (count, words) in [
        (40, "on the topics"),
        (0, " missing"),
        (0, " foreign"),
        (0, "no events in this format"),
    ] {
        assert_eq!(told(&output, words), count, "{}", output.stdout);
    }
}

async fn arrive(scene: &Scene<'_, impl Outbox>, count: u64) {
    let topic = scene.topic();
    let arrived = scene.kafka.wait_for_messages(topic, count, LIMIT).await;
    assert!(arrived, "no {count} messages");
}

/// As the checker judges JSON, after the reader has made that of the messages.
async fn judge(
    scene: &Scene<'_, impl Outbox>,
    reader: Option<&Reader>,
    written: &Written,
) -> Verdict {
    let mut consumed: Vec<Consumed> = scene.consume().await;
    if let Some(reader) = reader {
        let rows = reader.read(&consumed);
        for (message, row) in consumed.iter_mut().zip(rows) {
            message.value = Some(row.to_string().into_bytes());
        }
    }
    check(written, &consumed)
}
