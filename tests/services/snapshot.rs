//! Rows that were there before the pipeline began: published first, joined to the log without a gap, gone on with after any interruption.

mod altered;
mod kept;
mod keys;
mod large;
mod locked;
mod seam;
mod shown;

use std::time::Duration;

use headwater_testkit::{Kafka, Load, Outbox, Postgres, Written, unique};
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Running, Scene, headwater, on_every_binlog, on_other_versions};

const COMPLETE: &str = "the rows that were there before are published";
const GOING_ON: &str = "going on with the rows that were there";
/// Message by message, on a busy machine.
const PATIENCE: Duration = Duration::from_mins(3);

fn load(scene: &Scene<'_, impl Outbox>, seed: u64) -> Load {
    Load {
        rate: Some(300),
        ..Load::new(&scene.namespace, seed)
    }
}

fn with_snapshot<'a, D: Outbox>(mut scene: Scene<'a, D>, snapshot: &str) -> Scene<'a, D> {
    scene.pipeline.snapshot = snapshot.into();
    scene.configure();
    scene
}

on_other_versions!(
    killed: "broken", taken_over: "second", only: "only", same_bytes: "same", ordered: "ordered", pruned: "pruned",
    pruned_under_it: "pruned"
);

#[tokio::test]
async fn existing_rows_and_new_ones_arrive_each_once_on_postgresql_15() {
    joined_to_the_log(Scene::shared(15, "joined").await).await;
}

#[tokio::test]
async fn existing_rows_and_new_ones_arrive_each_once_on_postgresql_18() {
    joined_to_the_log(Scene::shared(18, "joined").await).await;
}

on_every_binlog!(joined_to_the_log: "joined", shared server, shared kafka);

async fn joined_to_the_log(scene: Scene<'_, impl Outbox>) {
    // GIVEN a table with rows, and writers that do not pause
    let scene = with_snapshot(scene, "initial");
    let mut written = scene.database.bulk_rows(&scene.namespace, 3000, 200).await;
    let load = load(&scene, 7).start(&scene.database.owner_url());
    load.wait_for(200, LIMIT).await;

    // WHEN the pipeline begins among them
    scene.init();
    let mut run = scene.start().await;
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    let events = load.events();
    load.wait_for(events + 200, LIMIT).await;
    written.add(load.stop().await);

    // THEN each row comes once: none is in both, none in neither
    scene.stop_and_judge(run, &written).await.assert_each_once();

    // AND the next start does not begin again
    let run = scene.start().await;
    written.add(scene.commit_events(10).await);
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

#[tokio::test]
async fn killed_in_the_middle_it_goes_on_and_loses_nothing_on_postgresql() {
    killed(Scene::shared(17, "broken").await).await;
}

on_every_binlog!(killed: "broken", shared server, shared kafka);

async fn killed(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN many rows, a broker that takes its time, and a load
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    let mut written = scene.database.bulk_rows(&scene.namespace, 4_000, 100).await;
    let load = Load {
        rate: Some(40),
        ..load(&scene, 13)
    };
    let load = load.start(&scene.database.owner_url());
    scene.init();

    // WHEN it is killed again and again before it is complete
    let mut gone_on = false;
    for moment in [150, 500, 300, 700] {
        let mut run = scene.spawn(&["run"]);
        run.wait_until_it_carries().await;
        sleep(Duration::from_millis(moment)).await;
        run.kill9();
        gone_on |= run.log().contains(GOING_ON);
    }
    assert!(gone_on, "it was too fast to be killed in the middle");
    written.add(load.stop().await);

    // THEN the next run ends what was begun, and nothing is lost; what was committed meanwhile may have come twice
    let run = scene.start().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    println!("{verdict}");
    verdict.assert_each();
}

#[tokio::test]
async fn the_database_or_kafka_away_in_the_middle_is_waited_for_on_postgresql_15() {
    away_on_postgresql(15).await;
}

#[tokio::test]
async fn the_database_or_kafka_away_in_the_middle_is_waited_for_on_postgresql_17() {
    away_on_postgresql(17).await;
}

#[tokio::test]
async fn the_database_or_kafka_away_in_the_middle_is_waited_for_on_postgresql_18() {
    away_on_postgresql(18).await;
}

async fn away_on_postgresql(version: u32) {
    let postgres = Postgres::start(version, &[]);
    let kafka = Kafka::start(1);
    away(Scene::on(&postgres, &kafka, "away").await).await;
}

on_every_binlog!(away: "away", own server, own kafka);

async fn away(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a snapshot under way, of more bytes than the sockets between hold when the server is gone
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    let mut written = scene
        .database
        .bulk_rows(&scene.namespace, 4_000, 10_000)
        .await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN the database is killed and comes back, and then Kafka
    scene.database.kill9_server();
    scene.database.start_server_again();
    assert!(run.wait_for_log(GOING_ON, LIMIT).await, "{}", run.tail());
    scene.kafka.kill9(0);
    assert!(!run.log().contains(COMPLETE), "the middle is over");
    sleep(Duration::from_secs(1)).await;
    scene.kafka.start_again(0);

    // THEN it goes on by itself, and nothing is lost
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    written.add(scene.commit_events(10).await);
    scene.stop_and_judge(run, &written).await.assert_each();
}

#[tokio::test]
async fn a_second_instance_stands_by_and_takes_over_on_postgresql() {
    taken_over(Scene::shared(17, "second").await).await;
}

on_every_binlog!(taken_over: "second", shared server, shared kafka);

async fn taken_over(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a snapshot under way, and an instance that waits to take its place
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    let mut written = scene
        .database
        .bulk_rows(&scene.namespace, 12_000, 100)
        .await;
    scene.init();
    let mut first = scene.start().await;
    let mut second = scene.spawn(&["run"]);
    assert!(second.wait_for_log("standing by", LIMIT).await);

    // WHEN the first is killed
    first.kill9();
    assert!(!first.log().contains(COMPLETE), "the middle is over");

    // THEN the other one ends what was begun, and nothing is lost
    assert!(
        second.wait_for_log(COMPLETE, PATIENCE).await,
        "{}",
        second.tail()
    );
    written.add(scene.commit_events(5).await);
    scene.stop_and_judge(second, &written).await.assert_each();
}

#[tokio::test]
async fn only_a_snapshot_ends_by_itself_and_the_log_goes_on_where_it_stood_on_postgresql() {
    only(Scene::shared(17, "only").await).await;
}

on_every_binlog!(only: "only", shared server, shared kafka);

async fn only(scene: Scene<'_, impl Outbox>) {
    // GIVEN rows, and nothing but them wanted
    let mut scene = with_snapshot(scene, "only");
    let mut written = scene.database.bulk_rows(&scene.namespace, 1000, 100).await;
    scene.init();

    // WHEN it runs, THEN it ends when they are published, and a second time at once
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 0, "{}", run.tail());
    scene.judge(&written).await.assert_each_once();
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 0, "{}", run.tail());

    // AND with the log wanted too, it goes on behind them
    written.add(scene.commit_events(10).await);
    scene.pipeline.snapshot = "initial".into();
    scene.configure();
    let run = scene.start().await;
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

#[tokio::test]
async fn the_same_row_is_the_same_message_by_snapshot_and_by_log_on_postgresql() {
    same_bytes(Scene::shared(17, "same").await).await;
}

on_every_binlog!(same_bytes: "same", shared server, shared kafka);

async fn same_bytes(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a pipeline that carries rows as they are committed, some of them delivered already, with all kinds of JSON
    scene.init();
    let mut run = scene.start().await;
    let written = odd_rows(&scene).await;
    scene.judge(&written).await;
    run.ask_to_stop().await;
    let streamed = values(scene.consume().await);

    // WHEN another one publishes the same rows as a snapshot
    let topic = unique("same");
    scene.kafka.create_topic(&topic, 1, 1, &[]).await;
    scene.pipeline.name = unique("same");
    scene.pipeline.snapshot = "only".into();
    scene.pipeline.more = format!("[[route]]\ntopic = \"{topic}\"\n");
    scene.headwater = headwater(&scene.pipeline);
    scene.init();
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 0, "{}", run.tail());

    // THEN keys and values are the same to the byte
    let read = values(scene.kafka.consume_all(&[&topic]).await);
    assert_eq!(read, streamed);
}

type Message = (Option<Vec<u8>>, Option<Vec<u8>>);

fn values(consumed: Vec<headwater_testkit::Consumed>) -> Vec<Message> {
    let mut values: Vec<Message> = consumed.into_iter().map(|it| (it.key, it.value)).collect();
    values.sort();
    values
}

async fn odd_rows(scene: &Scene<'_, impl Outbox>) -> Written {
    let mut written = Written::default();
    let payloads = [
        r#"{"seq": 1, "b": [1, 2.50, -0.0, 1e3], "a": null, "long": 12345678901234567890}"#,
        r#"{"seq": 2, "text": "ä€😀 \" \\ / \t", "empty": {}, "none": []}"#,
        r#"{"seq": 3, "date": "2024-02-29T12:00:00Z", "nested": {"z": 1, "a": {"b": false}}}"#,
    ];
    for (seq, payload) in (1..).zip(payloads) {
        let event = crate::scene::Event::new(&scene.namespace, "k", seq);
        let text = format!(
            "'{}'",
            payload.replace(
                '\\',
                if scene.database.table() == "eventlog.events" {
                    "\\"
                } else {
                    "\\\\"
                }
            )
        );
        let changed = [
            ("payload", text.as_str()),
            ("action_params", "'{\"x\": [1, 2]}'"),
            ("delivered", if seq == 2 { "true" } else { "false" }),
            ("event_date", "'2024-02-29 01:02:03.000004'"),
        ];
        scene
            .database
            .execute(&scene.insert_with(&event, &changed))
            .await;
        written.committed.push(event.committed());
    }
    // A decimal inside JSON, which MySQL keeps as one where no text was parsed.
    if scene.database.table() != "eventlog.events" {
        let event = crate::scene::Event::new(&scene.namespace, "k", 4);
        let exact = "JSON_OBJECT('seq', 4, 'exact', 123456.789012345678, 'zero', 1.10)";
        let insert = scene.insert_with(&event, &[("payload", exact)]);
        scene.database.execute(&insert).await;
        written.committed.push(event.committed());
    }
    written
}

#[tokio::test]
async fn rows_that_are_pruned_meanwhile_stop_nothing_on_postgresql() {
    pruned(Scene::shared(17, "pruned").await).await;
}

on_every_binlog!(pruned: "pruned", shared server, shared kafka);

async fn pruned(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a snapshot under way
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    scene.database.bulk_rows(&scene.namespace, 4_000, 100).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN all rows are deleted, and it is killed
    let prune = format!("DELETE FROM {}", scene.database.table());
    scene.database.execute(&prune).await;
    run.kill9();

    // THEN the next run finds nothing more, and goes on with the log
    let mut run = scene.start().await;
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    let key = scene.commit_events(10).await;
    let consumed = |run: &mut Running| assert!(run.is_running());
    consumed(&mut run);
    let verdict = scene.judge(&key).await;
    assert!(verdict.lost.is_empty(), "{verdict}");
    run.ask_to_stop().await;
}

#[tokio::test]
async fn rows_deleted_while_it_goes_on_do_not_disturb_it_on_postgresql() {
    pruned_under_it(Scene::shared(17, "pruned").await).await;
}

on_every_binlog!(pruned_under_it: "pruned", shared server, shared kafka);

async fn pruned_under_it(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a snapshot under way
    scene.send_one_by_one();
    let scene = with_snapshot(scene, "initial");
    let mut written = scene.database.bulk_rows(&scene.namespace, 8_000, 100).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN every tenth row is deleted, and others are committed
    let prune = format!(
        "DELETE FROM {} WHERE model_id LIKE '%1'",
        scene.database.table()
    );
    scene.database.execute(&prune).await;
    assert!(!run.log().contains(COMPLETE), "the middle is over");
    written.add(scene.commit_events(10).await);

    // THEN all that its view has come once, and so do the others
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());
    scene.stop_and_judge(run, &written).await.assert_each_once();
}

#[tokio::test]
async fn rows_come_in_the_order_of_their_dates_on_postgresql() {
    ordered(Scene::shared(17, "ordered").await).await;
}

on_every_binlog!(ordered: "ordered", shared server, shared kafka);

async fn ordered(scene: Scene<'_, impl Outbox>) {
    // GIVEN rows in no order, many of one date, and a topic of one partition
    const ROWS: usize = 60;
    let mut scene = with_snapshot(scene, "only");
    let topic = unique("ordered");
    scene.kafka.create_topic(&topic, 1, 1, &[]).await;
    scene.pipeline.more =
        format!("[[route]]\ntopic = \"{topic}\"\nheaders = {{ id = \"{{id}}\" }}\n");
    scene.configure();
    let mut rows = Vec::new();
    for seq in 0..ROWS {
        let event = Event::new(&scene.namespace, "k", i64::try_from(seq).unwrap());
        // 7 has no divisor in common with 60, so that the dates come in a wild order.
        let date = format!("2026-01-01 00:00:{:02}", seq * 7 % ROWS / 6);
        let insert = scene.insert_with(&event, &[("event_date", &format!("'{date}'"))]);
        scene.database.execute(&insert).await;
        rows.push((date, event.id.to_string()));
    }

    // WHEN they are published
    scene.init();
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 0, "{}", run.tail());

    // THEN they come by date; which order those of one date have is the server's matter
    let consumed = scene.kafka.consume_all(&[&topic]).await;
    let date = |message: &headwater_testkit::Consumed| {
        let id = String::from_utf8(message.headers[0].1.clone().unwrap()).unwrap();
        let (date, _) = rows.iter().find(|(_, row)| *row == id).expect("a row");
        date.clone()
    };
    let came: Vec<String> = consumed.iter().map(date).collect();
    let mut wanted: Vec<String> = rows.iter().map(|(date, _)| date.clone()).collect();
    wanted.sort_unstable();
    assert_eq!(came, wanted);
}

#[tokio::test]
async fn what_is_there_is_told_and_each_choice_too() {
    // GIVEN rows, and nothing said about them
    let scene = Scene::shared(17, "asked").await;
    scene.database.bulk_rows(&scene.namespace, 3, 100).await;
    let toml = scene.pipeline.toml().replace("snapshot = \"never\"\n", "");
    scene.headwater.configure(&toml);

    // WHEN the pipeline is to begin, THEN it asks
    let output = scene.headwater.run(&["init"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    for word in ["3 events", "\"initial\"", "\"only\"", "\"never\""] {
        assert!(output.stderr.contains(word), "{}", output.stderr);
    }
}
