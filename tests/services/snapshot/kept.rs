//! The log that was written since a snapshot began is needed after it: whoever may remove it, or has to keep too much of it, is told of in time.

use headwater_testkit::{Kafka, Mysql, Outbox, Postgres, Server};

use super::{COMPLETE, PATIENCE, with_snapshot};
use crate::scene::{LIMIT, Scene};

/// Each message waits for the one before it, and for 20 ms.
pub const SLOWLY: &str = "linger = \"20ms\"\nmax_in_flight = { messages = 1, bytes = \"16MiB\" }\n";

#[tokio::test]
async fn a_server_that_keeps_too_little_log_is_told_of_on_postgresql() {
    let settings = [("max_slot_wal_keep_size", "64MB"), ("max_wal_size", "32MB")];
    let says = [
        "holds back",
        "invalidated at 64 MiB",
        "max_slot_wal_keep_size = '128MB'",
    ];
    held_back(&settings, 36, &says).await;
}

#[tokio::test]
async fn a_server_that_keeps_all_of_its_log_is_told_of_on_postgresql() {
    let settings = [("max_wal_size", "32MB")];
    let says = [
        "nothing limits it",
        "ALTER SYSTEM SET max_slot_wal_keep_size",
    ];
    held_back(&settings, 80, &says).await;
}

async fn held_back(settings: &[(&str, &str)], mib: u32, says: &[&str]) {
    // GIVEN a snapshot that takes its time, on a server that wants to keep little log
    let postgres = Postgres::start(17, settings);
    let scene = Scene::on(&postgres, Kafka::shared(), "kept").await;
    let (scene, mut written) = slow(scene, 800).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN others write much
    let message = "SELECT pg_logical_emit_message(false, 'others', repeat('x', 1048576))";
    for _ in 0..mib {
        scene.database.execute(message).await;
    }

    // THEN that is told, with what mends it, once
    let says_so = "the server's log is held back";
    assert!(run.wait_for_log(says_so, LIMIT).await, "{}", run.tail());
    for word in says {
        assert!(run.log().contains(word), "no {word}: {}", run.tail());
    }
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    assert_eq!(run.log().matches(says_so).count(), 1, "{}", run.log());

    // AND nothing was lost
    written.add(scene.commit_events(5).await);
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

#[tokio::test]
async fn a_log_that_goes_too_soon_is_told_of_on_mysql_9_7() {
    gone_soon(Server::MySql97).await;
}

#[tokio::test]
async fn a_log_that_goes_too_soon_is_told_of_on_mariadb_10_11() {
    gone_soon(Server::MariaDb1011).await;
}

#[tokio::test]
async fn a_log_that_goes_too_soon_is_told_of_on_mariadb_11_8() {
    gone_soon(Server::MariaDb118).await;
}

async fn gone_soon(server: Server) {
    // GIVEN a snapshot that takes its time, on a server that keeps a file of its log for half a minute
    let mysql = Mysql::start(server, &[("binlog_expire_logs_seconds", "30")]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "kept").await;
    let (scene, mut written) = slow(scene, 1500).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN the server goes on to the next file
    mysql.execute("FLUSH BINARY LOGS").await;

    // THEN that is told, with what mends it, once; and it helps
    let says_so = "the server may remove its log too soon";
    assert!(run.wait_for_log(says_so, LIMIT).await, "{}", run.tail());
    let mend = "SET GLOBAL binlog_expire_logs_seconds = 2592000";
    assert!(run.log().contains(mend), "{}", run.tail());
    mysql.execute(mend).await;
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    assert_eq!(run.log().matches(says_so).count(), 1, "{}", run.log());

    // AND nothing was lost
    written.add(scene.commit_events(5).await);
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

/// A snapshot of so many rows will take a fiftieth of a second for each.
async fn slow<D: Outbox>(
    mut scene: Scene<'_, D>,
    rows: u32,
) -> (Scene<'_, D>, headwater_testkit::Written) {
    scene.pipeline.sink.push_str(SLOWLY);
    let scene = with_snapshot(scene, "initial");
    let written = scene.database.bulk_rows(&scene.namespace, rows, 100).await;
    (scene, written)
}
