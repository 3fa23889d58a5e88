//! A part of the table, published again: beside a pipeline that goes on meanwhile, over kills, and with Kafka away.

use std::time::Duration;

use headwater_testkit::{
    Consumed, Kafka, Load, Mysql, Outbox, Postgres, Run, Server, Written, check, unique,
};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::scene::{Event, LIMIT, Running, Scene};

const HEADER: &str = "headwater-replay";
/// Rows that were there before; all of a day that no other row is of.
const OLD: u32 = 2_000;
const DAY: [&str; 5] = ["replay", "--from", "2024-02-29", "--to", "2024-03-01"];
const PATIENCE: Duration = Duration::from_mins(3);

/// A promise as one test for each kind of database.
macro_rules! everywhere {
    ($promise:ident: $hint:literal) => {
        mod $promise {
            use super::*;

            #[tokio::test]
            async fn on_postgresql_15() {
                super::$promise(Scene::shared(15, $hint).await).await;
            }

            #[tokio::test]
            async fn on_postgresql_18() {
                super::$promise(Scene::shared(18, $hint).await).await;
            }

            #[tokio::test]
            async fn on_mariadb_10_11() {
                let mysql = Mysql::shared(Server::MariaDb1011);
                super::$promise(Scene::binlog(mysql, Kafka::shared(), $hint).await).await;
            }

            #[tokio::test]
            async fn on_postgresql_17() {
                super::$promise(Scene::shared(17, $hint).await).await;
            }

            #[tokio::test]
            async fn on_mysql_9_7() {
                let mysql = Mysql::shared(Server::MySql97);
                super::$promise(Scene::binlog(mysql, Kafka::shared(), $hint).await).await;
            }

            #[tokio::test]
            async fn on_mariadb_11_8() {
                let mysql = Mysql::shared(Server::MariaDb118);
                super::$promise(Scene::binlog(mysql, Kafka::shared(), $hint).await).await;
            }
        }
    };
}

/// A pipeline that has published rows of that day, and what they were.
async fn published(scene: &mut Scene<'_, impl Outbox>) -> Written {
    let written = scene.database.bulk_rows(&scene.namespace, OLD, 100).await;
    let table = scene.database.table().to_owned();
    // Two dates, so that rows of one date are told apart by their ids.
    for (date, which) in [("01:02:03.000004", "<"), ("23:59:59.999999", ">=")] {
        let update = format!(
            "UPDATE {table} SET event_date = '2024-02-29 {date}' WHERE namespace = '{}' AND id {which} '80000000-0000-0000-0000-000000000000'",
            scene.namespace
        );
        scene.database.execute(&update).await;
    }
    scene.pipeline.snapshot = "initial".into();
    scene.configure();
    scene.init();
    written
}

/// The value of the header, if there is one.
fn replay_of(message: &Consumed) -> Option<String> {
    let header = message.headers.iter().find(|(name, _)| name == HEADER)?;
    let value = header.1.clone().expect("a value");
    Some(String::from_utf8(value).expect("text"))
}

fn apart(consumed: Vec<Consumed>) -> (Vec<Consumed>, Vec<Consumed>) {
    consumed.into_iter().partition(|it| replay_of(it).is_none())
}

type Message = (Option<Vec<u8>>, Option<Vec<u8>>);

fn sorted(consumed: &[Consumed]) -> Vec<Message> {
    let pairs = consumed.iter().map(|it| (it.key.clone(), it.value.clone()));
    let mut pairs: Vec<Message> = pairs.collect();
    pairs.sort();
    pairs
}

/// As it is told at the beginning.
async fn id_of(run: &mut Run) -> String {
    let begun = run.wait_for_log("publishing again", LIMIT).await;
    assert!(begun, "{}", run.log());
    let log = run.log();
    let told = log.lines().find_map(|line| line.strip_prefix("replay "));
    let (id, _) = told.expect("an id").split_once(':').expect("an id");
    id.to_owned()
}

async fn succeeds(run: &mut Running) {
    assert_eq!(run.ended_within(PATIENCE).await, 0, "{}", run.tail());
}

/// Waits until so many messages of replays are on the topic.
async fn replayed(scene: &Scene<'_, impl Outbox>, run: &Running, count: usize) {
    let end = Instant::now() + LIMIT;
    while apart(scene.consume().await).1.len() < count {
        assert!(Instant::now() < end, "{}", run.tail());
        sleep(Duration::from_millis(20)).await;
    }
}

everywhere!(beside_a_pipeline: "beside");

async fn beside_a_pipeline(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a pipeline that has published old rows, and carries those of writers that do not pause
    let mut written = published(&mut scene).await;
    let mut run = scene.start().await;
    scene.judge(&written).await.assert_each_once();
    let originals = scene.consume().await;
    let load = Load {
        rate: Some(200),
        ..Load::new(&scene.namespace, 5)
    };
    let load = load.start(&scene.database.owner_url());
    load.wait_for(100, LIMIT).await;

    // WHEN the old rows are replayed
    let mut replay = scene.spawn(&DAY);
    let id = id_of(&mut replay).await;
    succeeds(&mut replay).await;

    // THEN the pipeline carries on, and each of its rows comes once
    let events = load.events();
    load.wait_for(events + 100, LIMIT).await;
    written.add(load.stop().await);
    scene.judge(&written).await;
    run.ask_to_stop().await;
    let (carried, replayed) = apart(scene.consume().await);
    check(&written, &carried).assert_each_once();

    // AND the old rows came once more, the same to the byte, all under the replay's id
    assert!(
        replayed
            .iter()
            .all(|it| replay_of(it).as_ref() == Some(&id))
    );
    assert_eq!(sorted(&replayed), sorted(&originals));

    // AND the pipeline's record is its own: nobody else wrote one under its name, or took a run's number
    let records = scene
        .kafka
        .consume_all(&[&scene.pipeline.positions_topic()])
        .await;
    let own = format!("{}.replay.{id}", scene.pipeline.name);
    for record in records {
        let name = String::from_utf8(record.key.clone().unwrap()).unwrap();
        let value: Value = serde_json::from_slice(&record.value.unwrap()).unwrap();
        assert_eq!(value["name"], name.as_str());
        assert!(name == own || name == scene.pipeline.name, "{name}");
        let of_replay = value["source"].get("replay").is_some();
        assert_eq!(of_replay, name == own, "{value}");
    }
    let status = scene.headwater.run(&["check"]);
    assert_eq!(status.code, 0, "{}{}", status.stdout, status.stderr);
}

everywhere!(killed_in_the_middle: "replaykill");

async fn killed_in_the_middle(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a pipeline that has published old rows and goes on
    let written = published(&mut scene).await;
    let mut run = scene.start().await;
    scene.judge(&written).await.assert_each_once();

    // WHEN a replay is killed twice in the middle
    let paced = [&DAY[..], &["--rate", "300"]].concat();
    let mut replay = scene.spawn(&paced);
    let id = id_of(&mut replay).await;
    replayed(&scene, &replay, 400).await;
    replay.kill9();
    let mut replay = scene.spawn(&["replay", "--resume", &id]);
    replayed(&scene, &replay, 900).await;
    replay.kill9();

    // THEN gone on with it brings the rest: none is lost, and not all come again
    let resume = ["replay", "--resume", &id, "--rate", "1000000"];
    let mut replay = scene.spawn(&resume);
    succeeds(&mut replay).await;
    let (carried, again) = apart(scene.consume().await);
    check(&written, &again).assert_each();
    assert!(again.iter().all(|it| replay_of(it).as_ref() == Some(&id)));
    assert!(again.len() < 2 * written.committed.len(), "it began anew");

    // AND the pipeline noticed nothing
    check(&written, &carried).assert_each_once();
    assert!(run.is_running());
    run.ask_to_stop().await;

    // AND what is complete stays complete
    let output = scene.headwater.run(&["replay", "--resume", &id]);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert!(output.stderr.contains("complete"), "{}", output.stderr);
}

everywhere!(stopped_and_gone_on: "replaystop");

async fn stopped_and_gone_on(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a replay under way, to a topic of its own; the pipeline itself never ran
    let written = published(&mut scene).await;
    let topic = unique("again");
    scene.kafka.create_topic(&topic, 3, 1, &[]).await;
    let paced = [&DAY[..], &["--topic", &topic, "--rate", "500"]].concat();
    let mut replay = scene.spawn(&paced);
    let id = id_of(&mut replay).await;
    assert!(scene.kafka.wait_for_messages(&topic, 300, LIMIT).await);

    // WHEN it is asked to stop, THEN it tells where it stands, and the command that goes on
    replay.ask_to_stop().await;
    let there = scene.kafka.message_count(&topic).await;
    let log = replay.log();
    assert!(there < u64::from(OLD), "it was too fast to be stopped");
    assert!(
        log.contains(&format!("stopped after {there} rows")),
        "{log}"
    );
    let (_, command) = log.split_once("To go on: headwater ").expect("a command");

    // AND who does not know its id is told which there are
    let output = scene.headwater.run(&["replay", "--resume", "unknown"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains(&id), "{}", output.stderr);

    // AND gone on with, each row has come once, to that topic alone
    let command: Vec<&str> = command.trim().split(' ').collect();
    let mut replay = scene.spawn(&command);
    succeeds(&mut replay).await;
    let again = scene.kafka.consume_all(&[&topic]).await;
    check(&written, &again).assert_each_once();
    assert!(again.iter().all(|it| replay_of(it).as_ref() == Some(&id)));
    assert_eq!(scene.kafka.message_count(scene.topic()).await, 0);
}

everywhere!(between_two_moments: "edges");

async fn between_two_moments(scene: Scene<'_, impl Outbox>) {
    // GIVEN rows at both ends of a window, one of them of another model
    let mut inside = Written::default();
    let (from, to) = ("2024-02-29T01:02:03.000004Z", "2024-02-29T03:02:04+01:00");
    for (seq, date, key, wanted) in [
        (1, "2024-02-29 01:02:03.000003", "k", false),
        (2, "2024-02-29 01:02:03.000004", "k", true),
        (3, "2024-02-29 01:59:59", "it's", false),
        (4, "2024-02-29 02:02:03.999999", "k", true),
        (5, "2024-02-29 02:02:04", "k", false),
    ] {
        let event = Event::new(&scene.namespace, key, seq);
        let changed = [
            ("event_date", &*format!("'{date}'")),
            ("model_id", &*format!("'{}'", key.replace('\'', "''"))),
        ];
        let insert = scene.insert_with(&event, &changed);
        scene.database.execute(&insert).await;
        if wanted {
            inside.committed.push(event.committed());
        }
    }
    scene.init();

    // WHEN those of one model are replayed, THEN its rows come, from the first moment on and before the last
    let window = ["replay", "--from", from, "--to", to];
    let asked = [&window[..], &["--where", "model_id=k"]].concat();
    let output = scene.headwater.run(&asked);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let consumed = scene.consume().await;
    check(&inside, &consumed).assert_exactly_once();

    // AND a dry run counts them, and publishes nothing
    let asked = [&window[..], &["--dry-run"]].concat();
    let output = scene.headwater.run(&asked);
    assert_eq!(output.code, 0, "{}", output.stderr);
    let told = format!(
        "3 events would be published again, the first of {from}, the last of 2024-02-29T02:02:03.999999Z\n  3 to topic {}\n",
        scene.topic()
    );
    assert_eq!(output.stdout, told);
    assert_eq!(scene.consume().await.len(), consumed.len());

    // AND a quote is no way into the statement, and a column that is not there is told with those that are
    let asked = [&window[..], &["--where", "model_id=it's"]].concat();
    let output = scene.headwater.run(&asked);
    assert_eq!(output.code, 0, "{}", output.stderr);
    assert_eq!(scene.consume().await.len(), consumed.len() + 1);
    let asked = [&window[..], &["--where", "colour=red"]].concat();
    let output = scene.headwater.run(&asked);
    assert_eq!(output.code, 2, "{}", output.stderr);
    for word in ["colour", "model_type", "delivered"] {
        assert!(output.stderr.contains(word), "{}", output.stderr);
    }
}

#[tokio::test]
async fn kafka_away_in_the_middle_is_waited_for_on_postgresql() {
    let kafka = Kafka::start(1);
    let scene = Scene::on(Postgres::shared(17), &kafka, "replayaway").await;
    kafka_away(scene).await;
}

#[tokio::test]
async fn kafka_away_in_the_middle_is_waited_for_on_mysql() {
    let kafka = Kafka::start(1);
    let mysql = Mysql::shared(Server::MySql97);
    kafka_away(Scene::binlog(mysql, &kafka, "replayaway").await).await;
}

async fn kafka_away(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a replay under way, slow enough that rows are left when Kafka has not answered for a while
    let written = published(&mut scene).await;
    let paced = [&DAY[..], &["--rate", "80"]].concat();
    let mut replay = scene.spawn(&paced);
    id_of(&mut replay).await;
    replayed(&scene, &replay, 100).await;

    // WHEN Kafka is away, longer than a view is held for it, and comes back
    scene.kafka.kill9(0);
    let given_up = replay.wait_for_log("the broker does not answer", LIMIT);
    assert!(given_up.await, "{}", replay.tail());
    scene.kafka.start_again(0);

    // THEN the replay goes on by itself, and nothing is lost
    succeeds(&mut replay).await;
    let (_, again) = apart(scene.consume().await);
    check(&written, &again).assert_each();
}
