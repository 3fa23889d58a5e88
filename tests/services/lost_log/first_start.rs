//! The first start: what `init` makes, that it makes it once, and when it does not.

use std::time::Duration;

use headwater_testkit::{Database, MysqlDatabase, Outbox, Pipeline};
use serde_json::Value;
use tokio::time::sleep;

use super::{drop_slot, record, refuses};
use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

#[tokio::test]
async fn a_dry_run_of_init_prints_the_sql_and_changes_nothing() {
    // GIVEN a pipeline that never ran
    let scene = Scene::shared(17, "plan").await;
    let before = made(&scene.database).await;

    // WHEN init is only to tell
    let output = scene.headwater.run(&["init", "--dry-run"]);

    // THEN it tells the SQL and the topic, and nothing has changed
    assert_eq!(output.code, 0, "{}", output.stderr);
    let topic = scene.pipeline.positions_topic();
    for word in [
        "CREATE PUBLICATION",
        "eventlog",
        "pg_create_logical_replication_slot",
        &scene.pipeline.slot(),
        &topic,
    ] {
        assert!(output.stdout.contains(word), "no {word}: {}", output.stdout);
    }
    assert_eq!(made(&scene.database).await, before);
    assert_eq!(record(&scene).await, None);

    // AND all that is no SQL is a comment, so that it can be given to psql as it is
    for line in output.stdout.lines() {
        let known = ["CREATE ", "SELECT ", "-- "];
        assert!(known.iter().any(|k| line.starts_with(k)), "{line}");
    }
}

#[tokio::test]
async fn init_a_second_time_changes_nothing() {
    // GIVEN a pipeline that was initialised
    let scene = Scene::ready(17, "twice").await;
    let first = (made(&scene.database).await, record(&scene).await);
    assert!(first.1.is_some());

    // WHEN it is initialised again, THEN all is as it was
    scene.init();
    let output = scene.headwater.run(&["init", "--dry-run"]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    // The rights are comments, and told every time.
    let mut statements = output.stdout.lines().filter(|line| !line.starts_with("--"));
    assert_eq!(statements.next(), None, "{}", output.stdout);
    assert_eq!((made(&scene.database).await, record(&scene).await), first);

    // AND so it is after it has run
    let run = scene.start().await;
    let written = scene.commit_events(10).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    let then = (made(&scene.database).await, record(&scene).await);
    scene.init();
    assert_eq!((made(&scene.database).await, record(&scene).await), then);
}

/// The publications, and the slots with their positions.
async fn made(database: &Database<'_>) -> Option<String> {
    let sql = "SELECT (SELECT coalesce(jsonb_agg(to_jsonb(p) || jsonb_build_object('xmin', p.xmin::text)), '[]')
                         FROM pg_publication p)
                   || (SELECT coalesce(jsonb_agg(jsonb_build_array(slot_name, plugin, confirmed_flush_lsn)), '[]')
                         FROM pg_replication_slots WHERE database = current_database())";
    database.ask(sql).await
}

#[tokio::test]
async fn run_with_init_begins_a_new_pipeline_and_goes_on_with_an_old_one() {
    // GIVEN a pipeline that never ran
    let scene = Scene::shared(17, "container").await;

    // WHEN it is started as a container is, and started again
    let mut run = scene.spawn(&["run", "--init"]);
    run.wait_until_it_carries().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;
    written.add(scene.commit_events(10).await);
    let mut run = scene.spawn(&["run", "--init"]);
    run.wait_until_it_carries().await;

    // THEN it goes on where it was
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn events_that_are_there_already_are_not_passed_over_without_a_word() {
    let scene = Scene::shared(17, "filled").await;
    let before = made(&scene.database).await;
    told_with_their_count(&scene, 7).await;
    assert_eq!(made(&scene.database).await, before);
    only_later_ones_with_the_users_word(&scene).await;
}

on_every_binlog!(events_that_are_there_are_told: "filled", shared server, shared kafka);

async fn events_that_are_there_are_told(scene: Scene<'_, MysqlDatabase<'_>>) {
    told_with_their_count(&scene, 7).await;
    only_later_ones_with_the_users_word(&scene).await;
}

async fn told_with_their_count(scene: &Scene<'_, impl Outbox>, count: i64) {
    // GIVEN a table with events and a sentinel, and a configuration that does not say what to do with them
    scene.commit_events(count).await;
    let sentinel = Event::new(&scene.namespace, "k", 1);
    let sentinel = sentinel.insert_sentinel_into(scene.database.table());
    scene.database.execute(&sentinel).await;
    scene.say_nothing_of_existing_rows();

    // WHEN it is initialised
    let output = scene.headwater.run(&["init"]);

    // THEN it stops, says how many events there are and what to set, and takes no position
    assert_eq!(output.code, 2, "{}", output.stderr);
    let events = format!("{count} events");
    for word in [&events, "source.snapshot", "never"] {
        assert!(output.stderr.contains(word), "no {word}: {}", output.stderr);
    }
    assert_eq!(record(scene).await, None);
}

async fn only_later_ones_with_the_users_word(scene: &Scene<'_, impl Outbox>) {
    // WHEN the configuration says that they are to be left alone, THEN only later ones are published
    scene.configure();
    scene.init();
    let run = scene.start().await;
    let written = scene.commit_events(5).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn what_is_committed_while_init_makes_its_slot_is_not_passed_over_without_a_word() {
    // GIVEN an empty table, and a transaction under way that will put an event into it
    let scene = Scene::shared(17, "meanwhile").await;
    scene.say_nothing_of_existing_rows();
    let client = scene.database.connect().await;
    let event = Event::new(&scene.namespace, "k", 1);
    let begun = format!("BEGIN; {}", event.insert());
    client.batch_execute(&begun).await.unwrap();

    // WHEN it is committed while `init` waits for it to make a slot, which will never have it
    let mut init = scene.spawn(&["init"]);
    sleep(Duration::from_secs(3)).await;
    assert!(init.is_running(), "{}", init.tail());
    client.batch_execute("COMMIT").await.unwrap();

    // THEN init stops and says so, and no slot is left
    assert_eq!(init.ended_within(LIMIT).await, 2, "{}", init.tail());
    assert!(init.tail().contains("1 event"), "{}", init.tail());
    assert_eq!(slots(&scene).await, "0");
}

#[tokio::test]
async fn an_init_that_was_cut_short_looks_for_events_again() {
    // GIVEN what an init leaves that was killed before it made its slot, and events committed since
    let scene = Scene::ready(17, "short").await;
    drop_slot(&scene).await;
    let mut left = record(&scene).await.unwrap();
    left["position"] = Value::Null;
    left["source"] = Value::Null;
    let (topic, name) = (scene.pipeline.positions_topic(), &scene.pipeline.name);
    let left = left.to_string();
    scene
        .kafka
        .produce(&topic, Some(name.as_bytes()), Some(left.as_bytes()))
        .await;
    scene.commit_events(3).await;
    scene.say_nothing_of_existing_rows();

    // WHEN it is initialised again, THEN it stops and says how many there are
    let output = scene.headwater.run(&["init"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("3 events"), "{}", output.stderr);
    assert_eq!(slots(&scene).await, "0");
}

/// How many slots of the pipeline's name there are.
async fn slots(scene: &Scene<'_>) -> String {
    let slot = scene.pipeline.slot();
    let count =
        format!("SELECT count(*)::text FROM pg_replication_slots WHERE slot_name = '{slot}'");
    scene.database.ask(&count).await.unwrap()
}

#[tokio::test]
async fn a_slot_without_a_record_is_somebodys() {
    // GIVEN a slot of the pipeline's name that somebody else made
    let scene = Scene::shared(17, "somebody").await;
    let Pipeline { name, .. } = &scene.pipeline;
    let slot = scene.pipeline.slot();
    let make = format!("SELECT pg_create_logical_replication_slot('{slot}', 'pgoutput')");
    scene.database.execute(&make).await;

    // WHEN the pipeline is initialised, THEN a person is asked for, with both ways out
    let words = [
        name.as_str(),
        &slot,
        "headwater adopt",
        "pg_drop_replication_slot",
    ];
    refuses(&scene, "init", &words);
    assert_eq!(record(&scene).await, None);
}

#[tokio::test]
async fn check_finds_nothing_wrong_with_what_init_made() {
    let scene = Scene::ready(17, "healthy").await;
    let output = scene.headwater.run(&["check"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let output = scene.headwater.run(&["check", "--format", "json"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let findings: Vec<Value> = serde_json::from_str(&output.stdout).expect("JSON");
    assert!(findings.len() > 4, "{}", output.stdout);
    for finding in findings {
        assert!(finding["what"].is_string());
        assert_ne!(finding["level"], "problem", "{finding}");
    }
}
