//! Asked to stop, it finishes what it has begun and ends well: nothing is doubled, and nobody waits for long.

use std::time::{Duration, Instant};

use headwater_testkit::{Headwater, Kafka, Load, Outbox, Pipeline, Postgres, check, unique};
use tokio::time::sleep;

use crate::scene::{LIMIT, Running, STOP_LIMIT, Scene, headwater, on_every_binlog};

#[tokio::test]
async fn stopped_under_load_and_started_again_it_doubles_nothing() {
    stopped_under(Scene::shared(17, "stop").await, 200).await;
}

on_every_binlog!(stopped_under_load_it_doubles_nothing: "stop", shared server, shared kafka);

/// Nothing holds these readers up: what is in flight must be acked within the patience for a stop.
async fn stopped_under_load_it_doubles_nothing(mut scene: Scene<'_, impl Outbox>) {
    scene.pipeline.sink += "max_in_flight = { messages = 2000 }\n";
    stopped_under(scene, 50).await;
}

async fn stopped_under(mut scene: Scene<'_, impl Outbox>, transactions_a_second: u32) {
    // GIVEN a pipeline under load, and a broker that takes its time
    scene.send_one_by_one();
    scene.init();
    let load = Load {
        rate: Some(transactions_a_second),
        ..Load::new(&scene.namespace, headwater_testkit::seed(6))
    };
    let load = load.start(&scene.database.owner_url());
    let backlogs = scene.another_namespace("backlog").await;

    // WHEN it is stopped by SIGTERM and by SIGINT, while much waits for its acks, and started again each time
    for round in 1..=6 {
        scene.commit_backlog(&backlogs, round).await;
        let mut run = scene.start().await;
        sleep(Duration::from_millis(100 * u64::from(round))).await;
        if round % 3 == 0 {
            run.interrupt();
        } else {
            run.term();
        }
        let asked = Instant::now();
        // THEN it ends soon and well
        assert_eq!(run.ended_within(STOP_LIMIT).await, 0);
        println!("ended {:?} after it was asked", asked.elapsed());
    }

    // and nothing is lost, doubled, reordered or foreign
    let mut written = load.stop().await;
    written.add(scene.committed_in(&backlogs).await);
    let run = scene.start().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn stopped_amid_a_large_transaction_it_reads_on_to_its_end() {
    stopped_amid_it_reads_on(Scene::shared(18, "stop").await).await;
}

on_every_binlog!(stopped_amid_it_reads_on: "stop", shared server, shared kafka);

async fn stopped_amid_it_reads_on(scene: Scene<'_, impl Outbox>) {
    // GIVEN a transaction of 300,000 rows, of which a part has arrived
    scene.init();
    let written = scene
        .database
        .bulk_rows(&scene.namespace, 300_000, 10)
        .await;
    let mut run = scene.start().await;
    assert!(
        scene
            .kafka
            .wait_for_messages(scene.topic(), 10_000, LIMIT)
            .await
    );

    // WHEN it is asked to stop
    run.term();
    let asked = Instant::now();
    let amid = scene.kafka.message_count(scene.topic()).await;
    assert!(amid < 300_000, "too late: all rows have arrived");

    // THEN it ends well within its patience; and if it was done by then, nothing comes again
    assert_eq!(run.ended_within(STOP_LIMIT).await, 0);
    let in_time = !run.log().contains("these messages will come again");
    println!(
        "asked at {amid} messages, ended after {:?}, done: {in_time}",
        asked.elapsed()
    );
    let mut next = scene.start().await;
    assert!(
        scene
            .kafka
            .wait_for_messages(scene.topic(), 300_000, LIMIT)
            .await
    );
    next.ask_to_stop().await;
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    if in_time {
        verdict.assert_exactly_once();
    } else {
        verdict.assert_at_least_once();
    }
}

/// One of several pipelines that read the same table, with a topic of its own.
struct Branch {
    headwater: Headwater,
    topic: String,
}

impl Branch {
    #[track_caller]
    fn init(scene: &Scene<'_>, hint: &str) -> Self {
        let name = unique(hint);
        let mut pipeline = Pipeline::new(&name, &scene.database.url(), &scene.kafka.brokers());
        pipeline.more = format!("[[route]]\ntopic = \"{name}.{{namespace}}\"");
        let headwater = headwater(&pipeline);
        let output = headwater.run(&["init"]);
        assert_eq!(output.code, 0, "init: {}", output.stderr);
        Self {
            headwater,
            topic: format!("{name}.{}", scene.namespace),
        }
    }

    fn spawn(&self) -> Running {
        Running::of(self.headwater.spawn(&["run"]))
    }
}

#[tokio::test]
async fn stopped_while_kafka_is_away_it_ends_in_time_and_loses_nothing() {
    // GIVEN pipelines at work under load, and a Kafka that goes away
    let kafka = Kafka::start(1);
    let scene = Scene::on(Postgres::shared(17), &kafka, "away").await;
    let branches = ["waits", "gave_up", "late"].map(|hint| Branch::init(&scene, hint));
    let load = Load {
        rate: Some(100),
        ..Load::new(&scene.namespace, headwater_testkit::seed(7))
    };
    let load = load.start(&scene.database.url());
    let [mut waits, mut gave_up] = [branches[0].spawn(), branches[1].spawn()];
    waits.wait_until_it_carries().await;
    gave_up.wait_until_it_carries().await;
    load.wait_for(load.events() + 100, LIMIT).await;
    // A topic that is still being made holds up the first transaction in its middle, and there the log is not given up.
    for branch in &branches[..2] {
        assert!(kafka.wait_for_messages(&branch.topic, 1, LIMIT).await);
    }
    kafka.kill9(0);
    let mut late = branches[2].spawn();
    sleep(Duration::from_secs(1)).await;

    // WHEN they are asked to stop: one that waits for acks, one that gave up the log, one that never found a broker
    waits.term();
    late.term();
    let asked = Instant::now();
    let given_up = "the log is given up";
    assert!(
        gave_up
            .wait_for_log(given_up, Duration::from_secs(20))
            .await
    );
    gave_up.term();

    // THEN each ends well within 30 s
    let left = STOP_LIMIT.saturating_sub(asked.elapsed());
    assert_eq!(late.ended_within(left).await, 0);
    println!("the late one ended within {:?}", asked.elapsed());
    let left = STOP_LIMIT.saturating_sub(asked.elapsed());
    assert_eq!(waits.ended_within(left).await, 0);
    println!("the waiting one ended within {:?}", asked.elapsed());
    assert_eq!(gave_up.ended_within(STOP_LIMIT).await, 0);

    // and when Kafka is back and they are started again, nothing is lost, reordered or foreign
    let written = load.stop().await;
    kafka.start_again(0);
    kafka.wait_ready().await;
    let runs = branches.each_ref().map(Branch::spawn);
    for (branch, mut run) in branches.iter().zip(runs) {
        let topics = [branch.topic.as_str()];
        let arrived = kafka.consume_until_complete(&topics, &written, LIMIT);
        check(&written, &arrived.await).assert_at_least_once();
        run.ask_to_stop().await;
    }
}
