//! Kafka away: nothing is lost, nothing is confirmed too early, and only what waiting cannot mend ends the run.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, KafkaOptions, Outbox, Postgres, Written, check, long, unique};
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

const WAITING: &str = "waiting for Kafka";

#[tokio::test]
async fn what_is_committed_while_kafka_is_away_is_not_lost_though_headwater_is_killed_too() {
    let kafka = Kafka::start(1);
    let scene = Scene::on(Postgres::shared(17), &kafka, "away").await;
    committed_while_kafka_is_away(scene, async |scene| {
        let last_ack = scene.database.wal_lsn().await;
        async move |scene: &Scene<'_>, time| {
            nothing_is_confirmed_after(last_ack, scene, time).await;
        }
    })
    .await;
}

on_every_binlog!(committed_while_it_is_away_nothing_is_lost: "away", shared server, own kafka);

/// There is nobody to confirm to but Kafka, which is away.
async fn committed_while_it_is_away_nothing_is_lost(scene: Scene<'_, impl Outbox>) {
    committed_while_kafka_is_away(scene, async |_| async |_: &_, time| sleep(time).await).await;
}

/// `watch` begins to watch when Kafka is away; what it gives sees for a while that nothing is confirmed.
async fn committed_while_kafka_is_away<'a, D: Outbox, W>(
    scene: Scene<'a, D>,
    watch: impl AsyncFn(&Scene<'a, D>) -> W,
) where
    W: AsyncFn(&Scene<'a, D>, Duration),
{
    // GIVEN a pipeline at work
    let kafka = scene.kafka;
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(100).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN Kafka is killed, and 50,000 rows are committed
    kafka.kill9(0);
    let nothing_is_confirmed = watch(&scene).await;
    written.add(
        scene
            .database
            .bulk_rows(&scene.namespace, 50_000, 100)
            .await,
    );

    // THEN the slot stays before them, also when the log is given up after 10 s without an ack
    nothing_is_confirmed(&scene, Duration::from_secs(12)).await;
    assert!(run.is_running(), "{}", run.tail());

    // AND when Headwater is killed, Kafka comes back and Headwater comes back, all of them arrive
    run.kill9();
    nothing_is_confirmed(&scene, Duration::ZERO).await;
    kafka.start_again(0);
    kafka.wait_ready().await;
    let run = scene.start().await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}

async fn nothing_is_confirmed_after(last_ack: u64, scene: &Scene<'_>, time: Duration) {
    let end = Instant::now() + time;
    loop {
        let confirmed = scene.database.confirmed_lsn(&scene.pipeline.slot()).await;
        let confirmed = confirmed.expect("the slot is there");
        assert!(
            confirmed <= last_ack,
            "confirmed {confirmed:X}, but nothing after {last_ack:X} was acked"
        );
        if Instant::now() >= end {
            return;
        }
        sleep(Duration::from_millis(200)).await;
    }
}

#[tokio::test]
async fn kafka_away_at_the_start_is_said_once_and_waited_for() {
    // GIVEN a pipeline, and a Kafka that is away
    let kafka = Kafka::start(1);
    let scene = Scene::on(Postgres::shared(17), &kafka, "late").await;
    scene.init();
    kafka.term(0);

    // WHEN it is started
    let mut run = scene.spawn(&["run"]);
    assert!(run.wait_for_log(WAITING, LIMIT).await);
    let written = scene.commit_events(100).await;
    sleep(Duration::from_secs(5)).await;

    // THEN it waits, and says so once
    assert!(run.is_running());
    assert_eq!(run.log().matches(WAITING).count(), 1, "{}", run.tail());
    assert!(!run.log().contains("carrying events"), "{}", run.tail());

    // AND it carries on when Kafka comes
    kafka.start_again(0);
    run.wait_until_it_carries().await;
    assert_eq!(run.log().matches(WAITING).count(), 1, "{}", run.tail());
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
}

#[tokio::test]
async fn a_refused_login_ends_the_run_and_the_right_password_is_taken() {
    // GIVEN a Kafka that asks for a password, and a pipeline that knows it
    let kafka = Kafka::start_with(&KafkaOptions {
        sasl: true,
        ..KafkaOptions::default()
    });
    let mut scene = Scene::on(Postgres::shared(17), &kafka, "login").await;
    scene.pipeline.brokers = kafka.sasl_brokers();
    log_in_with(&mut scene, "p");
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;

    // WHEN it is given a wrong one
    log_in_with(&mut scene, "wr0ng-Pa55");
    for command in ["run", "init", "adopt", "check"] {
        let mut run = scene.spawn(&[command]);
        // THEN a person is asked for, soon, and the password is not told
        let code = run.ended_within(Duration::from_secs(15)).await;
        assert_eq!(code, 3, "{command}: {}", run.tail());
        let said = run.log() + &run.stdout();
        assert!(said.contains("refused the login"), "{command}: {said}");
        assert!(!said.contains("wr0ng-Pa55"), "{command}: {said}");
    }

    // AND with the right one it goes on where it was
    log_in_with(&mut scene, "p");
    let run = scene.start().await;
    written.add(scene.commit_events(10).await);
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
}

fn log_in_with(scene: &mut Scene<'_>, password: &str) {
    scene.pipeline.more = format!(
        r#"[sink.properties]
"security.protocol" = "SASL_PLAINTEXT"
"sasl.mechanisms" = "PLAIN"
"sasl.username" = "u"
"sasl.password" = "{password}"
"#
    );
    scene.configure();
}

#[tokio::test]
async fn a_missing_topic_that_may_not_be_created_is_named() {
    // GIVEN a pipeline that may not create topics
    let mut scene = Scene::shared(17, "topics").await;
    scene.pipeline.sink = "create_topics = false".to_owned();
    scene.configure();
    scene.init();
    let mut run = scene.start().await;

    // WHEN an event is for a topic that does not exist
    let before = scene.commit_events(10).await;
    let namespace = unique("missing");
    let topic = format!("ekbatan.{namespace}");
    let event = Event::new(&namespace, "key", 1);
    scene.database.execute(&event.insert()).await;

    // THEN a person is asked for, with its name and the way to create it
    let code = run.ended_within(Duration::from_secs(20)).await;
    assert_eq!(code, 3, "{}", run.tail());
    let log = run.log();
    let said = log.lines().last().unwrap();
    for word in [&topic, "sink.create_topics", "kafka-topics.sh"] {
        assert!(said.contains(word), "no {word}: {said}");
    }
    scene.judge(&before).await.assert_at_least_once();

    // AND when it is there, the event arrives
    scene.kafka.create_topic(&topic, 1, 1, &[]).await;
    let _run = scene.start().await;
    let written = Written {
        committed: vec![event.committed()],
        ..Written::default()
    };
    let consumed = scene
        .kafka
        .consume_until_complete(&[&topic], &written, LIMIT)
        .await;
    check(&written, &consumed).assert_exactly_once();
}

#[tokio::test]
async fn seven_minutes_without_kafka_expire_nothing() {
    if !long() {
        return;
    }
    // GIVEN a pipeline at work
    let kafka = Kafka::start(1);
    let scene = Scene::on(Postgres::shared(17), &kafka, "long").await;
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(100).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN Kafka is away for seven minutes, with messages on their way
    kafka.kill9(0);
    written.add(scene.commit_events(1000).await);
    sleep(Duration::from_mins(7)).await;
    written.add(scene.commit_events(1000).await);
    kafka.start_again(0);

    // THEN the same process carries on
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_at_least_once();
}
