//! An audit that ends before its end: what it has compared is told, and what is left is compared by another one.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Outbox, Postgres, Proxy, free_port};
use serde_json::Value;
use tokio::time::sleep;

use crate::scene::{LIMIT, Running, Scene};

/// Rows that are published, and as many that are not.
const HALF: u32 = 5_000;
/// Of each row: all of them are more than the sockets between the table and an audit hold.
const BYTES: usize = 5_000;
const AUDIT: [&str; 5] = ["audit", "--format", "json", "--to", "2200-01-01"];
const COUNTS: [&str; 6] = [
    "rows",
    "there",
    "missing",
    "doubled",
    "foreign",
    "not_comparable",
];

#[tokio::test]
async fn stopped_or_cut_off_it_tells_where_another_one_goes_on_and_the_sums_agree() {
    // GIVEN many events, each of its own date; of half of them nobody knows but the table
    let network = Proxy::start(Postgres::shared(17).port());
    let (scene, whole, took) = half_published(&network).await;

    // WHEN an audit that the database keeps waiting is asked to stop, THEN it does so, and says how to go on
    let stopped = broken_off(&scene, &network, took, async |audit| audit.term()).await;
    assert_eq!(stopped.code, 3, "{}", stopped.log);

    // AND what the two have found is what there is
    assert_eq!(
        sums(&stopped.account, &gone_on(&scene, &stopped)),
        counts(&whole)
    );

    // WHEN it loses its connection, THEN that is no end that somebody wanted, and it says how to go on as well
    let lost = broken_off(&scene, &network, took, async |audit| {
        // AND it has told by then what it has read of the topics
        let read = "reading what is on the topics messages=";
        assert!(audit.wait_for_log(read, LIMIT).await, "{}", audit.tail());
        network.cut();
    });
    let lost = lost.await;
    assert_eq!(lost.code, 1, "{}", lost.log);
    assert_eq!(sums(&lost.account, &gone_on(&scene, &lost)), counts(&whole));
}

/// With what an audit of all says, and how long it takes.
async fn half_published(network: &Proxy) -> (Scene<'static>, Value, Duration) {
    let mut scene = Scene::shared(17, "halves").await;
    scene.pipeline.source_url = scene.database.url_through(network.port());
    scene.pipeline.more = format!("[[route]]\ntopic = \"{}\"\n", scene.topic());
    scene.pipeline.snapshot = "only".into();
    scene.configure();
    for published in [true, false] {
        scene
            .database
            .bulk_rows(&scene.namespace, HALF, BYTES)
            .await;
        scene.database.execute(DATES).await;
        if published {
            scene.init();
            let mut run = scene.spawn(&["run"]);
            assert_eq!(run.ended_within(LIMIT).await, 0, "{}", run.tail());
        }
    }
    let begun = Instant::now();
    let output = scene.headwater.run(&AUDIT);
    assert_eq!(output.code, 3, "{}", output.stderr);
    let whole: Value = serde_json::from_str(&output.stdout).unwrap();
    assert_eq!(whole["missing"], HALF, "{whole}");
    assert_eq!(whole["there"], HALF, "{whole}");
    (scene, whole, begun.elapsed())
}

/// The published ones among the others.
const DATES: &str = "UPDATE eventlog.events SET event_date = timestamp '2024-02-29' + \
    ('x' || substr(id::text, 1, 8))::bit(32)::bigint * interval '1 microsecond' WHERE event_date > '2025-01-01'";

struct BrokenOff {
    code: i32,
    account: Value,
    log: String,
}

/// An audit that is ended so in the middle of the table, where the database says nothing more.
async fn broken_off(
    scene: &Scene<'_>,
    network: &Proxy,
    took: Duration,
    end: impl AsyncFn(&mut Running),
) -> BrokenOff {
    // The middle is looked for: between what was too soon and what was too late.
    let (mut soon, mut late) = (Duration::ZERO, took * 2);
    for _ in 0..12 {
        let moment = (soon + late) / 2;
        let mut audit = scene.spawn(&AUDIT);
        sleep(moment).await;
        network.stop_forwarding();
        sleep(Duration::from_millis(200)).await;
        let is_running = audit.is_running();
        if is_running {
            end(&mut audit).await;
        }
        network.forward_again();
        let code = audit.ended_within(LIMIT).await;
        let account = serde_json::from_str::<Value>(&audit.stdout()).unwrap_or_default();
        match account["rows"].as_u64().unwrap_or(0) {
            0 => soon = moment,
            rows if is_running && rows < u64::from(2 * HALF) => {
                let log = audit.log();
                return BrokenOff { code, account, log };
            }
            _ => late = moment,
        }
    }
    panic!("it was never in the middle of the table");
}

/// What the audit says that the hint of another one names.
fn gone_on(scene: &Scene<'_>, broken_off: &BrokenOff) -> Value {
    let at = broken_off.account["stopped_at"].as_str().expect("a moment");
    let hint = format!("headwater audit --from {at} --to 2200-01-01");
    assert!(broken_off.log.contains(&hint), "{}", broken_off.log);
    let output = scene.headwater.run(&[&AUDIT[..], &["--from", at]].concat());
    serde_json::from_str(&output.stdout).expect(&output.stderr)
}

fn counts(account: &Value) -> [u64; 6] {
    COUNTS.map(|name| account[name].as_u64().unwrap())
}

fn sums(one: &Value, other: &Value) -> [u64; 6] {
    COUNTS.map(|name| one[name].as_u64().unwrap() + other[name].as_u64().unwrap())
}

#[tokio::test]
async fn while_kafka_is_away_it_can_be_stopped() {
    // GIVEN a Kafka that is away
    let mut scene = Scene::on(Postgres::shared(17), Kafka::shared(), "audaway").await;
    scene.pipeline.brokers = format!("127.0.0.1:{}", free_port());
    scene.configure();
    for interrupt in [false, true] {
        // WHEN an audit that waits for it is asked to stop
        let mut audit = scene.spawn(&["audit"]);
        let waits = audit.wait_for_log("waiting for Kafka", LIMIT).await;
        assert!(waits, "{}", audit.tail());
        if interrupt {
            audit.interrupt();
        } else {
            audit.term();
        }

        // THEN it ends soon, and does not say that all is well
        let code = audit.ended_within(Duration::from_secs(5)).await;
        assert_eq!(code, 3, "{}", audit.tail());
        assert!(audit.log().contains("stopped before"), "{}", audit.tail());
    }
}
