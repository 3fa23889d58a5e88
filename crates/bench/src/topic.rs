//! How far a topic is filled, asked often and cheaply.

use std::time::{Duration, Instant};

use rdkafka::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

pub const PARTITIONS: i32 = 6;

const PATIENCE: Duration = Duration::from_secs(10);
/// Until the first message; then less often, for every question takes time from the brokers.
const FIRST: Duration = Duration::from_millis(5);
const THEN: Duration = Duration::from_millis(20);

/// When the first message was there, and when `count` were.
pub struct Filled {
    pub first: Instant,
    pub last: Instant,
}

pub fn consumer(brokers: &str) -> BaseConsumer {
    ClientConfig::new()
        .set("bootstrap.servers", brokers)
        .set("group.id", "bench")
        .set("enable.auto.commit", "false")
        .create()
        .unwrap()
}

/// Blocks until the topic holds `count` messages.
pub fn fill(brokers: &str, topic: &str, count: u64, limit: Duration) -> Filled {
    let consumer = consumer(brokers);
    let end = Instant::now() + limit;
    let mut first = None;
    loop {
        let now = Instant::now();
        let messages = messages(&consumer, topic);
        if messages > 0 {
            first.get_or_insert(now);
        }
        if let Some(first) = first.filter(|_| messages >= count) {
            return Filled { first, last: now };
        }
        assert!(
            now < end,
            "{topic}: {messages} of {count} messages after {limit:?}"
        );
        std::thread::sleep(if first.is_some() { THEN } else { FIRST });
    }
}

/// One request for all partitions.
fn messages(consumer: &BaseConsumer, topic: &str) -> u64 {
    let mut ends = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        ends.add_partition_offset(topic, partition, Offset::End)
            .unwrap();
    }
    let found = match consumer.offsets_for_times(ends, PATIENCE) {
        // A topic that was just made: nobody can have written to it.
        Err(KafkaError::MetadataFetch(
            RDKafkaErrorCode::LeaderNotAvailable | RDKafkaErrorCode::NotLeaderForPartition,
        )) => return 0,
        found => found.unwrap(),
    };
    let offsets = found.elements().into_iter().map(|it| match it.offset() {
        Offset::Offset(offset) => u64::try_from(offset).unwrap(),
        _ => 0,
    });
    offsets.sum()
}
