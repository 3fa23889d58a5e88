//! The positions topic: made, verified, written, read back.

use std::time::Duration;

use headwater_core::positions::{FORMAT, Positions, Record};
use headwater_core::trouble::Trouble;
use headwater_sink::Level;
use headwater_sink::kafka::{Kafka, KafkaPositions, Made, check};
use headwater_testkit::{Kafka as Cluster, unique};

use super::talk::{carry, message, settings};

fn record(name: &str, run: u64, position: &str) -> Record {
    Record {
        format: FORMAT,
        name: name.into(),
        run,
        source: serde_json::json!({"system": "7"}),
        position: position.into(),
        event_time: None,
        written_at: "2026-01-01T00:00:00Z".into(),
        headwater: "0.1.0".into(),
        blocked: None,
        snapshot: None,
    }
}

async fn write(positions: &mut KafkaPositions, record: &Record) {
    positions.write(record).unwrap();
    positions.written().await.unwrap();
}

fn open(cluster: &Cluster) -> Kafka {
    Kafka::open(settings(&cluster.brokers())).unwrap()
}

#[tokio::test]
async fn init_makes_a_compacted_topic_once() {
    let cluster = Cluster::shared();
    let kafka = open(cluster);
    let topic = unique("positions");
    let positions = kafka.positions(&topic, 3, "shop");
    assert!(!positions.exists().await.unwrap());
    assert_eq!(positions.init().await.unwrap(), Made::Created);
    assert_eq!(positions.init().await.unwrap(), Made::AlreadyThere);
    assert!(positions.exists().await.unwrap());
    positions.verify().await.unwrap();
    let config = cluster.topic_config(&topic).await;
    assert_eq!(config["cleanup.policy"], "compact");
    assert_eq!(config["segment.bytes"], "1048576");
}

#[tokio::test]
async fn a_missing_topic_has_no_record_and_is_not_made_by_looking() {
    let cluster = Cluster::shared();
    let kafka = open(cluster);
    let topic = unique("positions");
    let mut positions = kafka.positions(&topic, 1, "shop");
    assert_eq!(positions.read().await.unwrap(), None);
    assert!(!positions.exists().await.unwrap());
    let error = positions.verify().await.unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("headwater init"),
        "{error}"
    );
    let findings = check(
        settings(&cluster.brokers()),
        Some(&topic),
        Duration::from_secs(10),
    )
    .await;
    assert_eq!(
        (findings[0].level, findings[1].level),
        (Level::Ok, Level::Problem)
    );
}

#[tokio::test]
async fn the_last_record_of_this_pipeline_is_read_back() {
    let cluster = Cluster::shared();
    let kafka = open(cluster);
    let topic = unique("positions");
    let mut shop = kafka.positions(&topic, 1, "shop");
    let mut till = kafka.positions(&topic, 1, "till");
    shop.init().await.unwrap();
    assert_eq!(shop.read().await.unwrap(), None);
    for n in 0..300 {
        write(&mut shop, &record("shop", 2, &n.to_string())).await;
    }
    assert_eq!(till.read().await.unwrap(), None);
    write(&mut till, &record("till", 1, "x")).await;
    // A paused instance of an older run wakes up late.
    write(&mut shop, &record("shop", 1, "stale")).await;
    assert_eq!(shop.read().await.unwrap(), Some(record("shop", 2, "299")));
    assert_eq!(till.read().await.unwrap(), Some(record("till", 1, "x")));
    drop((kafka, shop, till));
    let kafka = open(cluster);
    let mut shop = kafka.positions(&topic, 1, "shop");
    assert_eq!(shop.read().await.unwrap(), Some(record("shop", 2, "299")));
    let findings = check(
        settings(&cluster.brokers()),
        Some(&topic),
        Duration::from_secs(10),
    )
    .await;
    assert!(
        findings.iter().all(|f| f.level == Level::Ok),
        "{findings:?}"
    );
}

#[tokio::test]
async fn a_record_that_cannot_be_read_stops_and_a_tombstone_mends_it() {
    let cluster = Cluster::shared();
    let kafka = open(cluster);
    let topic = unique("positions");
    let mut positions = kafka.positions(&topic, 1, "shop");
    positions.init().await.unwrap();
    write(&mut positions, &record("shop", 1, "a")).await;
    cluster
        .produce(&topic, Some(b"shop"), Some(b"{\"format\":"))
        .await;
    cluster
        .produce(&topic, Some(b"till"), Some(b"not ours"))
        .await;
    let error = positions.read().await.unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("offset 1"),
        "{error}"
    );
    cluster.produce(&topic, Some(b"shop"), None).await;
    assert_eq!(positions.read().await.unwrap(), None);
    let newer = br#"{"format":2,"headwater":"9.9"}"#;
    cluster.produce(&topic, Some(b"shop"), Some(newer)).await;
    let error = positions.read().await.unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("newer Headwater"),
        "{error}"
    );
}

#[tokio::test]
async fn a_topic_that_would_lose_records_is_refused_with_the_command_that_mends_it() {
    let cluster = Cluster::shared();
    let kafka = open(cluster);
    for policy in ["delete", "compact,delete"] {
        let topic = unique("positions");
        cluster
            .create_topic(&topic, 1, 1, &[("cleanup.policy", policy)])
            .await;
        let error = kafka
            .positions(&topic, 1, "shop")
            .verify()
            .await
            .unwrap_err();
        assert!(error.is_fatal(), "{error}");
        assert!(
            error
                .to_string()
                .contains("--add-config cleanup.policy=compact"),
            "{error}"
        );
    }
    let topic = unique("positions");
    cluster
        .create_topic(&topic, 2, 1, &[("cleanup.policy", "compact")])
        .await;
    let error = kafka
        .positions(&topic, 1, "shop")
        .verify()
        .await
        .unwrap_err();
    assert!(
        error.is_fatal() && error.to_string().contains("2 partitions"),
        "{error}"
    );
}

#[tokio::test]
async fn a_position_is_written_beside_messages_and_nothing_under_way_is_waited_for() {
    let cluster = Cluster::shared();
    let mut kafka = open(cluster);
    let (topic, events) = (unique("positions"), unique("events"));
    let mut positions = kafka.positions(&topic, 1, "shop");
    positions.init().await.unwrap();
    let wait = Duration::from_millis(100);
    assert!(
        tokio::time::timeout(wait, positions.written())
            .await
            .is_err()
    );
    positions.write(&record("shop", 1, "a")).unwrap();
    let all = (0..1000)
        .map(|n| message(&events, None, n.to_string()))
        .collect();
    assert_eq!(carry(&mut kafka, all).await.unwrap().delivered, 1000);
    positions.written().await.unwrap();
    assert!(
        tokio::time::timeout(wait, positions.written())
            .await
            .is_err()
    );
}

#[tokio::test]
async fn a_record_left_under_way_is_not_taken_for_the_next_one() {
    let cluster = Cluster::shared();
    let kafka = open(cluster);
    let topic = unique("positions");
    let mut first = kafka.positions(&topic, 1, "shop");
    first.init().await.unwrap();
    first.write(&record("shop", 1, "a")).unwrap();
    drop(first);
    let mut second = kafka.positions(&topic, 1, "shop");
    write(&mut second, &record("shop", 2, "b")).await;
    // Both are there, so the second had not been told of the first one's end.
    assert_eq!(cluster.message_count(&topic).await, 2);
}

#[tokio::test]
async fn kafka_away_only_makes_a_position_late() {
    let cluster = Cluster::start(1);
    let mut positions = open(&cluster).positions("positions", 1, "shop");
    positions.init().await.unwrap();
    write(&mut positions, &record("shop", 1, "a")).await;
    cluster.kill9(0);
    positions.write(&record("shop", 1, "b")).unwrap();
    let wait = Duration::from_secs(3);
    assert!(
        tokio::time::timeout(wait, positions.written())
            .await
            .is_err()
    );
    cluster.start_again(0);
    positions.written().await.unwrap();
    assert_eq!(
        positions.read().await.unwrap(),
        Some(record("shop", 1, "b"))
    );

    cluster.kill9(0);
    assert!(tokio::time::timeout(wait, positions.read()).await.is_err());
    cluster.start_again(0);
    assert_eq!(
        positions.read().await.unwrap(),
        Some(record("shop", 1, "b"))
    );
}
