//! What the admin pages tell while servers come and go is true.

#![allow(
    clippy::float_cmp,
    reason = "metrics are floats, and counts among them exact"
)]

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Outbox, Page, Postgres, bulk_rows, free_port, get};
use tokio::time::sleep;

use crate::scene::{LIMIT, Scene, headwater};

const PUBLISHED: &str = "headwater_published_total";
const IN_FLIGHT: &str = "headwater_in_flight_messages";
const LAG: &str = "headwater_lag_seconds";
const DATABASE_AWAY: &str = "headwater_reconnects_total{cause=\"source\"}";
const BROKER_AWAY: &str = "headwater_reconnects_total{cause=\"unanswered\"}";

/// The pages of one process.
struct Admin(u16);

impl Admin {
    /// At a port of its own.
    fn of(scene: &mut Scene<'_>) -> Admin {
        let port = free_port();
        scene.pipeline.admin = listen(port);
        scene.configure();
        Admin(port)
    }

    fn page(&self, path: &str) -> Page {
        get(self.0, path).unwrap_or_else(|| panic!("nobody answers {path}"))
    }

    fn metric(&self, name: &str) -> f64 {
        let page = self.page("/metrics");
        let value = page.metric(name);
        value.unwrap_or_else(|| panic!("no {name}:\n{}", page.text))
    }

    /// Waits until `/ready` says so, and gives what it said.
    async fn ready(&self, code: u16) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            if let Some(page) = get(self.0, "/ready")
                && page.code == code
            {
                return page.text;
            }
            assert!(Instant::now() < end, "/ready is never {code}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Waits until it is not ready, and says so in these words.
    async fn unready(&self, words: &str) -> String {
        let end = Instant::now() + LIMIT;
        loop {
            let why = self.ready(503).await;
            if why.contains(words) {
                return why;
            }
            assert!(Instant::now() < end, "never {words:?}: {why}");
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn until(&self, name: &str, holds: impl Fn(f64) -> bool) {
        let end = Instant::now() + LIMIT;
        while !get(self.0, "/metrics")
            .and_then(|page| page.metric(name))
            .is_some_and(&holds)
        {
            assert!(Instant::now() < end, "{name}: {:?}", self.page("/metrics"));
            sleep(Duration::from_millis(100)).await;
        }
    }
}

fn listen(port: u16) -> String {
    format!("listen = \"127.0.0.1:{port}\"")
}

#[tokio::test]
async fn a_broker_outage_is_told_truthfully() {
    // GIVEN a pipeline at work, and what it tells
    let kafka = Kafka::start(1);
    let mut scene = Scene::on(Postgres::shared(17), &kafka, "admin_kafka").await;
    let admin = Admin::of(&mut scene);
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(100).await;
    admin.until(PUBLISHED, |count| count >= 100.0).await;
    admin.until(LAG, |lag| lag == 0.0).await;
    admin.ready(200).await;
    assert_eq!(admin.metric("headwater_rows_total"), 100.0);
    assert_eq!(admin.metric("headwater_delivery_seconds_count"), 100.0);
    assert_eq!(admin.metric(IN_FLIGHT), 0.0);
    admin
        .until("headwater_lag_bytes", |bytes| bytes < 1e6)
        .await;
    assert_eq!(scene.headwater.run(&["status"]).code, 0);

    // WHEN Kafka is killed, and events are committed
    kafka.kill9(0);
    written.add(scene.database.bulk_rows(&scene.namespace, 50, 100).await);

    // THEN it is not ready, and says what it waits for and what is in flight
    admin.unready("waits for the broker").await;
    assert_eq!(admin.page("/health").code, 200);
    admin.until(IN_FLIGHT, |count| count == 50.0).await;
    assert!(admin.metric("headwater_in_flight_bytes") > 0.0);
    admin
        .until("headwater_client_queue", |count| count >= 50.0)
        .await;
    assert_eq!(admin.metric(PUBLISHED), 100.0);
    let why = admin.unready("given up").await;
    assert!(why.contains("50 messages"), "{why}");
    admin.until(LAG, |lag| lag > 11.0).await;
    assert_eq!(admin.metric(IN_FLIGHT), 50.0);
    let status = scene.headwater.run(&["status"]);
    assert_eq!(status.code, 3, "{}", status.stderr);
    assert!(
        status.stdout.contains("NOT DELIVERING"),
        "{}",
        status.stdout
    );

    // AND when Kafka comes back, all is as it was, and the outage was counted
    kafka.start_again(0);
    admin.ready(200).await;
    admin.until(IN_FLIGHT, |count| count == 0.0).await;
    admin.until(LAG, |lag| lag == 0.0).await;
    assert_eq!(admin.metric(PUBLISHED), 150.0);
    assert_eq!(admin.metric(BROKER_AWAY), 1.0);
    assert_eq!(admin.metric(DATABASE_AWAY), 0.0);
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;
}

#[tokio::test]
async fn a_database_restart_is_told_truthfully() {
    // GIVEN a pipeline at work
    let postgres = Postgres::start(17, &[]);
    let mut scene = Scene::on(&postgres, Kafka::shared(), "admin_db").await;
    let admin = Admin::of(&mut scene);
    scene.init();
    let mut run = scene.start().await;
    scene.commit_events(20).await;
    admin.until(PUBLISHED, |count| count >= 20.0).await;
    admin.ready(200).await;

    // WHEN the database is stopped
    postgres.stop_fast();

    // THEN it is not ready and says why, again and again, and it may be missing events
    let why = admin.ready(503).await;
    assert!(why.starts_with("not ready: it "), "{why}");
    admin.until(DATABASE_AWAY, |count| count >= 2.0).await;
    admin.until(LAG, |lag| lag > 1.0).await;
    let status = admin.page("/status").text;
    assert!(
        status.contains("after trouble") || status.contains("the database"),
        "{status}"
    );
    assert_eq!(admin.metric(BROKER_AWAY), 0.0);

    // AND when it comes back, so does the pipeline, and the position goes on
    postgres.start_again();
    admin.ready(200).await;
    let before = admin.metric("headwater_confirmed_position");
    scene.commit_events(30).await;
    admin.until(PUBLISHED, |count| count >= 50.0).await;
    admin
        .until("headwater_confirmed_position", |place| place > before)
        .await;
    admin.until(LAG, |lag| lag == 0.0).await;
    run.ask_to_stop().await;
}

#[tokio::test]
async fn the_pages_answer_while_a_backlog_is_carried() {
    // GIVEN a backlog of 50,000 rows
    const ROWS: f64 = 50_000.0;
    let mut scene = Scene::shared(17, "admin_busy").await;
    let admin = Admin::of(&mut scene);
    scene.init();
    let client = scene.database.connect().await;
    let written = bulk_rows(&client, &scene.namespace, 50_000, 100).await;
    sleep(Duration::from_secs(1)).await;

    // WHEN it is carried
    let mut run = scene.spawn(&["run"]);
    let (mut published, mut most_lag) = (0.0, 0.0_f64);
    let end = Instant::now() + LIMIT;
    while published < ROWS {
        assert!(Instant::now() < end, "{published} published");
        let asked = Instant::now();
        if let Some(page) = get(admin.0, "/metrics") {
            // THEN the pages answer all the while, and what they count only grows
            assert!(asked.elapsed() < Duration::from_secs(2));
            let now = page.metric(PUBLISHED).unwrap();
            assert!(now >= published, "{published}, then {now}");
            published = now;
            most_lag = most_lag.max(page.metric(LAG).unwrap_or_default());
        }
        sleep(Duration::from_millis(20)).await;
    }

    // AND the backlog was as old as it was
    assert!(most_lag > 1.0, "{most_lag}");
    assert_eq!(published, ROWS);
    admin.until(LAG, |lag| lag == 0.0).await;
    assert_eq!(admin.metric("headwater_delivery_seconds_count"), ROWS);
    assert!(admin.metric("headwater_delivery_seconds_sum") > ROWS);
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;
}

#[tokio::test]
async fn a_standby_is_not_ready_until_it_takes_over() {
    // GIVEN two instances of one pipeline
    let mut scene = Scene::shared(17, "admin_standby").await;
    let first = Admin::of(&mut scene);
    scene.init();
    let mut run = scene.start().await;
    first.ready(200).await;
    let port = free_port();
    scene.pipeline.admin = listen(port);
    let other = headwater(&scene.pipeline);
    let mut standby = crate::scene::Running::of(other.spawn(&["run"]));

    // THEN the second says that it waits for the lock
    let second = Admin(port);
    second.unready("waits for the pipeline's lock").await;

    // AND WHEN the first is gone, it takes over
    run.kill9();
    second.ready(200).await;
    standby.ask_to_stop().await;
}
