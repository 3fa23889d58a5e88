//! A message that a broker will never take comes back by itself; its neighbours are not called refused.

use std::time::Duration;

use headwater_core::failure::Kind;
use headwater_core::sink::Refusal;
use headwater_core::trouble::Trouble;
use headwater_sink::kafka::Kafka;
use headwater_testkit::{Kafka as Cluster, unique};

use super::talk::{carry, message, noise, settings, with};

/// What a batch with one message without a key needs beside the value of 1,000 to 8,000 bytes.
const AROUND: usize = 61 + 2 + 3 + 1 + 2 + 1;

async fn small_topic(cluster: &Cluster) -> String {
    let topic = unique("small");
    cluster
        .create_topic(&topic, 1, 1, &[("max.message.bytes", "2000")])
        .await;
    topic
}

#[tokio::test]
async fn the_first_byte_too_much_is_refused() {
    let cluster = Cluster::shared();
    let topic = small_topic(cluster).await;
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let fits = message(&topic, None, noise(2000 - AROUND));
    assert_eq!(carry(&mut kafka, vec![fits]).await.unwrap().delivered, 1);
    let too_large = message(&topic, None, noise(2001 - AROUND));
    let heard = carry(&mut kafka, vec![too_large.clone()]).await.unwrap();
    let (back, Refusal { kind, why, .. }) = &heard.refused[0];
    assert_eq!((back, *kind), (&too_large, Kind::TooLarge));
    assert!(
        why.contains("2001 bytes") && why.contains("(2000)"),
        "{why}"
    );
    // Whoever goes on does so with a new one.
    let next = carry(&mut kafka, vec![message(&topic, None, "1")]).await;
    assert!(!next.unwrap_err().is_fatal());
    assert_eq!(cluster.message_count(&topic).await, 1);
}

#[tokio::test]
async fn a_refused_message_comes_back_with_key_and_headers() {
    let cluster = Cluster::shared();
    let topic = small_topic(cluster).await;
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let mut large = message(&topic, Some("k"), noise(5000));
    large.address.headers = vec![("id".into(), "7".into()), ("none".into(), "".into())];
    let heard = carry(&mut kafka, vec![large.clone()]).await.unwrap();
    assert_eq!(heard.refused[0].0, large);
}

#[tokio::test]
async fn members_of_a_batch_that_is_too_large_are_not_called_too_large() {
    let cluster = Cluster::shared();
    let topic = small_topic(cluster).await;
    let mut slow = settings(&cluster.brokers());
    slow.linger = Duration::from_millis(200);
    let mut kafka = Kafka::open(slow.clone()).unwrap();
    let burst = || {
        (0..50)
            .map(|_| message(&topic, None, noise(300)))
            .collect::<Vec<_>>()
    };
    let error = carry(&mut kafka, burst()).await.unwrap_err();
    let text = error.to_string();
    assert!(
        error.is_fatal() && text.contains("max.message.bytes of 2000"),
        "{text}"
    );
    assert!(
        text.contains("\"batch.size\" in sink.properties to at most 2000"),
        "{text}"
    );
    drop(kafka);
    let mut kafka = Kafka::open(with(slow, &[("batch.size", "2000")])).unwrap();
    assert_eq!(carry(&mut kafka, burst()).await.unwrap().delivered, 50);
}

#[tokio::test]
async fn a_large_message_among_small_ones_is_refused_alone() {
    let cluster = Cluster::shared();
    let topic = unique("among");
    let mut slow = with(
        settings(&cluster.brokers()),
        &[("message.max.bytes", "5000000")],
    );
    slow.linger = Duration::from_millis(100);
    slow.compression = "lz4".into();
    let mut kafka = Kafka::open(slow).unwrap();
    let mut all: Vec<_> = (0..20)
        .map(|n| message(&topic, Some("k"), n.to_string()))
        .collect();
    all.insert(10, message(&topic, Some("k"), noise(2_000_000)));
    let heard = carry(&mut kafka, all).await.unwrap();
    assert_eq!((heard.delivered, heard.refused.len()), (10, 1));
    assert_eq!(heard.refused[0].1.kind, Kind::TooLarge);
    assert_eq!(cluster.message_count(&topic).await, 10);
}

#[tokio::test]
async fn what_librdkafka_itself_finds_too_large_is_refused_too() {
    let cluster = Cluster::shared();
    let topic = unique("local");
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let large = message(&topic, None, noise(1_000_001));
    let heard = carry(&mut kafka, vec![message(&topic, None, "1"), large.clone()])
        .await
        .unwrap();
    assert_eq!(heard.delivered, 1);
    assert_eq!(
        (&heard.refused[0].0, heard.refused[0].1.kind),
        (&large, Kind::TooLarge)
    );
    assert!(
        heard.refused[0].1.why.contains("message.max.bytes"),
        "{}",
        heard.refused[0].1.why
    );
}

#[tokio::test]
async fn a_message_without_a_key_is_refused_by_a_compacted_topic() {
    let cluster = Cluster::shared();
    let topic = unique("compacted");
    cluster
        .create_topic(&topic, 1, 1, &[("cleanup.policy", "compact")])
        .await;
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let heard = carry(&mut kafka, vec![message(&topic, None, "1")])
        .await
        .unwrap();
    assert_eq!(heard.refused[0].1.kind, Kind::Refused);
    assert!(
        heard.refused[0].1.why.contains("compacted"),
        "{:?}",
        heard.refused
    );
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let heard = carry(&mut kafka, vec![message(&topic, Some("k"), "1")])
        .await
        .unwrap();
    assert_eq!(heard.delivered, 1);
}

#[tokio::test]
async fn a_message_without_a_key_for_a_compacted_topic_is_in_no_batch_with_others() {
    let cluster = Cluster::shared();
    let topic = unique("mixed");
    cluster
        .create_topic(&topic, 1, 1, &[("cleanup.policy", "compact")])
        .await;
    let mut slow = settings(&cluster.brokers());
    slow.linger = Duration::from_millis(200);
    let mut kafka = Kafka::open(slow).unwrap();
    let keys = [Some("a"), Some("b"), None, Some("c")];
    let mixed = keys.map(|key| message(&topic, key, "1")).to_vec();
    let heard = carry(&mut kafka, mixed).await.unwrap();
    assert_eq!((heard.delivered, heard.refused.len()), (2, 1));
    assert_eq!(heard.refused[0].0.address.key, None);
    assert_eq!(cluster.message_count(&topic).await, 2);
}

#[tokio::test]
async fn a_name_that_no_topic_can_have_is_refused() {
    let cluster = Cluster::shared();
    for name in ["no topic", "a\0b", ""] {
        let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
        let heard = carry(&mut kafka, vec![message(name, None, "1")])
            .await
            .unwrap();
        assert_eq!(heard.refused[0].1.kind, Kind::Unroutable, "{name:?}");
    }
}
