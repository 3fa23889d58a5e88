//! The seam between a snapshot and the log: nothing falls into it, and nothing comes twice.

use headwater_testkit::{
    Database, Kafka, Load, MysqlDatabase, Outbox, Postgres, check, long, seed, unique,
};

use super::{COMPLETE, PATIENCE};
use crate::scene::{LIMIT, Scene, headwater, on_every_binlog};

/// Servers under test do not wait for their disks, and then each transaction is committed by itself.
pub trait Grouped {
    /// From now on they do, and wait for others to commit with.
    async fn commit_in_groups(&self);
}

impl Grouped for Database<'_> {
    async fn commit_in_groups(&self) {
        let settings = [
            "ALTER SYSTEM SET fsync = on",
            "ALTER SYSTEM SET commit_delay = 1000",
            "ALTER SYSTEM SET commit_siblings = 1",
            "SELECT pg_reload_conf()",
        ];
        self.execute_each(&settings.map(str::to_owned)).await;
    }
}

impl Grouped for MysqlDatabase<'_> {
    async fn commit_in_groups(&self) {
        let wait = if self.mysql().server().is_mariadb() {
            "SET GLOBAL binlog_commit_wait_count = 6, GLOBAL binlog_commit_wait_usec = 1000"
        } else {
            "SET GLOBAL binlog_group_commit_sync_delay = 1000"
        };
        let sync = "SET GLOBAL sync_binlog = 1, GLOBAL innodb_flush_log_at_trx_commit = 1";
        for setting in [wait, sync] {
            self.mysql().execute(setting).await;
        }
    }
}

#[tokio::test]
async fn nothing_falls_between_a_snapshot_and_the_log_on_postgresql_15() {
    on_postgresql(15).await;
}

#[tokio::test]
async fn nothing_falls_between_a_snapshot_and_the_log_on_postgresql_17() {
    on_postgresql(17).await;
}

#[tokio::test]
async fn nothing_falls_between_a_snapshot_and_the_log_on_postgresql_18() {
    on_postgresql(18).await;
}

async fn on_postgresql(version: u32) {
    let postgres = Postgres::start(version, &[]);
    handed_over(Scene::on(&postgres, Kafka::shared(), "seam").await).await;
}

on_every_binlog!(handed_over: "seam", own server, shared kafka);

/// How many pipelines are at work at a time: each holds a slot and a walsender, or readers of the binlog, and a server has an end of both.
const WAVE: usize = 5;

/// A row that was committed before the position and is not yet to be seen would be lost: many writers commit at every moment.
pub async fn handed_over<D: Outbox + Grouped>(mut scene: Scene<'_, D>) {
    scene.database.commit_in_groups().await;
    let seed = seed(11);
    for wave in 1..=if long() { 12 } else { 1 } {
        let events = wave_of_hand_overs(&mut scene, seed + 100 * wave).await;
        println!("wave {wave}: {WAVE} hand-overs of {events} events, each once");
        scene.database.remove_pipelines().await;
        let empty = format!("TRUNCATE TABLE {}", scene.database.table());
        scene.database.execute(&empty).await;
    }
}

async fn wave_of_hand_overs(scene: &mut Scene<'_, impl Outbox>, seed: u64) -> usize {
    // GIVEN many writers of small transactions
    let load = Load {
        writers: 12,
        ..Load::new(&scene.namespace, seed)
    };
    let load = load.start(&scene.database.owner_url());
    load.wait_for(100, LIMIT).await;

    // WHEN one pipeline after the other begins with a snapshot among them
    let mut topics = Vec::new();
    for _ in 0..WAVE {
        let topic = unique("seam");
        scene.kafka.create_topic(&topic, 3, 1, &[]).await;
        scene.pipeline.name = unique("seam");
        scene.pipeline.snapshot = "initial".into();
        scene.pipeline.more = format!("[[route]]\ntopic = \"{topic}\"\n");
        scene.headwater = headwater(&scene.pipeline);
        scene.init();
        let mut run = scene.spawn(&["run"]);
        assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
        topics.push((topic, run));
    }
    let written = load.stop().await;

    // THEN each of them has every row once
    for (topic, mut run) in topics {
        scene
            .kafka
            .consume_until_complete(&[&topic], &written, LIMIT)
            .await;
        run.ask_to_stop().await;
        let consumed = scene.kafka.consume_all(&[&topic]).await;
        check(&written, &consumed).assert_each_once();
        scene.kafka.delete_topic(&topic).await;
    }
    written.committed.len()
}
