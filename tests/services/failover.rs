//! A broker, the database, a connection or the network fails under load: it carries on by itself.

use std::time::{Duration, Instant};

use headwater_testkit::{
    Kafka, KafkaOptions, Load, Mysql, Outbox, Postgres, Proxy, Server, Writing, check, long, unique,
};
use tokio::time::sleep;

use crate::binlog::WITHOUT_GTIDS;
use crate::scene::{LIMIT, Running, Scene, on_every_binlog};

const CARRYING: &str = "carrying events";

#[tokio::test]
async fn a_broker_of_three_dies_and_comes_back() {
    // GIVEN three brokers, and messages that count when two of them have them
    let kafka = Kafka::start_with(&KafkaOptions {
        nodes: 3,
        settings: vec![("min.insync.replicas".to_owned(), "2".to_owned())],
        ..KafkaOptions::default()
    });
    kafka.wait_ready().await;
    let mut scene = Scene::on(Postgres::shared(17), &kafka, "brokers").await;
    scene.pipeline.replication = 3;
    scene.configure();
    scene.init();
    let positions = kafka.topic_config(&scene.pipeline.positions_topic()).await;
    assert_eq!(positions["min.insync.replicas"], "2");
    let namespace = unique("replicated");
    let topic = format!("ekbatan.{namespace}");
    kafka.create_topic(&topic, 3, 3, &[]).await;
    let mut run = scene.start().await;

    // WHEN one after the other is killed under load and started again
    let writing = load(&namespace, 41).start(&scene.database.url());
    for node in 0..if long() { 3 } else { 2 } {
        more(&writing).await;
        kafka.kill9(node);
        more(&writing).await;
        kafka.start_again(node);
        kafka.wait_ready().await;
    }
    more(&writing).await;
    let written = writing.stop().await;

    // THEN the same process has carried all of it, in order
    let consumed = kafka
        .consume_until_complete(&[&topic], &written, LIMIT)
        .await;
    check(&written, &consumed).assert_at_least_once();
    run.ask_to_stop().await;
}

#[tokio::test]
async fn the_database_is_restarted_and_killed() {
    let postgres = Postgres::start(17, &[]);
    let scene = Scene::on(&postgres, Kafka::shared(), "restart").await;
    restarted_and_killed(scene).await;
}

on_every_binlog!(restarted_and_killed: "restart", own server, shared kafka);

#[tokio::test]
async fn a_database_without_gtids_is_restarted_and_killed() {
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "places").await;
    restarted_and_killed(scene).await;
}

async fn restarted_and_killed(scene: Scene<'_, impl Outbox>) {
    // GIVEN a pipeline at work under load
    scene.init();
    let mut run = scene.start().await;
    let writing = load(&scene.namespace, 42).start(&scene.database.owner_url());

    // WHEN the database is stopped and started, and then killed and started
    more(&writing).await;
    scene.database.stop_server();
    scene.database.start_server_again();
    carries_again(&mut run, 2).await;
    more(&writing).await;
    scene.database.kill9_server();
    sleep(Duration::from_secs(1)).await;
    scene.database.start_server_again();
    carries_again(&mut run, 3).await;
    more(&writing).await;

    // THEN nothing is lost, reordered or foreign
    let written = writing.stop().await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

#[tokio::test]
async fn the_walsender_is_terminated_again_and_again_on_postgres_15() {
    the_walsender_is_terminated_again_and_again(15).await;
}

#[tokio::test]
async fn the_walsender_is_terminated_again_and_again_on_postgres_17() {
    the_walsender_is_terminated_again_and_again(17).await;
}

#[tokio::test]
async fn the_walsender_is_terminated_again_and_again_on_postgres_18() {
    the_walsender_is_terminated_again_and_again(18).await;
}

async fn the_walsender_is_terminated_again_and_again(version: u32) {
    // GIVEN a pipeline at work under load
    let scene = Scene::ready(version, "sender").await;
    let mut run = scene.start().await;
    let writing = load(&scene.namespace, 43).start(&scene.database.url());

    // WHEN its walsender is terminated
    for time in 1..=3 {
        more(&writing).await;
        assert_eq!(scene.database.terminate_walsenders().await, 1);
        carries_again(&mut run, time + 1).await;
    }
    more(&writing).await;

    // THEN nothing is lost, reordered or foreign
    let written = writing.stop().await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

#[tokio::test]
async fn the_network_falls_silent() {
    a_silent_network(Scene::shared(17, "silent").await).await;
}

on_every_binlog!(a_silent_network: "silent", shared server, shared kafka);

async fn a_silent_network(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a pipeline at work under load, with a cable of its own to the database
    let proxy = Proxy::start(scene.database.port());
    scene.pipeline.source_url = scene.database.url_through(proxy.port());
    scene.pipeline.source += "silence_timeout = \"12s\"\n";
    scene.configure();
    scene.init();
    let mut run = scene.start().await;
    let load = Load {
        rate: Some(50),
        ..load(&scene.namespace, 44)
    };
    let writing = load.start(&scene.database.owner_url());
    more(&writing).await;

    // WHEN nothing comes through any more, and no end of a connection either
    proxy.stop_forwarding();
    let begun = Instant::now();

    // THEN that is noticed within the time that was set, and it lasts longer than the lock does without being heard of
    let noticed = run.wait_for_log(" WARN ", Duration::from_secs(20)).await;
    assert!(noticed, "not noticed within {:?}", begun.elapsed());
    assert!(begun.elapsed() > Duration::from_secs(6), "{}", run.tail());
    sleep(Duration::from_secs(25)).await;

    // AND when the network is back, it carries on; nothing is lost, reordered or foreign
    proxy.forward_again();
    carries_again(&mut run, 2).await;
    more(&writing).await;
    let written = writing.stop().await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

pub fn load(namespace: &str, seed: u64) -> Load {
    Load {
        rate: Some(200),
        ..Load::new(namespace, headwater_testkit::seed(seed))
    }
}

/// Lets the load go on for a while, so that what comes next comes in the middle of it.
pub async fn more(writing: &Writing) {
    writing.wait_for(writing.events() + 300, LIMIT).await;
}

/// Waits until it has begun to carry events this many times in all.
pub async fn carries_again(run: &mut Running, times: usize) {
    let end = Instant::now() + LIMIT;
    while run.log().matches(CARRYING).count() < times {
        assert!(run.is_running(), "it has ended");
        assert!(Instant::now() < end, "it does not carry events again");
        sleep(Duration::from_millis(50)).await;
    }
}
