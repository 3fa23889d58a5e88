//! A table without a primary key and without an index that gives the order: published all the same, and `check` tells what it costs and what
//! adds them.

use std::time::{Duration, Instant};

use headwater_testkit::{Outbox, Output};
use tokio::time::sleep;

use super::joined_to_the_log;
use crate::scene::{LIMIT, Scene, on_every_binlog};

const UNSORTED: &str = "no index on (event_date, id)";
const ORDERED: &str = "has an index on (event_date, id)";
const KEYLESS: &str = "no unique key of its ids";

#[tokio::test]
async fn a_table_without_any_key_is_published_on_postgresql() {
    let scene = Scene::shared(17, "keyless").await;
    let drop = "ALTER TABLE eventlog.events DROP CONSTRAINT events_pkey; DROP INDEX eventlog.idx_events_action_id";
    scene.database.execute(drop).await;
    joined_to_the_log(scene).await;
}

on_every_binlog!(a_table_without_any_key_is_published: "keyless", shared server, shared kafka);

async fn a_table_without_any_key_is_published(scene: Scene<'_, impl Outbox>) {
    let table = scene.database.table().to_owned();
    let drop = format!("ALTER TABLE {table} DROP PRIMARY KEY, DROP INDEX idx_events_action_id");
    scene.database.execute(&drop).await;
    joined_to_the_log(scene).await;
}

#[tokio::test]
async fn what_a_table_without_keys_costs_is_told_with_what_adds_them_on_postgresql() {
    let scene = Scene::shared(17, "costs").await;
    let plain = "ALTER TABLE eventlog.events DROP CONSTRAINT events_pkey; ALTER TABLE eventlog.events ALTER payload SET STORAGE EXTERNAL";
    scene.database.execute(plain).await;
    told(scene).await;
}

#[tokio::test]
async fn what_a_partitioned_table_without_keys_costs_is_told_on_postgresql() {
    let scene = Scene::shared(17, "parts").await;
    scene.database.execute(PARTITIONED).await;
    told(scene).await;
}

const PARTITIONED: &str = "CREATE TABLE eventlog.parted (LIKE eventlog.events) PARTITION BY RANGE (event_date);
    DROP TABLE eventlog.events;
    ALTER TABLE eventlog.parted RENAME TO events;
    ALTER TABLE eventlog.events OWNER TO headwater;
    ALTER TABLE eventlog.events ALTER payload SET STORAGE EXTERNAL;
    CREATE TABLE eventlog.events_1 PARTITION OF eventlog.events FOR VALUES FROM (MINVALUE) TO ('2024-01-01');
    CREATE TABLE eventlog.events_2 PARTITION OF eventlog.events FOR VALUES FROM ('2024-01-01') TO (MAXVALUE)";

on_every_binlog!(what_a_table_without_keys_costs_is_told: "costs", shared server, shared kafka);

async fn what_a_table_without_keys_costs_is_told(scene: Scene<'_, impl Outbox>) {
    let drop = format!("ALTER TABLE {} DROP PRIMARY KEY", scene.database.table());
    scene.database.execute(&drop).await;
    told(scene).await;
}

async fn told(scene: Scene<'_, impl Outbox>) {
    // GIVEN a small table without keys, WHEN it is looked at, THEN its order is no matter, and its key is
    scene.init();
    let found = look(&scene);
    assert!(found.stdout.contains(UNSORTED), "{}", found.stdout);
    assert_eq!(mends(&found, UNSORTED), None);
    let key = mends(&found, KEYLESS).expect("a statement");

    // WHEN it has grown, THEN what adds an index is told, as soon as the server knows how large it is
    scene
        .database
        .bulk_rows(&scene.namespace, 800, 100_000)
        .await;
    let end = Instant::now() + LIMIT;
    let index = loop {
        let found = look(&scene);
        match mends(&found, UNSORTED) {
            Some(index) => break index,
            None => assert!(Instant::now() < end, "{}", found.stdout),
        }
        sleep(Duration::from_millis(500)).await;
    };

    // WHEN just that is done, THEN nothing is left to say
    scene.database.execute(&key).await;
    scene.database.execute(&index).await;
    let found = look(&scene);
    assert!(found.stdout.contains(ORDERED), "{}", found.stdout);
    for word in [UNSORTED, KEYLESS] {
        assert!(!found.stdout.contains(word), "{}", found.stdout);
    }
}

/// Warnings are no reason to fail.
#[track_caller]
fn look(scene: &Scene<'_, impl Outbox>) -> Output {
    let found = scene.headwater.run(&["check"]);
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    found
}

/// What is said to mend a finding.
fn mends(found: &Output, what: &str) -> Option<String> {
    let lines: Vec<&str> = found.stdout.lines().collect();
    let place = lines.iter().position(|line| line.contains(what))?;
    let mend = lines.get(place + 1)?.trim().strip_prefix("mend: ")?;
    Some(mend.to_owned())
}
