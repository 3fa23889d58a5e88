//! What becomes of rows that cannot be published: each kind of failure, made for real, with each policy.

mod hold;
mod kinds;
mod rights;

use std::time::Duration;

use headwater_testkit::{Consumed, Kafka, Outbox, Postgres, Written};
use serde_json::Value;
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Running, STOP_LIMIT, Scene, on_every_binlog};

/// The package that the event type is looked for in: a payload whose `seq` is no number does not fit.
const SCHEMA: &str = "changed.avsc";

/// A pipeline that writes Avro and has these lines in `[failure]`.
fn failing<D: Outbox>(scene: &mut Scene<'_, D>, failure: &str) {
    scene.pipeline.encode = format!("format = \"avro\"\nschemas = [\"{SCHEMA}\"]");
    scene.pipeline.more.push_str("[failure]\n");
    scene.pipeline.more.push_str(failure);
    scene.configure();
    put_schema(scene, "long");
}

fn put_schema<D: Outbox>(scene: &Scene<'_, D>, seq: &str) {
    let schema = format!(
        r#"{{"type": "record", "name": "WalletChangedEvent", "namespace": "{}.avro",
            "fields": [{{"name": "seq", "type": "{seq}"}}]}}"#,
        scene.namespace
    );
    std::fs::write(scene.headwater.folder().join(SCHEMA), schema).unwrap();
}

/// A pipeline that writes JSON, of which everything can be judged.
fn failing_json<D: Outbox>(scene: &mut Scene<'_, D>, failure: &str) {
    failing(scene, failure);
    scene.pipeline.encode = "format = \"json\"".into();
    scene.configure();
}

fn letters_topic<D: Outbox>(scene: &Scene<'_, D>) -> String {
    format!("{}.dead-letter", scene.pipeline.name)
}

fn header<'m>(message: &'m Consumed, name: &str) -> &'m str {
    let found = message.headers.iter().find(|(key, _)| key == name);
    let value = found.and_then(|(_, value)| value.as_deref());
    std::str::from_utf8(value.unwrap_or_default()).unwrap()
}

fn columns(letter: &Consumed) -> Value {
    let value = letter.value.as_deref().expect("a value");
    serde_json::from_slice(value).expect("JSON")
}

async fn letters<D: Outbox>(scene: &Scene<'_, D>, count: u64) -> Vec<Consumed> {
    let topic = letters_topic(scene);
    assert!(
        scene.kafka.wait_for_messages(&topic, count, LIMIT).await,
        "no {count} letters"
    );
    scene.kafka.consume_all(&[&topic]).await
}

/// How many messages are on the scene's topic, once there are so many.
async fn published<D: Outbox>(scene: &Scene<'_, D>, count: u64) {
    let topic = scene.topic();
    assert!(
        scene.kafka.wait_for_messages(topic, count, LIMIT).await,
        "no {count} messages"
    );
}

fn numbered(namespace: &str, seqs: std::ops::RangeInclusive<i64>) -> Vec<Event> {
    seqs.map(|seq| Event::new(namespace, "k", seq)).collect()
}

fn written(events: &[Event]) -> Written {
    Written {
        committed: events.iter().map(Event::committed).collect(),
        ..Written::default()
    }
}

const NO_TYPE: (&str, &str) = ("event_type", "'Nobody'");
const NO_NUMBER: (&str, &str) = ("payload", "'{\"seq\": \"two\"}'");

#[tokio::test]
async fn rows_that_do_not_fit_become_letters_and_the_others_go_on() {
    letters_for_rows(Scene::shared(17, "letters").await).await;
}

on_every_binlog!(letters_for_rows: "letters", shared server, shared kafka);

async fn letters_for_rows<D: Outbox>(mut scene: Scene<'_, D>) {
    // GIVEN a pipeline that makes dead letters
    failing(&mut scene, "policy = \"dead-letter\"");
    scene.init();
    let mut run = scene.start().await;
    // WHEN two rows among ten do not fit
    let all = numbered(&scene.namespace, 1..=10);
    let statements = all.iter().map(|event| match event.seq {
        3 => scene.insert_with(event, &[NO_TYPE]),
        7 => scene.insert_with(event, &[NO_NUMBER]),
        _ => scene.insert(event),
    });
    let statements: Vec<String> = statements.collect();
    scene.database.execute_each(&statements).await;
    // THEN the others arrive, and these two whole and with the reason
    let letters = letters(&scene, 2).await;
    published(&scene, 8).await;
    run.ask_to_stop().await;
    assert_eq!((letters.len(), scene.consume().await.len()), (2, 8));
    for (letter, seq, kind, says) in [
        (&letters[0], 3, "unknown_type", "Nobody"),
        (&letters[1], 7, "bad_payload", "seq"),
    ] {
        let event = all.iter().find(|event| event.seq == seq).unwrap();
        assert_eq!(header(letter, "headwater-kind"), kind);
        assert_eq!(header(letter, "headwater-event-id"), event.id.to_string());
        assert_eq!(
            header(letter, "headwater-dead-letter"),
            format!("{}/1", event.id)
        );
        assert_eq!(header(letter, "headwater-topic"), scene.topic());
        assert!(
            header(letter, "headwater-error").contains(says),
            "{letter:?}"
        );
        assert_eq!(letter.key.as_deref(), Some(&b"k"[..]));
        assert_eq!(columns(letter)["columns"]["id"], event.id.to_string());
        assert!(!header(letter, "headwater-position").is_empty());
    }
    // and the next start brings nothing again
    let mut run = scene.start().await;
    scene
        .database
        .execute(&scene.insert(&Event::new(&scene.namespace, "k", 11)))
        .await;
    published(&scene, 9).await;
    run.ask_to_stop().await;
    let count = scene.kafka.message_count(&letters_topic(&scene)).await;
    assert_eq!((count, scene.consume().await.len()), (2, 9));
}

#[tokio::test]
async fn each_kind_has_its_own_policy() {
    kinds_are_told_apart(Scene::shared(17, "by_kind").await).await;
}

on_every_binlog!(kinds_are_told_apart: "by_kind", shared server, shared kafka);

async fn kinds_are_told_apart<D: Outbox>(mut scene: Scene<'_, D>) {
    // GIVEN a pipeline that makes letters of one kind only
    failing(&mut scene, "by_kind = { bad_payload = \"dead-letter\" }");
    scene.init();
    let mut run = scene.start().await;
    // WHEN a row of that kind and one of another are committed
    let [misfit, good, stranger] = [1, 2, 3].map(|seq| Event::new(&scene.namespace, "k", seq));
    let statements = [
        scene.insert_with(&misfit, &[NO_NUMBER]),
        scene.insert(&good),
        scene.insert_with(&stranger, &[NO_TYPE]),
    ];
    scene.database.execute_each(&statements).await;
    // THEN the first is a letter, and the other stops the run and every further one
    assert_eq!(run.ended_within(LIMIT).await, 3);
    assert!(run.log().contains(&stranger.id.to_string()));
    let mut again = scene.spawn(&["run"]);
    assert_eq!(again.ended_within(LIMIT).await, 3);
    let letters = letters(&scene, 1).await;
    assert_eq!((letters.len(), scene.consume().await.len()), (1, 1));
    // WHEN its kind is to be made a letter too, THEN the run goes on behind it
    scene.pipeline.more.push_str("\npolicy = \"dead-letter\"");
    scene.configure();
    let mut run = scene.start().await;
    self::letters(&scene, 2).await;
    run.ask_to_stop().await;
}

/// Not to be compressed, and larger than any message may be.
const NOISE: &str =
    "(SELECT jsonb_build_object('seq', 26, 'noise', string_agg(md5(random()::text), ''))
    FROM generate_series(1, 65000))";

#[tokio::test]
async fn of_a_large_message_among_small_ones_a_cut_letter_is_made_and_all_others_arrive() {
    for properties in ["", "properties = { \"message.max.bytes\" = \"5000000\" }"] {
        // GIVEN a topic that takes 1 MB
        let mut scene = Scene::shared(17, "too_large").await;
        scene.pipeline.sink.push_str(properties);
        failing_json(&mut scene, "policy = \"dead-letter\"");
        scene.init();
        let run = scene.start().await;
        // WHEN a row of 2 MB is committed among small ones of its key
        let all = numbered(&scene.namespace, 1..=50);
        let insert = |event: &Event| match event.seq {
            26 => scene.insert_with(event, &[("payload", NOISE)]),
            _ => scene.insert(event),
        };
        let transaction: String = all.iter().map(insert).collect();
        scene
            .database
            .execute(&format!("BEGIN; {transaction} COMMIT"))
            .await;
        // THEN all others arrive once and in order
        let others: Vec<Event> = all.iter().filter(|it| it.seq != 26).cloned().collect();
        let verdict = scene.stop_and_judge(run, &written(&others)).await;
        verdict.assert_exactly_once();
        // and of that one the letter, whose payload is cut and said to be
        let letters = letters(&scene, 1).await;
        assert_eq!(letters.len(), 1);
        assert_eq!(
            header(&letters[0], "headwater-event-id"),
            all[25].id.to_string()
        );
        assert_eq!(header(&letters[0], "headwater-kind"), "too_large");
        assert_eq!(header(&letters[0], "headwater-out-of-order"), "");
        let value = columns(&letters[0]);
        assert_eq!(value["cut"], serde_json::json!(["payload"]));
        assert!(
            letters[0].value.as_ref().unwrap().len() > 100_000,
            "more was cut than needed"
        );
    }
}

#[tokio::test]
async fn when_a_topic_takes_less_than_before_only_the_large_message_becomes_a_letter() {
    // GIVEN a pipeline that knows its topic
    let mut scene = Scene::shared(17, "lowered").await;
    failing_json(&mut scene, "policy = \"dead-letter\"");
    scene.init();
    let run = scene.start().await;
    let mut all = numbered(&scene.namespace, 1..=1);
    scene.database.execute(&scene.insert(&all[0])).await;
    published(&scene, 1).await;
    // WHEN the topic's limit is lowered, and a larger message comes in a burst of small ones
    let topic = scene.topic().to_owned();
    scene
        .kafka
        .set_topic(&topic, &[("max.message.bytes", "20000")])
        .await;
    all.extend(numbered(&scene.namespace, 2..=1000));
    let large = NOISE.replace("65000", "2000").replace("26", "500");
    let insert = |event: &Event| match event.seq {
        500 => scene.insert_with(event, &[("payload", &large)]),
        _ => scene.insert(event),
    };
    let transaction: String = all[1..].iter().map(insert).collect();
    scene
        .database
        .execute(&format!("BEGIN; {transaction} COMMIT"))
        .await;
    // THEN the small ones arrive, none of them as a letter
    let others: Vec<Event> = all.iter().filter(|it| it.seq != 500).cloned().collect();
    let verdict = scene.stop_and_judge(run, &written(&others)).await;
    verdict.assert_at_least_once();
    for letter in letters(&scene, 1).await {
        assert_eq!(
            header(&letter, "headwater-event-id"),
            all[499].id.to_string()
        );
    }
}

#[tokio::test]
async fn an_illegal_name_becomes_a_letter() {
    // GIVEN a route whose topics are the event types
    let mut scene = Scene::shared(17, "illegal").await;
    failing_json(&mut scene, "policy = \"dead-letter\"");
    let topic = scene.topic().to_owned();
    let route = format!("\n[[route]]\ntopic = \"{topic}{{model_type}}\"\n");
    scene.pipeline.more.push_str(&route);
    scene.configure();
    scene
        .kafka
        .create_topic(&format!("{topic}Wallet"), 1, 1, &[])
        .await;
    scene.init();
    let mut run = scene.start().await;
    // WHEN one of them is no name for a topic
    let [good, odd, other] = [1, 2, 3].map(|seq| Event::new(&scene.namespace, "k", seq));
    let statements = [
        scene.insert(&good),
        scene.insert_with(&odd, &[("model_type", "'no topic'")]),
        scene.insert(&other),
    ];
    scene.database.execute_each(&statements).await;
    // THEN that one is a letter
    let letters = letters(&scene, 1).await;
    assert_eq!(header(&letters[0], "headwater-kind"), "unroutable");
    assert_eq!(
        header(&letters[0], "headwater-event-id"),
        odd.id.to_string()
    );
    let wallet = format!("{topic}Wallet");
    assert!(scene.kafka.wait_for_messages(&wallet, 2, LIMIT).await);
    run.ask_to_stop().await;
}

#[tokio::test]
async fn ten_thousand_odd_rows_cost_no_memory_and_hold_up_no_other() {
    const ODD: i64 = 10_000;
    // GIVEN a pipeline whose bound is small
    let mut scene = Scene::shared(17, "burst").await;
    scene
        .pipeline
        .sink
        .push_str("max_in_flight = { messages = 1000, bytes = \"2MiB\" }");
    scene.pipeline.log_level = "error".into();
    failing(&mut scene, "policy = \"dead-letter\"");
    scene.init();
    let mut run = scene.spawn(&["run"]);
    scene
        .database
        .execute(&scene.insert(&Event::new(&scene.namespace, "k", 1)))
        .await;
    published(&scene, 1).await;
    let before = run.peak_rss_kb();
    // WHEN ten thousand rows in one transaction do not fit, each of 5 KB, and one behind them does
    let odd = format!(
        "INSERT INTO eventlog.events (id, namespace, action_id, action_name, action_params,
            started_date, completion_date, model_id, model_type, event_type, payload, event_date, delivered)
        SELECT gen_random_uuid(), namespace, action_id, action_name, action_params,
            started_date, completion_date, model_id, model_type, event_type,
            jsonb_build_object('seq', repeat('x', 5000)), event_date, delivered
        FROM eventlog.events, generate_series(1, {ODD}) WHERE namespace = '{}'",
        scene.namespace
    );
    scene.database.execute(&odd).await;
    scene
        .database
        .execute(&scene.insert(&Event::new(&scene.namespace, "k", 2)))
        .await;
    // THEN it arrives, and so do ten thousand letters
    published(&scene, 2).await;
    let topic = letters_topic(&scene);
    assert!(scene.kafka.wait_for_messages(&topic, 10_000, LIMIT).await);
    let grown = run.peak_rss_kb() - before;
    assert!(grown < 40_000, "{grown} KB more");
    run.ask_to_stop().await;
    assert_eq!(scene.kafka.message_count(&topic).await, 10_000);
}

#[tokio::test]
async fn nothing_is_confirmed_before_the_letter_is_safe() {
    // GIVEN a pipeline at work, and Kafka that falls silent
    let kafka = Kafka::start(1);
    let mut scene = Scene::on(Postgres::shared(17), &kafka, "unacked").await;
    failing_json(&mut scene, "policy = \"dead-letter\"");
    kafka.create_topic(&letters_topic(&scene), 1, 1, &[]).await;
    scene.init();
    let mut run = scene.start().await;
    let slot = scene.pipeline.slot();
    let good = Event::new(&scene.namespace, "k", 1);
    scene.database.execute(&scene.insert(&good)).await;
    published(&scene, 1).await;
    kafka.pause(0);
    // WHEN a row that does not fit is committed
    let odd = Event::new(&scene.namespace, "k", 2);
    let unfit = scene.insert_with(&odd, &[("payload", "'[]'")]);
    scene.database.execute(&unfit).await;
    let committed = scene.database.wal_lsn().await;
    assert!(run.wait_for_log("a row becomes a dead letter", LIMIT).await);
    sleep(Duration::from_secs(3)).await;
    // THEN it is not confirmed, and after a kill it comes again
    assert!(scene.database.confirmed_lsn(&slot).await < Some(committed));
    run.kill9();
    kafka.go_on(0);
    let mut run = scene.start().await;
    for letter in letters(&scene, 1).await {
        assert_eq!(header(&letter, "headwater-event-id"), odd.id.to_string());
    }
    assert!(scene.database.wait_confirmed(&slot, committed, LIMIT).await);
    run.ask_to_stop().await;
}

#[tokio::test]
async fn a_letter_that_is_refused_for_good_stops_the_run() {
    // GIVEN topics that are not created, and none for dead letters
    let mut scene = Scene::shared(17, "no_letters").await;
    scene.pipeline.sink.push_str("create_topics = false");
    failing_json(&mut scene, "policy = \"dead-letter\"");
    scene.init();
    let mut run = scene.start().await;
    // WHEN a row does not fit
    let [odd, good] = [1, 2].map(|seq| Event::new(&scene.namespace, "k", seq));
    let statements = [
        scene.insert_with(&odd, &[("payload", "'[]'")]),
        scene.insert(&good),
    ];
    scene.database.execute_each(&statements).await;
    // THEN each start ends with code 3, and says why
    for _ in 0..2 {
        assert_eq!(run.ended_within(LIMIT).await, 3);
        let log = run.log();
        assert!(log.contains("its dead letter for topic"), "{}", run.tail());
        assert!(log.contains("does not exist"), "{}", run.tail());
        run = scene.start().await;
    }
    // WHEN there is one, THEN all goes on
    let _ = run.ended_within(LIMIT).await;
    scene
        .kafka
        .create_topic(&letters_topic(&scene), 1, 1, &[])
        .await;
    let mut run = scene.start().await;
    letters(&scene, 1).await;
    published(&scene, 1).await;
    run.ask_to_stop().await;
}

/// The pipeline stops as it should, or ends with code 3 when a row is still there.
async fn ends_with(run: &mut Running, code: i32) {
    run.term();
    assert_eq!(run.ended_within(STOP_LIMIT).await, code, "{}", run.tail());
}
