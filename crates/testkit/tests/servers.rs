//! The testkit on real servers: they start, stop, are killed, come back, and are gone when the process is.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a failed step here is a failed test

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headwater_testkit::{
    Headwater, Kafka, KafkaOptions, Load, PASSWORD, Pipeline, Postgres, Proxy, bulk_rows, check,
    unique,
};
use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use serde_json::json;
use tokio_postgres::{Client, NoTls};

#[path = "servers/mysql.rs"]
mod mysql;

const LIMIT: Duration = Duration::from_secs(30);

async fn one(client: &Client, sql: &str) -> String {
    let row = client.query_one(sql, &[]).await.unwrap();
    row.get(0)
}

/// What a perfect Headwater would do with the table.
async fn publish_table(client: &Client, kafka: &Kafka, topic: &str) {
    let sql = "SELECT id::text, model_id, payload->>'seq' FROM eventlog.events \
        WHERE event_type IS NOT NULL ORDER BY model_id, (payload->>'seq')::bigint";
    for row in client.query(sql, &[]).await.unwrap() {
        let (id, key, seq): (String, String, String) = (row.get(0), row.get(1), row.get(2));
        let seq: i64 = seq.parse().unwrap();
        let value = json!({"id": id, "payload": {"seq": seq}}).to_string();
        kafka
            .produce(topic, Some(key.as_bytes()), Some(value.as_bytes()))
            .await;
    }
}

#[tokio::test]
async fn each_version_of_postgres_starts_with_an_outbox() {
    for version in [15, 17, 18] {
        let postgres = Postgres::shared(version);
        let database = postgres.database("start").await;
        let client = database.connect().await;
        let told = one(&client, "SHOW server_version").await;
        assert!(told.starts_with(&version.to_string()), "{told}");
        assert_eq!(one(&client, "SHOW wal_level").await, "logical");
        assert_eq!(database.confirmed_lsn("none").await, None);
        assert!(database.wal_lsn().await > 0);
    }
}

#[tokio::test]
async fn the_role_of_headwater_may_publish_and_must_give_its_password() {
    let database = Postgres::shared(17).database("role").await;
    let (client, connection) = tokio_postgres::connect(&database.url(), NoTls)
        .await
        .unwrap();
    tokio::spawn(connection);
    client
        .batch_execute("CREATE PUBLICATION p FOR TABLE eventlog.events")
        .await
        .unwrap();
    let wrong = database.url().replace(PASSWORD, "wrong");
    let refused = tokio_postgres::connect(&wrong, NoTls).await;
    assert!(refused.is_err(), "a wrong password was taken");
}

#[tokio::test]
async fn two_clusters_differ_in_their_identifier_and_a_killed_one_comes_back() {
    let (a, b) = (
        Postgres::start(17, &[]),
        Postgres::start(17, &[("work_mem", "1MB")]),
    );
    let identifier = "SELECT system_identifier::text FROM pg_control_system()";
    let of_a = one(&a.connect("postgres").await, identifier).await;
    let of_b = one(&b.connect("postgres").await, identifier).await;
    assert_ne!(of_a, of_b);
    assert_eq!(
        one(&b.connect("postgres").await, "SHOW work_mem").await,
        "1MB"
    );

    let database = a.database("kill").await;
    let written = bulk_rows(&database.connect().await, "n", 1000, 64).await;
    assert_eq!(written.committed.len(), 1000);
    a.kill9();
    assert!(
        tokio_postgres::connect(&database.url(), NoTls)
            .await
            .is_err()
    );
    a.start_again();
    assert_eq!(count(&database.connect().await).await, 1000);
    assert!(a.stop_fast() < LIMIT);
    a.start_again();
    a.restart();
    assert_eq!(count(&database.connect().await).await, 1000);
    assert!(a.log().contains("database system is ready"));
}

async fn count(client: &Client) -> i64 {
    let row = client.query_one("SELECT count(*) FROM eventlog.events", &[]);
    row.await.unwrap().get(0)
}

#[tokio::test]
async fn writers_know_what_they_committed_though_the_server_is_killed() {
    let postgres = Postgres::start(17, &[]);
    let database = postgres.database("load").await;
    let writing = Load::new("n", 7).start(&database.url());
    for goal in [300, 600, 900] {
        writing.wait_for(goal, LIMIT).await;
        postgres.kill9();
        postgres.start_again();
    }
    let written = writing.stop().await;
    assert!(written.committed.len() > 900);
    assert!(!written.rolled_back.is_empty() && !written.sentinels.is_empty());
    let client = database.connect().await;
    let rows = client
        .query(
            "SELECT id::text, event_type IS NULL FROM eventlog.events",
            &[],
        )
        .await
        .unwrap();
    let sentinels = rows.iter().filter(|row| row.get::<_, bool>(1)).count();
    assert_eq!(
        rows.len(),
        written.committed.len() + written.sentinels.len()
    );
    assert_eq!(sentinels, written.sentinels.len());
    let undone = |id: &str| written.rolled_back.iter().any(|u| u.to_string() == id);
    assert!(!rows.iter().any(|row| undone(row.get(0))));
}

#[tokio::test]
async fn seq_grows_within_a_key_in_commit_order() {
    // GIVEN a slot, WHEN writers mix all they can, THEN the log shows each key's seq growing
    let database = Postgres::shared(17).database("order").await;
    let client = database.connect().await;
    let slot = unique("slot");
    let make =
        format!("SELECT pg_create_logical_replication_slot('{slot}', 'test_decoding')::text");
    client.simple_query(&make).await.unwrap();
    let load = Load {
        transactions: Some(50),
        rate: Some(2000),
        ..Load::new("n", 8)
    };
    let written = load.start(&database.url()).finish().await;
    let read = format!(
        r#"SELECT substring(data from '"key": "([^"]+)"'), substring(data from '"seq": (\d+)')::bigint
        FROM pg_logical_slot_get_changes('{slot}', NULL, NULL) WHERE data LIKE '%: INSERT:%"seq"%'"#
    );
    let mut last = std::collections::HashMap::new();
    let rows = client.query(&read, &[]).await.unwrap();
    assert_eq!(rows.len(), written.committed.len());
    for row in rows {
        let (key, seq): (String, i64) = (row.get(0), row.get(1));
        let before = last.insert(key, seq);
        assert!(before.is_none_or(|b| b < seq));
    }
}

#[tokio::test]
async fn what_was_produced_is_consumed_and_judged() {
    let kafka = Kafka::shared();
    let database = Postgres::shared(17).database("judge").await;
    let topic = unique("judge");
    assert!(kafka.consume_all(&[&topic]).await.is_empty());
    kafka
        .create_topic(&topic, 3, 1, &[("cleanup.policy", "compact")])
        .await;
    let load = Load {
        transactions: Some(10),
        ..Load::new("n", 9)
    };
    let mut written = load.start(&database.url()).finish().await;
    let client = database.connect().await;
    written.add(bulk_rows(&client, "n", 10, 100).await);
    publish_table(&client, kafka, &topic).await;
    let consumed = kafka
        .consume_until_complete(&[&topic], &written, LIMIT)
        .await;
    check(&written, &consumed).assert_exactly_once();
    let count = u64::try_from(written.committed.len()).unwrap();
    assert_eq!(kafka.message_count(&topic).await, count);
    assert!(
        !kafka
            .wait_for_messages(&topic, count + 1, Duration::ZERO)
            .await
    );
    let config = kafka.topic_config(&topic).await;
    assert_eq!(config["cleanup.policy"], "compact");
    kafka.delete_topic(&topic).await;
    assert_eq!(
        check(&written, &kafka.consume_all(&[&topic]).await)
            .lost
            .len(),
        written.committed.len()
    );
}

#[tokio::test]
async fn a_killed_broker_comes_back_with_its_messages() {
    let kafka = Kafka::start(1);
    kafka.create_topic("t", 2, 1, &[]).await;
    for n in 0..10_u8 {
        kafka.produce("t", Some(&[n]), Some(b"v")).await;
    }
    kafka.kill9(0);
    kafka.start_again(0);
    assert_eq!(kafka.consume_all(&["t"]).await.len(), 10);
    kafka.term(0);
    kafka.start_again(0);
    kafka.wait_ready().await;
    kafka.produce("t", Some(b"k"), None).await;
    let all = kafka.consume_all(&["t"]).await;
    assert_eq!(all.iter().filter(|m| m.value.is_none()).count(), 1);
    assert!(all.iter().all(|m| m.timestamp.is_some()));
    let of_one = all.iter().filter(|m| m.partition == 0).count();
    kafka
        .delete_records("t", 0, i64::try_from(of_one).unwrap())
        .await;
    assert_eq!(kafka.consume_all(&["t"]).await.len(), 11 - of_one);
}

#[tokio::test]
async fn three_brokers_outlive_one_of_them_and_ask_for_passwords() {
    let kafka = Kafka::start_with(&KafkaOptions {
        nodes: 3,
        sasl: true,
        settings: vec![("min.insync.replicas".to_owned(), "2".to_owned())],
        ..KafkaOptions::default()
    });
    kafka.wait_ready().await;
    kafka.create_topic("t", 3, 3, &[]).await;
    kafka.produce("t", Some(b"a"), Some(b"1")).await;
    kafka.kill9(1);
    kafka.produce("t", Some(b"b"), Some(b"2")).await;
    assert_eq!(kafka.consume_all(&["t"]).await.len(), 2);
    kafka.start_again(1);
    kafka.wait_ready().await;
    for mechanism in ["PLAIN", "SCRAM-SHA-512"] {
        assert!(asks_with_password(&kafka, mechanism, "p").await);
        assert!(!asks_with_password(&kafka, mechanism, "wrong").await);
    }
}

async fn asks_with_password(kafka: &Kafka, mechanism: &str, password: &str) -> bool {
    let consumer: BaseConsumer = ClientConfig::new()
        .set("bootstrap.servers", kafka.sasl_brokers())
        .set("security.protocol", "SASL_PLAINTEXT")
        .set("sasl.mechanism", mechanism)
        .set("sasl.username", "u")
        .set("sasl.password", password)
        .create()
        .unwrap();
    let limit = Duration::from_secs(if password == "p" { 20 } else { 3 });
    let asked = tokio::task::spawn_blocking(move || consumer.fetch_metadata(None, limit).is_ok());
    asked.await.unwrap()
}

#[tokio::test]
async fn a_proxy_falls_silent_goes_on_and_cuts() {
    let postgres = Postgres::shared(15);
    let database = postgres.database("proxy").await;
    let proxy = Proxy::start(postgres.port());
    let (client, connection) = tokio_postgres::connect(&database.url_through(proxy.port()), NoTls)
        .await
        .unwrap();
    let ended = tokio::spawn(connection);
    assert_eq!(one(&client, "SELECT 'a'").await, "a");

    proxy.stop_forwarding();
    let asked = one(&client, "SELECT 'b'");
    tokio::pin!(asked);
    let silent = tokio::time::timeout(Duration::from_millis(500), &mut asked).await;
    assert!(silent.is_err(), "a silent proxy answered");
    let new = database.url_through(proxy.port());
    let connecting = tokio_postgres::connect(&new, NoTls);
    assert!(
        tokio::time::timeout(Duration::from_millis(500), connecting)
            .await
            .is_err()
    );
    proxy.forward_again();
    assert_eq!(asked.await, "b");

    proxy.cut();
    assert!(ended.await.unwrap().is_err() || client.is_closed());

    let other = Postgres::shared(18);
    proxy.lead_to(other.port());
    let url = other
        .url("postgres", "postgres")
        .replace(&other.port().to_string(), &proxy.port().to_string());
    let (client, connection) = tokio_postgres::connect(&url, NoTls).await.unwrap();
    tokio::spawn(connection);
    assert!(one(&client, "SHOW server_version").await.starts_with("18"));
}

#[tokio::test]
async fn a_program_is_run_measured_and_stopped() {
    let pipeline = Pipeline::new("shop", "postgres://u@localhost/d", "localhost:9092");
    let shell = Headwater::new("/bin/sh", &pipeline.toml()).env("WORD", "hello");
    let output = shell.run(&["-c", "cat headwater.toml; echo $WORD >&2; exit 3"]);
    assert_eq!((output.code, output.stderr.as_str()), (3, "hello\n"));
    assert_eq!(output.stdout, pipeline.toml());

    let mut run = shell.spawn(&["-c", "echo ready >&2; while :; do :; done"]);
    assert!(run.wait_for_log("ready", LIMIT).await);
    assert!(!run.wait_for_log("never", Duration::from_millis(50)).await);
    assert!(run.peak_rss_kb() >= run.rss_kb() && run.rss_kb() > 0);
    std::thread::sleep(Duration::from_millis(300));
    run.stop();
    std::thread::sleep(Duration::from_millis(50));
    let used = run.cpu_time();
    assert!(used > Duration::from_millis(50));
    std::thread::sleep(Duration::from_millis(200));
    assert_eq!(run.cpu_time(), used, "a stopped program worked");
    run.cont();
    assert!(run.is_running());
    let (code, _) = run.term_and_wait(LIMIT);
    assert_eq!(code, 128 + 15);
    assert!(!run.wait_for_log("never", LIMIT).await);
}

/// The child of the next test: starts one of everything, tells the process numbers, and waits to be killed.
#[tokio::test]
async fn child_that_waits_to_be_killed() {
    let Some(report) = std::env::var_os("TESTKIT_CHILD_REPORT") else {
        return;
    };
    let postgres = Postgres::start(17, &[]);
    let _shared = Postgres::shared(17);
    let _kafka = Kafka::start(1);
    let shell = Headwater::new("/bin/sh", "");
    let run = shell.spawn(&["-c", "sleep 1000 & sleep 1000"]);
    let folder = shell.folder().parent().unwrap().display().to_string();
    let _client = postgres.connect("postgres").await;
    let text = format!("{folder}\n{}\n", run.pid());
    let partial = PathBuf::from(&report).with_extension("new");
    std::fs::write(&partial, text).unwrap();
    std::fs::rename(partial, report).unwrap();
    std::thread::sleep(Duration::from_secs(100));
}

#[test]
fn a_killed_test_process_leaves_nothing_behind() {
    // GIVEN a process with two PostgreSQL, a Kafka and a program
    let report = std::env::temp_dir().join(unique("testkit-report"));
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child_that_waits_to_be_killed"])
        .env("TESTKIT_CHILD_REPORT", &report)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    wait_until("the child reports", || report.exists());
    let text = std::fs::read_to_string(&report).unwrap();
    std::fs::remove_file(&report).unwrap();
    let mut lines = text.lines();
    let folder = Path::new(lines.next().unwrap()).to_owned();
    let name = folder.display().to_string();
    assert!(processes_naming(&name) >= 4, "the child has servers");
    // WHEN it is killed
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    // THEN its servers, its program and its folder go
    wait_until("the folder goes", || !folder.exists());
    wait_until("the processes go", || processes_naming(&name) == 0);
    let run = format!("/proc/{}", lines.next().unwrap());
    wait_until("the program goes", || !Path::new(&run).join("exe").exists());
    // AND its logs stay, because nobody said that it went well
    let logs = logs_of(child.id());
    assert!(logs.join("child_that_waits_to_be_killed").is_dir());
    std::fs::remove_dir_all(logs).unwrap();
}

fn logs_of(pid: u32) -> PathBuf {
    let exe = std::env::current_exe().unwrap();
    let name = format!("{}-{pid}", exe.file_name().unwrap().display());
    let target = exe.ancestors().nth(3).unwrap();
    target.join("test-logs").join(name)
}

/// How many processes carry this text in their command line or stand in such a folder; the keeper's own does not count.
fn processes_naming(text: &str) -> usize {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let named = entries.filter(|entry| {
        let line = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        let cwd = std::fs::read_link(entry.path().join("cwd")).unwrap_or_default();
        let keeper = line.contains("keeper.sh DATA");
        !keeper && (line.contains(text) || cwd.display().to_string().contains(text))
    });
    named.count()
}

fn wait_until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + LIMIT;
    while !holds() {
        assert!(Instant::now() < end, "{what}: not within {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// The child of the next test: fails or passes, as it is told.
#[tokio::test]
async fn child_that_leaves_logs() {
    let Some(ending) = std::env::var_os("TESTKIT_CHILD_ENDING") else {
        return;
    };
    let shell = Headwater::new("/bin/sh", "");
    assert_eq!(shell.run(&["-c", "echo why >&2"]).code, 0);
    assert!(ending != "fail", "as told");
}

#[test]
fn logs_of_a_failed_test_are_kept_and_of_a_passed_one_not() {
    for ending in ["fail", "pass"] {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child_that_leaves_logs"])
            .env("TESTKIT_CHILD_ENDING", ending)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let passed = child.wait().unwrap().success();
        assert_eq!(passed, ending == "pass");
        let logs = logs_of(child.id());
        if passed {
            wait_until("the logs go", || !logs.exists());
        } else {
            let of_test = logs.join("child_that_leaves_logs");
            let run = std::fs::read_dir(of_test).unwrap().next().unwrap().unwrap();
            let text = std::fs::read_to_string(run.path().join("stderr")).unwrap();
            assert_eq!(text, "why\n");
            std::fs::remove_dir_all(logs).unwrap();
        }
    }
}
