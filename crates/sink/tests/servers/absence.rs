//! Kafka away: waited for, said once, and never a reason to hang.

use std::time::{Duration, Instant};

use headwater_core::ledger::Ledger;
use headwater_core::sink::{Sink, Unsent};
use headwater_sink::Level;
use headwater_sink::kafka::{Kafka, check};
use headwater_testkit::{Kafka as Cluster, free_port, unique};

use super::talk::{LIMIT, carry, listen, message, said, settings};

#[tokio::test]
async fn away_at_the_start_and_later_it_is_waited_for_and_said_once() {
    listen();
    let cluster = Cluster::start(1);
    let brokers = cluster.brokers();
    cluster.create_topic("away", 1, 1, &[]).await;
    cluster.kill9(0);
    let mut kafka = Kafka::open(settings(&brokers)).unwrap();
    let begin = || {
        (0..200)
            .map(|n| message("away", Some("k"), n.to_string()))
            .collect()
    };
    let back = async {
        tokio::time::sleep(Duration::from_secs(3)).await;
        cluster.start_again(0);
    };
    let (heard, ()) = tokio::join!(carry(&mut kafka, begin()), back);
    assert_eq!(heard.unwrap().delivered, 200);
    assert_eq!(
        (
            said("waiting for Kafka", &brokers),
            said("Kafka answers", &brokers)
        ),
        (1, 1)
    );

    cluster.kill9(0);
    let back = async {
        tokio::time::sleep(Duration::from_secs(4)).await;
        cluster.start_again(0);
    };
    let (heard, ()) = tokio::join!(carry(&mut kafka, begin()), back);
    assert_eq!(heard.unwrap().delivered, 200);
    assert_eq!(
        (
            said("waiting for Kafka", &brokers),
            said("Kafka answers", &brokers)
        ),
        (2, 2)
    );

    cluster.wait_ready().await;
    let found = cluster.consume_all(&["away"]).await;
    let values = found
        .iter()
        .map(|m| String::from_utf8(m.value.clone().unwrap()).unwrap());
    let expected = (0..400).map(|n| (n % 200).to_string());
    assert!(values.eq(expected), "lost, doubled or reordered");
}

/// Drops the sink, its positions and its runtime, and says how long that took.
fn time_to_end(work: impl AsyncFnOnce() -> Kafka) -> Duration {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let kafka = runtime.block_on(work());
    let begin = Instant::now();
    drop(kafka);
    drop(runtime);
    begin.elapsed()
}

#[test]
fn dropped_with_messages_in_flight_and_kafka_away_it_ends_at_once() {
    let cluster = Cluster::start(1);
    let brokers = cluster.brokers();
    let took = time_to_end(async || {
        let mut kafka = Kafka::open(settings(&brokers)).unwrap();
        carry(&mut kafka, vec![message("gone", None, "1")])
            .await
            .unwrap();
        cluster.kill9(0);
        let mut ledger: Ledger<u32> = Ledger::new(1);
        for _ in 0..5000 {
            kafka
                .send(message("gone", None, vec![7; 700]), ledger.admit(1))
                .unwrap();
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        kafka
    });
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[test]
fn dropped_while_it_looks_up_a_topic_of_an_absent_kafka_it_ends_at_once() {
    let brokers = format!("127.0.0.1:{}", free_port());
    let took = time_to_end(async || {
        let mut kafka = Kafka::open(settings(&brokers)).unwrap();
        let ticket = Ledger::<u32>::new(1).admit(1);
        let sent = kafka.send(message("any", None, "1"), ticket);
        assert!(matches!(sent, Err(Unsent::Later(..))));
        let none = tokio::time::timeout(Duration::from_secs(2), kafka.next_report()).await;
        assert!(none.is_err());
        kafka
    });
    assert!(took < Duration::from_secs(2), "{took:?}");
}

#[tokio::test]
async fn check_says_that_nobody_answers_and_why() {
    let brokers = format!("127.0.0.1:{}", free_port());
    let findings = check(
        settings(&brokers),
        Some("positions"),
        Duration::from_secs(2),
    )
    .await;
    assert_eq!(findings.len(), 1);
    assert_eq!(findings[0].level, Level::Problem);
    let what = &findings[0].what;
    assert!(
        what.contains(&brokers) && what.contains("Connection refused"),
        "{what}"
    );
}

#[tokio::test]
async fn a_broker_of_three_may_go() {
    let cluster = Cluster::start(3);
    cluster.wait_ready().await;
    let topic = unique("three");
    cluster
        .create_topic(&topic, 6, 3, &[("min.insync.replicas", "2")])
        .await;
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let all = (0..20_000).map(|n| message(&topic, Some(&(n % 50).to_string()), n.to_string()));
    let kill = async {
        tokio::time::sleep(Duration::from_millis(200)).await;
        cluster.kill9(1);
    };
    let (heard, ()) = tokio::join!(carry(&mut kafka, all.collect()), kill);
    assert_eq!(heard.unwrap().delivered, 20_000);
    assert!(cluster.wait_for_messages(&topic, 20_000, LIMIT).await);
    let found = cluster.consume_all(&[&topic]).await;
    let mut last = vec![None; 50];
    for message in &found {
        let number: usize = String::from_utf8_lossy(message.value.as_deref().unwrap())
            .parse()
            .unwrap();
        let of_key: &mut Option<usize> = &mut last[number % 50];
        assert!(
            of_key.is_none_or(|before| before < number),
            "reordered or doubled: {number}"
        );
        *of_key = Some(number);
    }
    assert_eq!(found.len(), 20_000);
}
