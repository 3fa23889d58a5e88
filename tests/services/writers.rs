//! Many writers at once: whatever they commit arrives once, in each key's commit order, and nothing else does.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Load, Outbox, Postgres};
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

#[tokio::test]
async fn every_commit_arrives_once_and_in_order_on_postgres_15() {
    every_commit_arrives_once_and_in_order(15).await;
}

#[tokio::test]
async fn every_commit_arrives_once_and_in_order_on_postgres_17() {
    every_commit_arrives_once_and_in_order(17).await;
}

#[tokio::test]
async fn every_commit_arrives_once_and_in_order_on_postgres_18() {
    every_commit_arrives_once_and_in_order(18).await;
}

on_every_binlog!(what_is_committed_arrives_once_and_in_order: "writers", shared server, shared kafka);

async fn every_commit_arrives_once_and_in_order(version: u32) {
    // A server that decodes all but the smallest transactions through files
    let scene = Scene::shared(version, "writers").await;
    let little_memory = format!(
        "ALTER DATABASE {} SET logical_decoding_work_mem = '64kB'",
        scene.database.name()
    );
    scene.database.execute(&little_memory).await;
    what_is_committed_arrives_once_and_in_order(scene).await;
}

async fn what_is_committed_arrives_once_and_in_order(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a pipeline at work
    scene.init();
    let run = scene.start().await;

    // WHEN writers mix multi-row transactions, COPY, savepoints and rollbacks, small ones and large ones
    let seed = 1000 * u64::from(scene.database.port());
    let small = Load {
        writers: 6,
        transactions: Some(100),
        ..Load::new(&scene.namespace, seed)
    };
    let large = Load {
        writers: 2,
        transactions: Some(10),
        rows: 800,
        ..Load::new(&scene.another_namespace("large").await, seed + 500)
    };
    let url = scene.database.owner_url();
    let (small, large) = (small.start(&url), large.start(&url));
    let mut written = scene.database.bulk_rows(&scene.namespace, 3000, 100).await;
    written.add(small.finish().await);
    written.add(large.finish().await);
    assert!(!written.rolled_back.is_empty() && !written.sentinels.is_empty());

    // THEN nothing is lost, doubled, reordered or foreign
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn init_waits_for_the_transactions_that_are_open() {
    // GIVEN a writer that has written, and thinks for longer than a lock is usually waited for
    const THINKS: Duration = Duration::from_secs(12);
    let postgres = Postgres::start(17, &[]);
    let scene = Scene::on(&postgres, Kafka::shared(), "open").await;
    let event = Event::new(&scene.namespace, "k", 1);
    let client = scene.database.connect().await;
    let begun = Instant::now();
    let insert = format!("BEGIN; {}", event.insert());
    client.batch_execute(&insert).await.unwrap();

    // WHEN a pipeline is initialised meanwhile
    let mut init = scene.spawn(&["init"]);
    sleep(THINKS).await;
    assert!(init.is_running(), "it did not wait: {}", init.tail());
    client.batch_execute("COMMIT").await.unwrap();

    // THEN it waits for the writer, and carries what is committed from then on
    assert_eq!(init.ended_within(LIMIT).await, 0);
    assert!(begun.elapsed() > THINKS);
    let run = scene.start().await;
    let written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}
