//! Messages arrive whole, in order, and where the Java clients would put them.

use bytes::Bytes;
use headwater_core::trouble::Trouble;
use headwater_sink::kafka::Kafka;
use headwater_testkit::{Kafka as Cluster, KafkaOptions, unique};

use super::talk::{carry, message, refused, settings, with};

#[tokio::test]
async fn a_message_arrives_whole() {
    let cluster = Cluster::shared();
    let topic = unique("whole");
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let mut full = message(&topic, Some("k"), "{\"a\":1}");
    full.address.headers = vec![
        ("id".into(), Bytes::from_static(b"1")),
        ("empty".into(), Bytes::new()),
    ];
    let bare = message(&topic, None, "");
    let heard = carry(&mut kafka, vec![full, bare]).await.unwrap();
    assert_eq!((heard.delivered, heard.refused.len()), (2, 0));
    let found = cluster.consume_all(&[&topic]).await;
    assert_eq!(found.len(), 2);
    assert_eq!(found[0].key.as_deref(), Some(&b"k"[..]));
    assert_eq!(found[0].value.as_deref(), Some(&b"{\"a\":1}"[..]));
    assert_eq!(found[1].key, None);
    assert_eq!(found[1].value.as_deref(), Some(&b""[..]));
}

#[tokio::test]
async fn keys_keep_their_order_and_go_where_the_java_clients_put_them() {
    let cluster = Cluster::shared();
    let topic = unique("order");
    cluster.create_topic(&topic, 12, 1, &[]).await;
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    // The hashes that Kafka's own UtilsTest gives for these keys.
    let keys = [
        ("21", -973_932_308_i32),
        ("foobar", -790_332_482),
        ("abc", 479_470_107),
    ];
    let all = (0..3000).map(|n| message(&topic, Some(keys[n % 3].0), n.to_string()));
    let heard = carry(&mut kafka, all.collect()).await.unwrap();
    assert_eq!(heard.delivered, 3000);
    let found = cluster.consume_all(&[&topic]).await;
    for (rest, (key, hash)) in keys.iter().enumerate() {
        let of_key = found
            .iter()
            .filter(|m| m.key.as_deref() == Some(key.as_bytes()));
        let (mut expected, partition) = (rest, (hash & i32::MAX) % 12);
        for message in of_key {
            assert_eq!(message.partition, partition, "{key}");
            assert_eq!(
                message.value.as_deref().unwrap(),
                expected.to_string().as_bytes()
            );
            expected += 3;
        }
        assert_eq!(expected, 3000 + rest);
    }
}

#[tokio::test]
async fn a_missing_topic_is_created_with_the_brokers_defaults() {
    let cluster = Cluster::start_with(&KafkaOptions {
        settings: vec![("num.partitions".into(), "3".into())],
        ..KafkaOptions::default()
    });
    let mut kafka = Kafka::open(settings(&cluster.brokers())).unwrap();
    let all = (0..100).map(|n| message("made", None, n.to_string()));
    let messages = all.chain([message("made.too", None, "1")]).collect();
    assert_eq!(carry(&mut kafka, messages).await.unwrap().delivered, 101);
    let found = cluster.consume_all(&["made"]).await;
    assert_eq!(found.len(), 100);
    cluster.create_topic("other", 3, 1, &[]).await;
    let partitions = carry(&mut kafka, vec![message("made", Some("abc"), "x")]).await;
    assert_eq!(partitions.unwrap().delivered, 1);
    let found = cluster.consume_all(&["made"]).await;
    let with_key = found.iter().find(|m| m.key.is_some()).unwrap();
    assert_eq!(with_key.partition, 479_470_107 % 3);
}

#[tokio::test]
async fn a_missing_topic_that_must_not_be_created_is_named_with_the_command() {
    let cluster = Cluster::shared();
    let topic = unique("absent");
    let mut settings = settings(&cluster.brokers());
    settings.create_topics = false;
    let mut kafka = Kafka::open(settings).unwrap();
    let why = refused(&mut kafka, &topic).await;
    assert!(
        why.contains(&format!("--create --topic '{topic}'")),
        "{why}"
    );
    cluster.create_topic(&unique("another"), 1, 1, &[]).await;
    assert_eq!(cluster.message_count(&topic).await, 0);
}

#[tokio::test]
async fn a_topic_deleted_under_way_ends_the_run_and_the_next_one_makes_it_again() {
    let cluster = Cluster::shared();
    let topic = unique("deleted");
    // librdkafka gives a topic this long to appear, counted from when it last saw it appear.
    let settings = with(
        settings(&cluster.brokers()),
        &[("topic.metadata.propagation.max.ms", "500")],
    );
    let mut kafka = Kafka::open(settings.clone()).unwrap();
    carry(&mut kafka, vec![message(&topic, None, "1")])
        .await
        .unwrap();
    tokio::time::sleep(std::time::Duration::from_secs(1)).await;
    cluster.delete_topic(&topic).await;
    let error = carry(&mut kafka, vec![message(&topic, None, "2")])
        .await
        .unwrap_err();
    assert!(
        !error.is_fatal() && error.to_string().contains(&topic),
        "{error}"
    );
    drop(kafka);
    let mut kafka = Kafka::open(settings).unwrap();
    carry(&mut kafka, vec![message(&topic, None, "2")])
        .await
        .unwrap();
    assert_eq!(cluster.message_count(&topic).await, 1);
}
