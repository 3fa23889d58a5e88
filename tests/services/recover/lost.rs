//! The ways in which a log is lost, each made for real, and what `recover` makes of it.

use std::time::Duration;

use headwater_testkit::{
    Database, Kafka, Mysql, MysqlDatabase, Pipeline, Postgres, Server, Written, bulk_rows,
};
use tokio::time::sleep;

use super::{comes_back, recovered, with_own_topic};
use crate::binlog::{WITHOUT_GTIDS, lost};
use crate::lost_log::backup::has_run_past_a_backup;
use crate::lost_log::that_is_led_elsewhere;
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
async fn a_slot_whose_log_the_server_removed_on_postgresql_15() {
    removed(15, "its log was removed").await;
}

#[tokio::test]
async fn a_slot_whose_log_the_server_removed_on_postgresql_17() {
    removed(17, "wal_removed").await;
}

#[tokio::test]
async fn a_slot_whose_log_the_server_removed_on_postgresql_18() {
    removed(18, "wal_removed").await;
}

async fn removed(version: u32, why: &str) {
    let settings = [("max_slot_wal_keep_size", "1MB"), ("max_wal_size", "32MB")];
    let postgres = Postgres::start(version, &settings);
    let scene = Scene::on(&postgres, Kafka::shared(), "removed").await;
    recovered(scene, async |scene| {
        for _ in 0..3 {
            scene.database.execute("SELECT pg_switch_wal()").await;
            let write = "CREATE TABLE t (); DROP TABLE t";
            scene.database.execute(write).await;
        }
        scene.database.execute("CHECKPOINT").await;
        is_invalidated(scene, why);
    })
    .await;
}

#[tokio::test]
async fn a_slot_that_nobody_read_for_too_long() {
    let postgres = Postgres::start(18, &[("idle_replication_slot_timeout", "1s")]);
    let scene = Scene::on(&postgres, Kafka::shared(), "idle").await;
    recovered(scene, async |scene| {
        sleep(Duration::from_millis(1100)).await;
        scene.database.execute("CHECKPOINT").await;
        is_invalidated(scene, "idle_timeout");
    })
    .await;
}

/// By the server, which says why.
#[track_caller]
fn is_invalidated(scene: &Scene<'_>, why: &str) {
    let found = scene.headwater.run(&["check"]);
    assert_eq!(found.code, 3, "{}{}", found.stdout, found.stderr);
    let words = format!("invalidated by the server ({why})");
    assert!(found.stdout.contains(&words), "{}", found.stdout);
}

#[tokio::test]
async fn a_server_that_was_restored_from_a_backup() {
    // GIVEN a pipeline that has run past a backup, and a server that was restored from it and has gone on a little
    let postgres = Postgres::start(17, &[]);
    let scene = with_own_topic(Scene::on(&postgres, Kafka::shared(), "back").await);
    let (mut held, gone) = has_run_past_a_backup(&scene, &[]).await;
    held.add(scene.commit_events(5).await);

    // THEN what it has committed since comes, and what it has forgotten is told
    comes_back(&scene, held, &gone).await;
}

#[tokio::test]
async fn a_timeline_that_forked_before_the_position() {
    // GIVEN the same, but the server began a new timeline, and has since written more than was lost
    let postgres = Postgres::start(17, &[("restore_command", "false")]);
    let scene = with_own_topic(Scene::on(&postgres, Kafka::shared(), "fork").await);
    let (mut held, gone) = has_run_past_a_backup(&scene, &["recovery.signal"]).await;
    let client = scene.database.connect().await;
    held.add(bulk_rows(&client, &scene.namespace, 5000, 100).await);

    // THEN what the new timeline holds comes, and what only the old one held is told
    comes_back(&scene, held, &gone).await;
}

#[tokio::test]
async fn another_cluster_that_has_the_same_rows() {
    // GIVEN a pipeline whose address leads to another cluster, to which its table was copied
    let (there, elsewhere) = (Postgres::shared(17), Postgres::start(17, &[]));
    let scene = with_own_topic(Scene::on(there, Kafka::shared(), "moved").await);
    let (scene, _proxy, mut held) = that_is_led_elsewhere(scene, &elsewhere).await;
    held.add(scene.commit_events(15).await);

    // THEN what was committed there comes, and nothing that was published before
    comes_back(&scene, held, &Written::default()).await;
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
