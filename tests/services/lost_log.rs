//! A lost log: the program refuses to go on, says what is missing and what to do, and goes on after a person did so.

use std::time::Duration;

use headwater_testkit::{Kafka, Outbox, Postgres, Proxy, Written};
use serde_json::Value;

use crate::scene::Scene;

pub mod backup;
mod first_start;
mod replaced;
mod setup;

#[tokio::test]
async fn a_dropped_slot_is_refused_until_a_new_one_is_adopted() {
    // GIVEN a pipeline that has run, and then its slot was dropped
    let (scene, mut written) = that_has_run("dropped").await;
    let slot = scene.pipeline.slot();
    drop_slot(&scene).await;
    let _gap = scene.commit_events(10).await;

    // WHEN it is started, THEN a person is asked for
    let words = [&slot, "does not exist", "events since", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &[&slot, "does not exist"]);
    refuses(&scene, "adopt", &[&slot, "headwater init"]);
    nothing_more_was_published(&scene, &written).await;

    // AND a new slot is not taken for the old one
    scene.init();
    refuses(&scene, "run", &[&slot, "past the remembered position"]);
    nothing_more_was_published(&scene, &written).await;

    // AND after it was adopted, new events are carried, and those of the gap are not
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn a_slot_that_is_dropped_under_a_run_ends_it() {
    // GIVEN a pipeline at work
    let scene = Scene::ready(17, "under").await;
    let mut run = scene.start().await;
    let written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN its slot is taken away by force
    let slot = scene.pipeline.slot();
    let client = scene.database.connect().await;
    loop {
        scene.database.terminate_walsenders().await;
        let drop = format!("SELECT pg_drop_replication_slot('{slot}')");
        if client.batch_execute(&drop).await.is_ok() {
            break;
        }
    }

    // THEN a person is asked for
    let code = run.ended_within(Duration::from_secs(20)).await;
    assert_eq!(code, 3, "{}", run.tail());
    let words = format!("slot {slot} does not exist");
    assert!(run.tail().contains(&words), "{}", run.tail());
}

#[tokio::test]
async fn a_slot_whose_log_the_server_removed_is_refused_until_a_new_one_is_adopted() {
    // GIVEN a pipeline that has run, and then fell further behind than its server keeps log for
    let settings = [("max_slot_wal_keep_size", "1MB"), ("max_wal_size", "32MB")];
    let postgres = Postgres::start(17, &settings);
    let scene = Scene::on(&postgres, Kafka::shared(), "removed").await;
    scene.init();
    let mut written = has_run(&scene).await;
    let _gap = scene.commit_events(10).await;
    for _ in 0..3 {
        scene.database.execute("SELECT pg_switch_wal()").await;
        scene
            .database
            .execute("CREATE TABLE t (); DROP TABLE t")
            .await;
    }
    scene.database.execute("CHECKPOINT").await;

    // WHEN it is started, THEN a person is asked for, with all that is to be done
    let slot = scene.pipeline.slot();
    let words = [
        &slot,
        "invalidated",
        "pg_drop_replication_slot",
        "headwater adopt",
    ];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    nothing_more_was_published(&scene, &written).await;

    // AND that helps
    drop_slot(&scene).await;
    scene.init();
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn a_slot_that_was_advanced_by_hand_is_refused_until_it_is_adopted() {
    // GIVEN a pipeline that has run, and then its slot was moved past events
    let (scene, mut written) = that_has_run("advanced").await;
    let slot = scene.pipeline.slot();
    let _gap = scene.commit_events(10).await;
    let advance = format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())");
    scene.database.execute(&advance).await;
    written.add(scene.commit_events(10).await);
    let published = scene.consume().await.len();

    // WHEN it is started, THEN a person is asked for
    let words = [&slot, "past the remembered position", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    assert_eq!(scene.consume().await.len(), published);

    // AND after it was adopted, all that was committed since the move arrives
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn another_cluster_behind_the_same_address_is_refused_until_it_is_adopted() {
    // GIVEN a pipeline that has run, and then its address leads to another cluster that has all it needs
    let (there, elsewhere) = (Postgres::shared(17), Postgres::start(17, &[]));
    let scene = Scene::on(there, Kafka::shared(), "elsewhere").await;
    let (scene, _proxy, mut written) = that_is_led_elsewhere(scene, &elsewhere).await;

    // WHEN it is started, THEN a person is asked for
    let words = ["system identifier", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    nothing_more_was_published(&scene, &written).await;

    // AND after it was adopted, the other cluster's events are carried
    adopts(&scene);
    goes_on(&scene, &mut written).await;
    nothing_more_was_published(&scene, &written).await;
}

/// A pipeline that has run, and whose address leads since then to another cluster, which was given its rows; and the proxy that does so.
pub async fn that_is_led_elsewhere<'a>(
    mut scene: Scene<'a>,
    elsewhere: &'a Postgres,
) -> (Scene<'a>, Proxy, Written) {
    let proxy = Proxy::start(scene.database.port());
    scene.pipeline.source_url = scene.database.url_through(proxy.port());
    scene.configure();
    scene.init();
    let written = has_run(&scene).await;
    copy(&scene, elsewhere).await;
    proxy.lead_to(elsewhere.port());
    proxy.cut();
    scene.database = scene.database.on(elsewhere);
    (scene, proxy, written)
}

/// Makes the same database with the same rows, publication and slot on another server.
async fn copy(scene: &Scene<'_>, elsewhere: &Postgres) {
    let name = scene.database.name();
    let copy = elsewhere.database("copy").await;
    let rename = format!("ALTER DATABASE {} RENAME TO {name}", copy.name());
    let root = elsewhere.connect("postgres").await;
    root.batch_execute(&rename).await.unwrap();
    let rows = "SELECT json_agg(event) FROM eventlog.events AS event";
    let rows = scene.database.ask(rows).await.unwrap();
    let slot = scene.pipeline.slot();
    let client = elsewhere.connect(name).await;
    for make in [
        format!(
            "INSERT INTO eventlog.events SELECT * FROM json_populate_recordset(NULL::eventlog.events, $rows${rows}$rows$)"
        ),
        format!("CREATE PUBLICATION {slot} FOR TABLE eventlog.events WITH (publish = 'insert')"),
        format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')"),
    ] {
        client.batch_execute(&make).await.unwrap();
    }
}

#[tokio::test]
async fn a_deleted_position_record_is_refused_until_the_slot_is_adopted() {
    // GIVEN a pipeline that has run, and then its record was deleted
    let (scene, mut written) = that_has_run("record").await;
    let topic = scene.pipeline.positions_topic();
    let name = scene.pipeline.name.clone();
    scene
        .kafka
        .produce(&topic, Some(name.as_bytes()), None)
        .await;
    written.add(scene.commit_events(10).await);
    let published = scene.consume().await.len();

    // WHEN it is started, THEN a person is asked for
    let words = [&name, "no position record", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    // AND `init` does not take the slot for a new one
    refuses(&scene, "init", &[&scene.pipeline.slot(), "headwater adopt"]);
    assert_eq!(scene.consume().await.len(), published);

    // AND after the slot was adopted, nothing is missing: it stood where the record did
    adopts(&scene);
    goes_on(&scene, &mut written).await;

    // WHEN the whole topic is deleted, THEN it is the same
    scene.kafka.delete_topic(&topic).await;
    let words = [topic.as_str(), "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn what_an_instance_works_on_is_not_adopted() {
    // GIVEN a pipeline at work
    let scene = Scene::ready(17, "busy").await;
    let mut run = scene.start().await;

    // WHEN its slot is to be adopted, THEN a person is asked for, and nothing was changed
    // (its position may have moved meanwhile: neighbours write to the same log; who adopts takes the next run number)
    let before = record(&scene).await.expect("a record");
    refuses(&scene, "adopt", &[&scene.pipeline.name, "at work"]);
    let after = record(&scene).await.expect("a record");
    assert_eq!(after["run"], before["run"]);
    run.ask_to_stop().await;
}

/// A pipeline that has carried events and was stopped; and the events.
async fn that_has_run(hint: &str) -> (Scene<'static>, Written) {
    let scene = Scene::ready(17, hint).await;
    let written = has_run(&scene).await;
    (scene, written)
}

async fn has_run(scene: &Scene<'_>) -> Written {
    let run = scene.start().await;
    let written = scene.commit_events(20).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    written
}

async fn drop_slot(scene: &Scene<'_>) {
    let slot = scene.pipeline.slot();
    let drop = format!("SELECT pg_drop_replication_slot('{slot}')");
    scene.database.execute(&drop).await;
}

/// Asks for a person, in a sentence with these words.
#[track_caller]
pub fn refuses(scene: &Scene<'_>, command: &str, words: &[&str]) {
    let output = scene.headwater.run(&[command]);
    let said = if command == "check" {
        output.stdout
    } else {
        let mut lines = output.stderr.lines();
        lines.next_back().unwrap_or_default().to_owned()
    };
    assert_eq!(output.code, 3, "{command}: {said}");
    for word in words {
        assert!(
            said.contains(word),
            "{command} does not say {word:?}: {said}"
        );
    }
}

#[track_caller]
fn adopts(scene: &Scene<'_>) {
    let output = scene.headwater.run(&["adopt"]);
    assert_eq!(output.code, 0, "adopt: {}", output.stderr);
}

async fn nothing_more_was_published(scene: &Scene<'_>, written: &Written) {
    let verdict = scene.judge_within(written, Duration::ZERO).await;
    verdict.assert_exactly_once();
}

/// Carries new events, and nothing but what was written.
async fn goes_on(scene: &Scene<'_>, written: &mut Written) {
    let run = scene.start().await;
    written.add(scene.commit_events(10).await);
    let verdict = scene.stop_and_judge(run, written).await;
    verdict.assert_at_least_once();
}

/// The pipeline's position record as it stands now.
pub async fn record(scene: &Scene<'_, impl Outbox>) -> Option<Value> {
    let topic = scene.pipeline.positions_topic();
    let all = scene.kafka.consume_all(&[&topic]).await;
    let value = all.last()?.value.as_deref()?;
    Some(serde_json::from_slice(value).expect("a record is JSON"))
}
