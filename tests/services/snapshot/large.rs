//! Memory does not depend on how many rows are there.

use std::time::Duration;

use headwater_testkit::{Kafka, Mysql, Outbox, Server, long};

use super::{COMPLETE, with_snapshot};
use crate::scene::Scene;

/// What a large table may need beyond a small one, in kB.
const ALLOWANCE: u64 = 40 * 1024;
/// Rows by the hundred thousand, on a busy machine.
const LIMIT: Duration = Duration::from_mins(15);

#[tokio::test]
async fn memory_stays_flat_however_many_rows_are_there_on_postgresql() {
    // Not the server of most tests: a slot is made only when long transactions have ended.
    let scene = || Scene::shared(18, "many");
    let small = peak_in(scene().await, 1000).await;
    flat(small, peak_in(scene().await, many()).await);
}

#[tokio::test]
async fn memory_stays_flat_however_many_rows_are_there_on_mysql_9_7() {
    flat_on(Mysql::shared(Server::MySql97)).await;
}

#[tokio::test]
async fn memory_stays_flat_however_many_rows_are_there_on_mariadb_11_8() {
    flat_on(Mysql::shared(Server::MariaDb118)).await;
}

async fn flat_on(mysql: &'static Mysql) {
    let scene = || Scene::binlog(mysql, Kafka::shared(), "many");
    let small = peak_in(scene().await, 1000).await;
    flat(small, peak_in(scene().await, many()).await);
}

fn many() -> u32 {
    if long() { 1_000_000 } else { 300_000 }
}

fn flat(small: u64, large: u64) {
    println!(
        "peaks in kB: {small} for 1,000 rows, {large} for {}",
        many()
    );
    assert!(large < small + ALLOWANCE, "{large} kB, against {small} kB");
}

/// The most memory, in kB, that a run needed to publish rows that were there, all of which arrived, once. Which rows they
/// were is looked at elsewhere.
async fn peak_in(scene: Scene<'_, impl Outbox>, rows: u32) -> u64 {
    let scene = with_snapshot(scene, "initial");
    scene.database.bulk_rows(&scene.namespace, rows, 100).await;
    scene.init();
    let mut run = scene.start().await;
    assert!(run.wait_for_log(COMPLETE, LIMIT).await, "{}", run.tail());
    let peak = run.peak_rss_kb();
    run.ask_to_stop().await;
    let count = scene.kafka.message_count(scene.topic()).await;
    assert_eq!(count, u64::from(rows));
    peak
}
