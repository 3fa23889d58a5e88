//! The ways in which a log is lost, each made for real, and what `recover` makes of it.

use headwater_testkit::{Database, Kafka, Mysql, MysqlDatabase, Pipeline, Postgres, Server};

use super::recovered;
use crate::binlog::{WITHOUT_GTIDS, lost};
use crate::scene::{Scene, on_every_binlog};

/// The way in which a log is lost most simply.
pub trait Lose {
    async fn lose(&self, pipeline: &Pipeline);
}

impl Lose for Database<'_> {
    async fn lose(&self, pipeline: &Pipeline) {
        let drop = format!("SELECT pg_drop_replication_slot('{}')", pipeline.slot());
        self.execute(&drop).await;
    }
}

impl Lose for MysqlDatabase<'_> {
    async fn lose(&self, _: &Pipeline) {
        lost::purge(self).await;
    }
}

#[tokio::test]
async fn a_dropped_slot_on_postgresql_15() {
    dropped(15).await;
}

#[tokio::test]
async fn a_dropped_slot_on_postgresql_17() {
    dropped(17).await;
}

#[tokio::test]
async fn a_dropped_slot_on_postgresql_18() {
    dropped(18).await;
}

async fn dropped(version: u32) {
    let scene = Scene::shared(version, "dropped").await;
    recovered(scene, async |scene| {
        scene.database.lose(&scene.pipeline).await;
    })
    .await;
}

#[tokio::test]
async fn a_slot_that_was_moved() {
    let scene = Scene::shared(17, "moved").await;
    recovered(scene, async |scene| {
        let slot = scene.pipeline.slot();
        let advance = format!("SELECT pg_replication_slot_advance('{slot}', pg_current_wal_lsn())");
        scene.database.execute(&advance).await;
    })
    .await;
}

#[tokio::test]
async fn a_slot_whose_log_the_server_removed() {
    let settings = [("max_slot_wal_keep_size", "1MB"), ("max_wal_size", "32MB")];
    let postgres = Postgres::start(17, &settings);
    let scene = Scene::on(&postgres, Kafka::shared(), "removed").await;
    recovered(scene, async |scene| {
        for _ in 0..3 {
            scene.database.execute("SELECT pg_switch_wal()").await;
            let write = "CREATE TABLE t (); DROP TABLE t";
            scene.database.execute(write).await;
        }
        scene.database.execute("CHECKPOINT").await;
    })
    .await;
}

#[tokio::test]
async fn a_table_that_was_made_anew_with_its_rows() {
    let scene = Scene::shared(17, "swapped").await;
    recovered(scene, async |scene| {
        let swap = "BEGIN; ALTER TABLE eventlog.events RENAME TO events_old; \
            CREATE TABLE eventlog.events (LIKE eventlog.events_old INCLUDING ALL); \
            INSERT INTO eventlog.events SELECT * FROM eventlog.events_old; \
            GRANT SELECT ON eventlog.events TO headwater; COMMIT";
        scene.database.execute(swap).await;
        let publish = format!(
            "ALTER PUBLICATION {} SET TABLE eventlog.events",
            scene.pipeline.slot()
        );
        scene.database.execute(&publish).await;
    })
    .await;
}

on_every_binlog!(a_purged_log: "purged", own server, shared kafka);

async fn a_purged_log(scene: Scene<'_, MysqlDatabase<'_>>) {
    recovered(scene, async |scene| {
        scene.database.lose(&scene.pipeline).await;
    })
    .await;
}

on_every_binlog!(a_reset_log: "reset", own server, shared kafka);

async fn a_reset_log(scene: Scene<'_, MysqlDatabase<'_>>) {
    recovered(scene, async |scene| lost::reset(&scene.database).await).await;
}

on_every_binlog!(a_reset_log_with_more_than_before: "more", own server, shared kafka);

async fn a_reset_log_with_more_than_before(scene: Scene<'_, MysqlDatabase<'_>>) {
    recovered(scene, async |scene| {
        lost::another_second(scene).await;
        lost::reset(&scene.database).await;
        scene.database.execute("CREATE TABLE other (n INT)").await;
        let insert = |n| format!("INSERT INTO other VALUES ({n})");
        let others: Vec<String> = (0..200).map(insert).collect();
        headwater_testkit::Outbox::execute_each(&scene.database, &others).await;
    })
    .await;
}

#[tokio::test]
async fn a_purged_log_without_gtids() {
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "purged").await;
    // Where no GTID tells what the engine has committed, the table's writers are made to wait for a moment.
    let grant = format!("GRANT LOCK TABLES ON *.* TO '{}'", scene.database.name());
    mysql.execute(&grant).await;
    a_purged_log(scene).await;
}
