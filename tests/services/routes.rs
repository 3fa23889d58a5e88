//! Several routes: each event reaches every topic that takes it, in order, and a position waits for all of them.

mod addresses;
mod columns;

use std::time::{Duration, Instant};

use headwater_testkit::{
    Committed, Consumed, Kafka, Load, MysqlDatabase, Outbox, Verdict, Written, check, free_port,
    get, long, unique,
};
use tokio::time::sleep;

use crate::scene::{Event, LIMIT, Running, Scene, on_every_binlog};

const KEY: &str = r#"key = "{model_id|action_id}""#;

/// Topics of the test's own, each with a route that takes everything.
async fn three_routes(scene: &mut Scene<'_, impl Outbox>) -> [String; 3] {
    let topics = ["raw", "model", "event"].map(|end| format!("{}.{end}", scene.namespace));
    for topic in &topics {
        scene.kafka.create_topic(topic, 3, 1, &[]).await;
        let route = format!("[[route]]\ntopic = \"{topic}\"\n{KEY}\n");
        scene.pipeline.more.push_str(&route);
    }
    scene.configure();
    topics
}

/// What each topic got.
async fn judged(kafka: &Kafka, topics: &[String], written: &Written) -> Vec<Verdict> {
    let mut verdicts = Vec::new();
    for topic in topics {
        let consumed = kafka.consume_until_complete(&[topic], written, LIMIT).await;
        verdicts.push(check(written, &consumed));
    }
    verdicts
}

#[tokio::test]
async fn killed_under_load_it_loses_and_reorders_nothing_on_any_of_three_topics() {
    // GIVEN three routes and a load that does not pause
    let mut scene = Scene::shared(17, "routes").await;
    let topics = three_routes(&mut scene).await;
    scene.init();
    let load = Load {
        rate: Some(200),
        ..Load::new(&scene.namespace, 8)
    };
    let load = load.start(&scene.database.owner_url());

    // WHEN each run is killed at some moment of its first seconds
    for round in 0..if long() { 20 } else { 6 } {
        let mut run = scene.spawn(&["run"]);
        sleep(Duration::from_millis(300 + 270 * round % 1700)).await;
        assert!(run.is_running(), "it ended before it was killed");
        run.kill9();
    }

    // THEN nothing is lost, reordered or foreign on any topic
    let written = load.stop().await;
    let mut run = scene.start().await;
    judged(scene.kafka, &topics, &written).await;
    run.ask_to_stop().await;
    for verdict in judged(scene.kafka, &topics, &written).await {
        println!("{verdict}");
        verdict.assert_at_least_once();
    }
}

#[tokio::test]
async fn the_acks_of_one_topic_held_back_hold_back_the_position_and_cost_no_memory() {
    // GIVEN three routes, of which one leads to a broker of its own; its positions are on all brokers
    let kafka = Kafka::start(3);
    let database = headwater_testkit::Postgres::shared(17);
    let mut scene = Scene::on(database, &kafka, "held").await;
    scene.pipeline.replication = 3;
    scene.pipeline.sink = "max_in_flight = { messages = 2000 }".into();
    // the tests themselves talk to the first broker
    let base = format!("{}.held", scene.namespace);
    let (held, node) = topic_led(&kafka, &base, |node| node > 0).await;
    let mut topics = vec![held];
    for end in ["a", "b"] {
        let base = format!("{}.{end}", scene.namespace);
        let (topic, _) = topic_led(&kafka, &base, |it| it != node).await;
        topics.push(topic);
    }
    for topic in &topics {
        let route = format!("[[route]]\ntopic = \"{topic}\"\n{KEY}\n");
        scene.pipeline.more.push_str(&route);
    }
    scene.configure();
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(20).await;
    judged(&kafka, &topics, &written).await;
    sleep(Duration::from_secs(1)).await;

    // WHEN that broker stands still, events are committed and another table is busy
    kafka.pause(node);
    let before = scene.database.confirmed_lsn(&scene.pipeline.slot()).await;
    let peak_before = run.peak_rss_kb();
    written.add(scene.commit_events(500).await);
    for _ in 0..10 {
        let busy = "CREATE TABLE IF NOT EXISTS busy (text text); INSERT INTO busy SELECT repeat('x', 200) FROM generate_series(1, 30000)";
        scene.database.execute(busy).await;
        sleep(Duration::from_millis(500)).await;
    }

    // THEN the topics whose brokers answer get all of it meanwhile
    for verdict in judged(&kafka, &topics[1..], &written).await {
        verdict.assert_at_least_once();
    }

    // AND no position passes what was not acked, and memory stays flat
    let after = scene.database.confirmed_lsn(&scene.pipeline.slot()).await;
    assert_eq!(before, after, "a position passed events without acks");
    let grown = run.peak_rss_kb().saturating_sub(peak_before);
    println!("memory grew by {grown} kB");
    assert!(grown < 40 * 1024, "{grown} kB more");

    // AND after a SIGKILL nothing is lost on any topic
    run.kill9();
    kafka.go_on(node);
    let mut run = scene.start().await;
    judged(&kafka, &topics, &written).await;
    run.ask_to_stop().await;
    for verdict in judged(&kafka, &topics, &written).await {
        verdict.assert_at_least_once();
    }
}

/// A topic of one copy that lies on such a broker, and on which.
async fn topic_led(kafka: &Kafka, base: &str, fits: impl Fn(usize) -> bool) -> (String, usize) {
    for number in 0..20 {
        let topic = format!("{base}{number}");
        kafka.create_topic(&topic, 1, 1, &[]).await;
        let node = kafka.leader(&topic).await;
        if fits(node) {
            return (topic, node);
        }
    }
    panic!("no topic lies where it should");
}

#[tokio::test]
async fn a_topic_that_is_made_has_the_partitions_and_copies_that_its_pattern_says() {
    // GIVEN three brokers, and patterns of which the longest counts
    let kafka = Kafka::start(3);
    let database = headwater_testkit::Postgres::shared(17);
    let mut scene = Scene::on(database, &kafka, "made").await;
    let (all, one) = (unique("made"), "made.Wallet");
    scene.pipeline.more = format!(
        r#"[[route]]
topic = "{all}.{one}"
{KEY}
[[route]]
topic = "{all}.plain"
{KEY}
[sink.topics."{all}.*"]
partitions = 2
replication = 3
[sink.topics."{all}.{one}"]
partitions = 5
replication = 2
settings = {{ "retention.ms" = "777000" }}
"#
    );
    scene.configure();
    scene.init();
    let mut run = scene.start().await;

    // WHEN a message goes to each
    let event = Event::new(&scene.namespace, "k", 1);
    scene.database.execute(&scene.insert(&event)).await;
    let (one, plain) = (format!("{all}.{one}"), format!("{all}.plain"));
    for topic in [&one, &plain] {
        messages(&scene, topic, 1).await;
    }
    run.ask_to_stop().await;

    // THEN the brokers have made them so
    assert_eq!(kafka.replication(&one).await, [2; 5]);
    assert_eq!(kafka.topic_config(&one).await["retention.ms"], "777000");
    assert_eq!(kafka.replication(&plain).await, [3; 2]);
}

/// Six rows, of which some are to be skipped; each kind of rule meets its row.
fn cast(scene: &Scene<'_, impl Outbox>) -> Vec<Event> {
    (1..=6)
        .map(|seq| Event::new(&scene.namespace, "k", seq))
        .collect()
}

async fn insert_cast(scene: &Scene<'_, impl Outbox>, events: &[Event]) {
    let changes: [&[(&str, &str)]; 6] = [
        &[],
        &[("event_type", "'AuditLogged'")],
        &[("event_type", "'AuditRead'"), ("model_type", "NULL")],
        &[("payload", r#"'{"seq": 4, "tier": "test"}'"#)],
        &[("model_type", "'Order'")],
        &[],
    ];
    let rows = events.iter().zip(changes);
    let rows: Vec<String> = rows
        .map(|(event, with)| scene.insert_with(event, with))
        .collect();
    scene.database.execute_each(&rows).await;
}

fn only(events: &[Event], numbers: &[usize]) -> Written {
    Written {
        committed: numbers
            .iter()
            .map(|n| events[n - 1].committed())
            .collect::<Vec<Committed>>(),
        ..Written::default()
    }
}

async fn filtered(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN rules that skip a prefix of types, a path into the payload, and all but two model types
    scene.pipeline.more = r#"[filter]
skip = [{ event_type = ["Audit*"] }, { payload.tier = "test", namespace = "*" }]
only = [{ model_type = ["Wallet", "Nobody"] }]
"#
    .into();
    let port = free_port();
    scene.pipeline.admin = format!("listen = \"127.0.0.1:{port}\"");
    scene.configure();
    scene.init();
    let run = scene.start().await;

    // WHEN rows come that each of them meets
    let events = cast(&scene);
    insert_cast(&scene, &events).await;

    // THEN the others arrive, and each rule is counted
    let written = only(&events, &[1, 6]);
    scene.judge(&written).await;
    for (rule, count) in [("skip[1]", 2.0), ("skip[2]", 1.0), ("only", 1.0)] {
        let name = format!("headwater_filtered_total{{rule=\"{rule}\"}}");
        let counted = || get(port, "/metrics").unwrap().metric(&name);
        let end = Instant::now() + LIMIT;
        while counted() != Some(count) && Instant::now() < end {
            sleep(Duration::from_millis(100)).await;
        }
        assert_eq!(counted(), Some(count), "{name}");
    }
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    let output = scene.headwater.run(&["check"]);
    for told in [
        "filter skip[1] would skip 2 of them",
        "filter skip[2] would skip 1 of them",
        "filter only would skip 1 of them",
    ] {
        assert!(output.stdout.contains(told), "{told}: {}", output.stdout);
    }
}

#[tokio::test]
async fn a_filter_skips_what_its_rules_say_and_counts_it() {
    filtered(Scene::shared(17, "filter").await).await;
}

on_every_binlog!(a_filter_skips_what_its_rules_say: "filter", shared server, shared kafka);

async fn a_filter_skips_what_its_rules_say(scene: Scene<'_, MysqlDatabase<'_>>) {
    filtered(scene).await;
}

async fn unrouted(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN a route that takes some model types, and no other
    let route = format!(
        "[[route]]\ntopic = \"ekbatan.{{namespace}}\"\n{KEY}\nwhere = {{ model_type = [\"Wal*\"] }}\n"
    );
    scene.pipeline.more.clone_from(&route);
    scene.configure();
    scene.init();
    let mut run = scene.start().await;

    // WHEN an event comes that it does not take
    let events = cast(&scene);
    insert_cast(&scene, &events).await;

    // THEN the run ends there, naming what nobody takes
    assert_eq!(run.ended_within(LIMIT).await, 3);
    let says = run.tail();
    let told = "unroutable: no route takes an event of type AuditRead";
    assert!(says.contains(told), "{says}");

    // AND with unrouted = "skip" it goes on without such events
    let toml = scene.pipeline.toml();
    scene
        .headwater
        .configure(&format!("unrouted = \"skip\"\n{toml}"));
    let run = scene.start().await;
    let written = only(&events, &[1, 2, 4, 6]);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn an_event_that_no_route_takes_stops_the_run_or_is_skipped() {
    unrouted(Scene::shared(17, "unrouted").await).await;
}

on_every_binlog!(an_event_that_no_route_takes: "unrouted", shared server, shared kafka);

async fn an_event_that_no_route_takes(scene: Scene<'_, MysqlDatabase<'_>>) {
    unrouted(scene).await;
}

/// Waits for so many messages on a topic.
async fn messages(scene: &Scene<'_, impl Outbox>, topic: &str, count: usize) -> Vec<Consumed> {
    let end = Instant::now() + LIMIT;
    loop {
        let seen = scene.kafka.consume_all(&[topic]).await;
        if seen.len() >= count || Instant::now() > end {
            assert_eq!(seen.len(), count, "messages on {topic}");
            return seen;
        }
        sleep(Duration::from_millis(100)).await;
    }
}

/// A run of a pipeline with these routes.
async fn carrying(scene: &mut Scene<'_, impl Outbox>, routes: &str) -> Running {
    routes.clone_into(&mut scene.pipeline.more);
    scene.configure();
    scene.init();
    scene.start().await
}

fn text(bytes: Option<&[u8]>) -> String {
    String::from_utf8_lossy(bytes.unwrap_or_default()).into_owned()
}

/// A topic's name of the test's own.
fn topic() -> String {
    unique("topic")
}
