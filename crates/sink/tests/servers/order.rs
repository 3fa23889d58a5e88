//! Behind a message that a broker refuses nothing arrives, so that mending the cause brings nothing out of order.

use headwater_core::failure::Kind;
use headwater_core::message::Message;
use headwater_core::sink::Refusal;
use headwater_core::trouble::Trouble;
use headwater_sink::kafka::{Kafka, Settings};
use headwater_testkit::{Kafka as Cluster, unique};

use super::rights::{WRITE, grant, login, with_rights};
use super::talk::{Heard, carry, message, noise, settings, with};

const SMALL: [(&str, &str); 1] = [("max.message.bytes", "50000")];
const COUNT: usize = 5000;

/// One key, one of them large.
fn all(topic: &str, large_at: usize, large: Vec<u8>) -> Vec<Message> {
    let numbered = (0..COUNT).map(|n| message(topic, Some("k"), n.to_string()));
    let mut all: Vec<_> = numbered.collect();
    all[large_at].value = large.into();
    all
}

/// Batches that fit into the topic, many of them at once on their way.
fn in_batches(brokers: &str, compression: &str) -> Settings {
    let mut settings = with(settings(brokers), &[("batch.num.messages", "50")]);
    settings.compression = compression.into();
    settings
}

async fn sent(large_at: usize, large: Vec<u8>, compression: &str) -> (Heard, Vec<String>) {
    let cluster = Cluster::shared();
    let topic = unique("order");
    cluster.create_topic(&topic, 1, 1, &SMALL).await;
    let mut kafka = Kafka::open(in_batches(&cluster.brokers(), compression)).unwrap();
    let heard = carry(&mut kafka, all(&topic, large_at, large)).await;
    drop(kafka);
    (heard.unwrap(), arrived(cluster, &topic).await)
}

/// The numbers, and `large`.
async fn arrived(cluster: &Cluster, topic: &str) -> Vec<String> {
    let found = cluster.consume_all(&[topic]).await.into_iter();
    let values = found.map(|m| String::from_utf8(m.value.unwrap()));
    values
        .map(|v| v.ok().filter(|v| v.len() < 10))
        .map(|v| v.unwrap_or_else(|| "large".into()))
        .collect()
}

fn numbers(count: usize) -> Vec<String> {
    (0..count).map(|n| n.to_string()).collect()
}

#[tokio::test]
async fn all_before_a_refused_message_arrive_and_nothing_behind_it() {
    for compression in ["none", "lz4"] {
        for large_at in [0, 1, COUNT / 2, COUNT - 1] {
            let (heard, arrived) = sent(large_at, noise(100_000), compression).await;
            assert_eq!(arrived, numbers(large_at), "{compression}");
            assert_eq!((heard.delivered, heard.refused.len()), (large_at, 1));
            let (back, Refusal { kind, why, .. }) = &heard.refused[0];
            assert_eq!((back.value.len(), *kind), (100_000, Kind::TooLarge));
            assert!(why.contains("(50000)"), "{why}");
        }
    }
}

#[tokio::test]
async fn what_fits_only_when_compressed_arrives_in_its_place() {
    for large_at in [0, COUNT / 2] {
        let (heard, arrived) = sent(large_at, vec![b'1'; 100_000], "lz4").await;
        let mut expected = numbers(COUNT);
        expected[large_at] = "large".into();
        assert_eq!(arrived, expected);
        assert_eq!((heard.delivered, heard.refused.len()), (COUNT, 0));
    }
}

#[tokio::test]
async fn nothing_arrives_behind_a_refused_batch_of_a_topic_whose_rules_may_not_be_seen() {
    let cluster = with_rights();
    cluster.create_topic("small", 1, 1, &SMALL).await;
    cluster
        .create_topic("keyed", 1, 1, &[("cleanup.policy", "compact")])
        .await;
    for (topic, advice) in [("small", "a smaller one"), ("keyed", "batch.num.messages")] {
        grant(cluster.port(0), WRITE, topic);
        let mut batches = in_batches(&cluster.brokers(), "none");
        let login = login(&cluster, "p");
        batches.brokers.clone_from(&login.brokers);
        batches.properties.extend(login.properties);
        let mut kafka = Kafka::open(batches).unwrap();
        // The broker knows the producer from then on.
        let first = vec![message(topic, Some("k"), "first")];
        assert_eq!(carry(&mut kafka, first).await.unwrap().delivered, 1);
        let mut all = all(topic, COUNT / 2, noise(100_000));
        if topic == "keyed" {
            all[COUNT / 2] = message(topic, None, "1");
        }
        let error = carry(&mut kafka, all).await.unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains(advice),
            "{error}"
        );
        drop(kafka);
        let arrived = arrived(&cluster, topic).await;
        assert_eq!(arrived[1..], numbers(arrived.len() - 1), "{topic}");
        assert!(arrived.len() <= 1 + COUNT / 2, "{topic}: {}", arrived.len());
    }
}
