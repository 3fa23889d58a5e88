//! Memory depends on what may be in flight, not on how large a transaction or its rows are.

use headwater_testkit::{Kafka, Mysql, MysqlDatabase, Outbox, Server, Written};

use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

/// What a large load may need beyond a small one, in kB.
const ALLOWANCE: u64 = 40 * 1024;

#[tokio::test]
async fn memory_stays_flat_whatever_a_transaction_holds() {
    // GIVEN what a run needs to carry 1,000 small rows
    let small = peak_of(1000, 100).await;

    // WHEN runs carry one transaction of 300,000 rows, and 5,000 rows of 100 kB
    let many = peak_of(300_000, 100).await;
    let wide = peak_of(5000, 100_000).await;

    // THEN they need 40 MB more at most
    println!("peaks in kB: {small} for 1,000 rows, {many} for 300,000, {wide} for 5,000 of 100 kB");
    assert!(
        many < small + ALLOWANCE,
        "300,000 rows: {many} kB, against {small} kB"
    );
    assert!(
        wide < small + ALLOWANCE,
        "rows of 100 kB: {wide} kB, against {small} kB"
    );
}

#[tokio::test]
async fn memory_stays_flat_on_mysql_9_7() {
    memory_stays_flat_on(Mysql::shared(Server::MySql97)).await;
}

#[tokio::test]
async fn memory_stays_flat_on_mariadb_10_11() {
    memory_stays_flat_on(Mysql::shared(Server::MariaDb1011)).await;
}

#[tokio::test]
async fn memory_stays_flat_on_mariadb_11_8() {
    memory_stays_flat_on(Mysql::shared(Server::MariaDb118)).await;
}

async fn memory_stays_flat_on(mysql: &'static Mysql) {
    // GIVEN what a run needs to carry 1,000 small rows
    let scene = || Scene::binlog(mysql, Kafka::shared(), "memory");
    let small = peak_in(scene().await, 1000, 100).await;

    // WHEN runs carry one transaction of 300,000 rows, and 1,000 rows of 100 kB
    let many = peak_in(scene().await, 300_000, 100).await;
    let wide = peak_in(scene().await, 1000, 100_000).await;

    // THEN they need 40 MB more at most
    println!("peaks in kB: {small} for 1,000 rows, {many} for 300,000, {wide} for 1,000 of 100 kB");
    for peak in [many, wide] {
        assert!(peak < small + ALLOWANCE, "{peak} kB, against {small} kB");
    }
}

#[tokio::test]
async fn memory_stays_flat_though_it_comes_compressed_on_mysql_9_7() {
    let pack = [("binlog_transaction_compression", "ON")];
    memory_stays_flat_though_compressed(&Mysql::start(Server::MySql97, &pack)).await;
}

#[tokio::test]
async fn memory_stays_flat_though_it_comes_compressed_on_mariadb_10_11() {
    let pack = [("log_bin_compress", "ON")];
    memory_stays_flat_though_compressed(&Mysql::start(Server::MariaDb1011, &pack)).await;
}

#[tokio::test]
async fn memory_stays_flat_though_it_comes_compressed_on_mariadb_11_8() {
    let pack = [("log_bin_compress", "ON")];
    memory_stays_flat_though_compressed(&Mysql::start(Server::MariaDb118, &pack)).await;
}

async fn memory_stays_flat_though_compressed(mysql: &Mysql) {
    // GIVEN what a run needs to carry 1,000 small rows of a log that is compressed
    let scene = || Scene::binlog(mysql, Kafka::shared(), "packed");
    let small = peak_in(scene().await, 1000, 100).await;

    // WHEN a run carries one transaction of 300,000 rows
    let written_before = mysql.binlog_size().await;
    let many = peak_in(scene().await, 300_000, 100).await;

    // THEN it needs 40 MB more at most, and the log was compressed indeed
    let packed = (mysql.binlog_size().await - written_before) / 1024;
    println!(
        "peaks in kB: {small} for 1,000 rows, {many} for 300,000 that are {packed} kB in the log"
    );
    assert!(many < small + ALLOWANCE, "{many} kB, against {small} kB");
    assert!(
        packed < 300_000 * 200 / 1024,
        "{packed} kB are not compressed"
    );
}

on_every_binlog!(memory_stays_flat_beside_large_rows: "beside", shared server, shared kafka);

async fn memory_stays_flat_beside_large_rows(scene: Scene<'_, MysqlDatabase<'_>>) {
    // GIVEN what a run needs to carry some events
    let table = "CREATE TABLE beside (content LONGBLOB)";
    scene.database.execute(table).await;
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(100).await;
    scene.judge(&written).await.assert_exactly_once();
    let small = run.peak_rss_kb();

    // WHEN each event of one transaction comes behind a row of 5 MB of another table
    let events: Vec<Event> = (1..=50)
        .map(|seq| Event::new(&scene.namespace, "beside", seq))
        .collect();
    let mut sql = "BEGIN;".to_owned();
    for event in &events {
        sql += "INSERT INTO beside VALUES (REPEAT('x', 5000000));";
        sql += &scene.insert(event);
    }
    scene.database.execute(&(sql + "COMMIT")).await;
    written.add(Written {
        committed: events.iter().map(Event::committed).collect(),
        ..Written::default()
    });
    scene.judge(&written).await.assert_exactly_once();

    // THEN it needs 40 MB more at most
    let peak = run.peak_rss_kb();
    println!("peaks in kB: {small} for 100 rows, {peak} beside 250 MB of others");
    assert!(peak < small + ALLOWANCE, "{peak} kB, against {small} kB");
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

/// The most memory, in kB, that a run needed to carry one transaction, all of which arrived, once. Which rows they were is
/// looked at elsewhere (`stop.rs`): reading half a gigabyte back would only prove the reader's patience.
async fn peak_of(rows: u32, payload_bytes: usize) -> u64 {
    // Not the server of most tests: a slot is made only when long transactions have ended.
    peak_in(Scene::shared(18, "memory").await, rows, payload_bytes).await
}

async fn peak_in(scene: Scene<'_, impl Outbox>, rows: u32, payload_bytes: usize) -> u64 {
    scene.init();
    let mut run = scene.start().await;
    scene
        .database
        .bulk_rows(&scene.namespace, rows, payload_bytes)
        .await;
    let count = u64::from(rows);
    let all = scene
        .kafka
        .wait_for_messages(scene.topic(), count, LIMIT)
        .await;
    assert!(all, "not all of {rows} rows arrived");
    let peak = run.peak_rss_kb();
    run.ask_to_stop().await;
    assert_eq!(scene.kafka.message_count(scene.topic()).await, count);
    peak
}
