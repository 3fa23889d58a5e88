//! How far a snapshot has come is told: in the log, in the metrics, on the screen; and so is what comes twice after a kill.

#![allow(
    clippy::float_cmp,
    reason = "metrics are floats, and counts among them exact"
)]

use std::time::{Duration, Instant};

use headwater_testkit::{Outbox, free_port, get};
use serde_json::Value;
use tokio::time::sleep;

use super::kept::SLOWLY;
use super::{COMPLETE, PATIENCE, with_snapshot};
use crate::scene::{LIMIT, Scene};

const ROWS: u32 = 700;
const TOLD: &str = "publishing the rows that were there before progress=";

#[tokio::test]
async fn how_far_it_has_come_and_what_comes_twice_is_told() {
    // GIVEN a snapshot that takes its time
    let mut scene = Scene::shared(17, "shown").await;
    let port = free_port();
    scene.pipeline.admin = format!("listen = \"127.0.0.1:{port}\"");
    let fast = scene.pipeline.sink.clone();
    scene.pipeline.sink.push_str(SLOWLY);
    let mut scene = with_snapshot(scene, "initial");
    let mut written = scene.database.bulk_rows(&scene.namespace, ROWS, 100).await;
    scene.init();
    let mut run = scene.start().await;

    // WHEN ten seconds are over, THEN the log says how many rows there were, how fast, and how long it will take
    assert!(run.wait_for_log(TOLD, LIMIT).await, "{}", run.tail());
    let log = run.log();
    let (_, told) = log.split_once(TOLD).unwrap();
    let told = told.lines().next().unwrap();
    for word in [
        &*format!("of about {ROWS} rows, "),
        " rows/s, about ",
        " s left",
    ] {
        assert!(told.contains(word), "{told}");
    }

    // AND so do the metrics
    let page = get(port, "/metrics").unwrap();
    let metric = |name: &str| page.metric(&format!("headwater_snapshot_{name}"));
    let rows = metric("rows").unwrap();
    assert!(rows >= 1.0 && rows < f64::from(ROWS), "{rows}");
    assert_eq!(metric("rows_expected"), Some(f64::from(ROWS)));
    assert!(metric("rows_per_second").unwrap() >= 1.0);
    assert!(metric("seconds_left").unwrap() < 600.0);
    assert_eq!(metric("again_total"), Some(0.0));

    // AND the screen, for people and for programs
    let screen = scene.headwater.run(&["status"]).stdout;
    let publishes = "it publishes the rows that were there before: ";
    assert!(screen.contains(publishes), "{screen}");
    assert!(
        screen.contains(&format!("of about {ROWS} rows")),
        "{screen}"
    );
    assert!(screen.contains(" s left"), "{screen}");
    let json = scene.headwater.run(&["status", "--format", "json"]).stdout;
    let json: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["snapshot"]["expected"], ROWS, "{json}");
    assert!(
        json["snapshot"]["rows_per_second"].as_u64() > Some(0),
        "{json}"
    );
    assert!(json["snapshot"]["seconds_left"].is_u64(), "{json}");

    // WHEN it is killed, and goes on when more rows are there
    run.kill9();
    written.add(scene.commit_events(10).await);
    scene.pipeline.sink = fast;
    scene.configure();
    let mut run = scene.start().await;
    assert!(run.wait_for_log(COMPLETE, PATIENCE).await, "{}", run.tail());

    // THEN those are told that the log brings once more, and nothing is lost
    let log = run.log();
    let complete = log.lines().find(|line| line.contains(COMPLETE)).unwrap();
    assert!(complete.ends_with("again=10"), "{complete}");
    scene.judge(&written).await;
    let metric = |name: &str| get(port, "/metrics")?.metric(&format!("headwater_snapshot_{name}"));
    let end = Instant::now() + LIMIT;
    while metric("again_total") != Some(10.0) {
        assert!(Instant::now() < end, "{:?}", metric("again_total"));
        sleep(Duration::from_millis(50)).await;
    }
    assert_eq!(metric("rows"), None);
    scene.stop_and_judge(run, &written).await.assert_each();
}
