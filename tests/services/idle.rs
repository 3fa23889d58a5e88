//! A quiet outbox: it does not hold back the log, is not taken for a dead server, and does not keep the server from stopping.

use std::time::Duration;

use headwater_testkit::{Kafka, Outbox, Postgres};
use tokio::time::sleep;

use crate::scene::{LIMIT, Scene, on_every_binlog};

/// Longer than a server needs that waits for nobody, shorter than any patience of ours.
const AT_ONCE: Duration = Duration::from_secs(5);
/// After this long without an answer of Kafka the log has been given up.
const GIVEN_UP: Duration = Duration::from_secs(15);

#[tokio::test]
async fn an_idle_outbox_does_not_hold_back_the_log_of_a_busy_neighbour() {
    // GIVEN an idle outbox, a busy table beside it and a busy database beside that
    let scene = Scene::ready(17, "idle").await;
    let neighbour = scene.database.postgres().database("neighbour").await;
    let table = "CREATE TABLE busy (n bigint, t text)";
    scene.database.execute(table).await;
    neighbour.execute(table).await;
    let mut run = scene.start().await;

    // WHEN they are written to, THEN the slot follows, every time
    let write = "INSERT INTO busy SELECT n, repeat('x', 500) FROM generate_series(1, 2000) AS n";
    for database in [&scene.database, &neighbour, &scene.database] {
        database.execute(write).await;
        let end = scene.database.wal_lsn().await;
        let follows = scene
            .database
            .wait_confirmed(&scene.pipeline.slot(), end, Duration::from_secs(15))
            .await;
        assert!(follows, "the slot did not follow to {end:X}");
    }
    run.ask_to_stop().await;
}

#[tokio::test]
async fn a_quiet_database_is_not_taken_for_a_dead_one() {
    let postgres = Postgres::start(17, &[("autovacuum", "off")]);
    let scene = Scene::on(&postgres, Kafka::shared(), "quiet").await;
    quiet_for(scene, Duration::from_secs(90)).await;
}

on_every_binlog!(a_quiet_server_is_not_taken_for_a_dead_one: "quiet", own server, shared kafka);

/// Longer than the silence after which a server is given up.
async fn a_quiet_server_is_not_taken_for_a_dead_one(scene: Scene<'_, impl Outbox>) {
    quiet_for(scene, Duration::from_secs(40)).await;
}

async fn quiet_for(scene: Scene<'_, impl Outbox>, time: Duration) {
    // GIVEN a database in which nothing happens
    scene.init();
    let mut run = scene.start().await;

    // WHEN that lasts
    sleep(time).await;

    // THEN the connection is the same, and nothing was complained of
    assert!(run.is_running(), "{}", run.tail());
    let log = run.log();
    assert_eq!(log.matches("carrying events").count(), 1, "{log}");
    assert!(!log.contains(" WARN ") && !log.contains(" ERROR "), "{log}");

    // AND the next event arrives
    let written = scene.commit_events(1).await;
    let verdict = scene.judge_within(&written, AT_ONCE).await;
    verdict.assert_exactly_once();
    run.ask_to_stop().await;
}

#[tokio::test]
async fn the_database_stops_at_once_while_kafka_answers() {
    let postgres = Postgres::start(17, &[]);
    let scene = Scene::on(&postgres, Kafka::shared(), "stops").await;
    stopped_within(scene, AT_ONCE).await;
}

on_every_binlog!(stopped_while_kafka_answers: "stops", own server, shared kafka);

/// These servers need longer than PostgreSQL to write their pages, whoever listens.
async fn stopped_while_kafka_answers(scene: Scene<'_, impl Outbox>) {
    stopped_within(scene, 3 * AT_ONCE).await;
}

async fn stopped_within(scene: Scene<'_, impl Outbox>, limit: Duration) {
    scene.init();
    let run = scene.start().await;

    // WHEN it is stopped while the outbox is idle, THEN it is not held up
    sleep(Duration::from_secs(1)).await;
    not_held_up(&scene.database, limit);
    scene.database.start_server_again();

    // AND neither just after a load
    let mut written = scene.database.bulk_rows(&scene.namespace, 5000, 100).await;
    not_held_up(&scene.database, limit);
    scene.database.start_server_again();

    // AND all goes on afterwards
    written.add(scene.commit_events(10).await);
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

#[tokio::test]
async fn the_database_stops_at_once_while_kafka_is_away_and_events_wait_for_it() {
    // GIVEN events that wait for Kafka
    let kafka = Kafka::start(1);
    let postgres = Postgres::start(17, &[]);
    let scene = Scene::on(&postgres, &kafka, "pending").await;
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    kafka.kill9(0);
    written.add(scene.commit_events(1000).await);
    sleep(GIVEN_UP).await;
    assert!(
        scene.database.walsenders().await.is_empty(),
        "{}",
        run.tail()
    );

    // WHEN the database is stopped, THEN it is not held up
    stops_at_once(&postgres);

    // AND all goes on when both are back
    postgres.start_again();
    kafka.start_again(0);
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

#[tokio::test]
async fn the_database_stops_at_once_while_kafka_is_away_and_the_outbox_is_idle() {
    // GIVEN a Kafka that is away, and nothing that waits for it
    let kafka = Kafka::start(1);
    let postgres = Postgres::start(17, &[]);
    let scene = Scene::on(&postgres, &kafka, "asleep").await;
    scene.database.execute("CREATE TABLE busy (n bigint)").await;
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    kafka.kill9(0);
    let write = "INSERT INTO busy SELECT generate_series(1, 1000)";
    sleep(GIVEN_UP).await;
    scene.database.execute(write).await;

    // WHEN the database is stopped, THEN it is not held up
    stops_at_once(&postgres);

    // AND all goes on when both are back
    postgres.start_again();
    kafka.start_again(0);
    written.add(scene.commit_events(10).await);
    let verdict = scene.judge_within(&written, LIMIT).await;
    verdict.assert_at_least_once();
    run.ask_to_stop().await;
}

#[track_caller]
fn not_held_up(database: &impl Outbox, limit: Duration) {
    let took = database.stop_server();
    assert!(took < limit, "the server's stop took {took:?}");
}

#[track_caller]
fn stops_at_once(postgres: &Postgres) {
    let took = postgres.stop_fast();
    assert!(took < AT_ONCE, "pg_ctl stop -m fast took {took:?}");
}
