//! Reads whole topics, patiently: right after a broker's restart too.

use std::collections::HashMap;
use std::thread;
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, RDKafkaErrorCode};
use rdkafka::message::{BorrowedMessage, Headers, Message};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use super::{LIMIT, client};

/// One request's share of the time limit.
const TRY: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);
/// A broker that has just come up may not know its topics yet; one that is unknown for this long does not exist.
const UNKNOWN_FOR: Duration = Duration::from_secs(2);

/// A message as a reader of the topic gets it.
#[derive(Debug, Clone)]
pub struct Consumed {
    pub topic: String,
    pub partition: i32,
    pub offset: i64,
    /// Milliseconds since 1970.
    pub timestamp: Option<i64>,
    pub key: Option<Vec<u8>>,
    pub headers: Vec<(String, Option<Vec<u8>>)>,
    pub value: Option<Vec<u8>>,
}

pub(super) struct Reader {
    consumer: BaseConsumer,
    topics: Vec<String>,
    /// The offset to be read next in each partition that is read.
    next: HashMap<(String, i32), i64>,
    pub(super) seen: Vec<Consumed>,
}

impl Reader {
    pub(super) fn new(brokers: &str, topics: &[&str]) -> Self {
        Self {
            consumer: consumer(brokers),
            topics: topics.iter().map(|&t| t.to_owned()).collect(),
            next: HashMap::new(),
            seen: Vec::new(),
        }
    }

    /// Reads on to where the partitions ended when this was called.
    pub(super) fn catch_up(&mut self) {
        let end = Instant::now() + LIMIT;
        let mut goals = HashMap::new();
        for topic in self.topics.clone() {
            for partition in partitions(&self.consumer, &topic, end) {
                let (low, high) = watermarks(&self.consumer, &topic, partition, end);
                let place = (topic.clone(), partition);
                self.begin(&place, low);
                goals.insert(place, high);
            }
        }
        let mut last_error = None;
        while goals.iter().any(|(place, goal)| self.next[place] < *goal) {
            assert!(
                Instant::now() < end,
                "{:?} not read to its end within {LIMIT:?}; last error: {last_error:?}",
                self.topics
            );
            match self.consumer.poll(PAUSE) {
                None => {}
                Some(Ok(message)) => {
                    let message = own(&message);
                    let place = (message.topic.clone(), message.partition);
                    self.next.insert(place, message.offset + 1);
                    self.seen.push(message);
                }
                // Behind a transaction's last message lies its end mark, an offset that is no message.
                Some(Err(KafkaError::PartitionEOF(partition))) => {
                    for (place, goal) in &goals {
                        if place.1 == partition && self.at_end(place, *goal) {
                            let next = self.next.entry(place.clone()).or_insert(*goal);
                            *next = (*next).max(*goal);
                        }
                    }
                }
                Some(Err(error)) => last_error = Some(error),
            }
        }
    }

    fn begin(&mut self, place: &(String, i32), low: i64) {
        if self.next.contains_key(place) {
            return;
        }
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(&place.0, place.1, Offset::Beginning)
            .unwrap();
        self.consumer.incremental_assign(&list).unwrap();
        self.next.insert(place.clone(), low);
    }

    fn at_end(&self, place: &(String, i32), goal: i64) -> bool {
        let position = self.consumer.position().ok();
        let element = position.and_then(|p| Some(p.find_partition(&place.0, place.1)?.offset()));
        matches!(element, Some(Offset::Offset(offset)) if offset >= goal)
    }
}

pub(super) fn partition_count(brokers: &str, topic: &str) -> usize {
    partitions(&consumer(brokers), topic, Instant::now() + LIMIT).len()
}

pub(super) fn replication(brokers: &str, topic: &str) -> Vec<usize> {
    let all = consumer(brokers).fetch_metadata(Some(topic), TRY).unwrap();
    let partitions = all.topics().iter().flat_map(MetadataTopic::partitions);
    partitions.map(|it| it.replicas().len()).collect()
}

pub(super) fn message_count(brokers: &str, topic: &str) -> u64 {
    let consumer = consumer(brokers);
    let end = Instant::now() + LIMIT;
    let counts = partitions(&consumer, topic, end).into_iter().map(|p| {
        let (low, high) = watermarks(&consumer, topic, p, end);
        u64::try_from(high - low).unwrap_or_default()
    });
    counts.sum()
}

pub(super) fn wait_ready(brokers: &str, running: usize, limit: Duration) {
    let consumer = consumer(brokers);
    let end = Instant::now() + limit;
    loop {
        let state = match consumer.fetch_metadata(None, TRY) {
            Err(error) => error.to_string(),
            Ok(all) if all.brokers().len() < running => {
                format!("{} of {running} brokers", all.brokers().len())
            }
            Ok(all) if !all.topics().iter().all(has_leaders) => "a topic has no leader".to_owned(),
            Ok(_) => return,
        };
        assert!(Instant::now() < end, "Kafka not ready: {state}");
        thread::sleep(PAUSE);
    }
}

pub(super) fn wait_for_leaders(brokers: &str, topic: &str, limit: Duration) {
    let end = Instant::now() + limit;
    let consumer = consumer(brokers);
    while partitions(&consumer, topic, end).is_empty() {}
}

/// The port of the broker that leads the topic's first partition.
pub(super) fn leader(brokers: &str, topic: &str, limit: Duration) -> u16 {
    let end = Instant::now() + limit;
    let consumer = consumer(brokers);
    loop {
        let metadata = consumer.fetch_metadata(Some(topic), TRY);
        let found = metadata.ok().and_then(|metadata| {
            let leader = metadata.topics().first()?.partitions().first()?.leader();
            let broker = metadata.brokers().iter().find(|it| it.id() == leader)?;
            u16::try_from(broker.port()).ok()
        });
        match found {
            Some(port) => return port,
            None => assert!(Instant::now() < end, "topic {topic} has no leader"),
        }
        thread::sleep(PAUSE);
    }
}

pub(super) fn wait_gone(brokers: &str, topic: &str, limit: Duration) {
    let consumer = consumer(brokers);
    let end = Instant::now() + limit;
    while known(&consumer, topic) != Some(false) {
        assert!(Instant::now() < end, "topic {topic} does not go");
        thread::sleep(PAUSE);
    }
}

fn consumer(brokers: &str) -> BaseConsumer {
    client(brokers)
        .set("group.id", "testkit")
        .set("enable.auto.commit", "false")
        .set("enable.partition.eof", "true")
        .set("isolation.level", "read_committed")
        .set("fetch.wait.max.ms", "50")
        .create()
        .unwrap()
}

fn has_leaders(topic: &MetadataTopic) -> bool {
    topic.error().is_none() && topic.partitions().iter().all(|p| p.leader() >= 0)
}

/// Whether the cluster knows the topic; `None` when it did not answer.
fn known(consumer: &BaseConsumer, topic: &str) -> Option<bool> {
    let metadata = consumer.fetch_metadata(Some(topic), TRY).ok()?;
    let Some(found) = metadata.topics().first() else {
        return Some(false);
    };
    match found.error().map(RDKafkaErrorCode::from) {
        Some(RDKafkaErrorCode::UnknownTopicOrPartition | RDKafkaErrorCode::UnknownTopic) => {
            Some(false)
        }
        _ => Some(true),
    }
}

/// The topic's partitions once all have a leader; none if there is no such topic.
fn partitions(consumer: &BaseConsumer, topic: &str, end: Instant) -> Vec<i32> {
    let begun = Instant::now();
    loop {
        if let Ok(metadata) = consumer.fetch_metadata(Some(topic), TRY)
            && let Some(found) = metadata.topics().first()
            && has_leaders(found)
            && !found.partitions().is_empty()
        {
            return found
                .partitions()
                .iter()
                .map(MetadataPartition::id)
                .collect();
        }
        if begun.elapsed() > UNKNOWN_FOR && known(consumer, topic) == Some(false) {
            return Vec::new();
        }
        assert!(
            Instant::now() < end,
            "no leader for topic {topic} within {LIMIT:?}"
        );
        thread::sleep(PAUSE);
    }
}

fn watermarks(consumer: &BaseConsumer, topic: &str, partition: i32, end: Instant) -> (i64, i64) {
    loop {
        match consumer.fetch_watermarks(topic, partition, TRY) {
            Ok(marks) => return marks,
            Err(error) => assert!(Instant::now() < end, "{topic}/{partition}: {error}"),
        }
        thread::sleep(PAUSE);
    }
}

fn own(message: &BorrowedMessage<'_>) -> Consumed {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        let pairs = headers.iter();
        pairs
            .map(|h| (h.key.to_owned(), h.value.map(<[u8]>::to_vec)))
            .collect()
    });
    Consumed {
        topic: message.topic().to_owned(),
        partition: message.partition(),
        offset: message.offset(),
        timestamp: message.timestamp().to_millis(),
        key: message.key().map(<[u8]>::to_vec),
        headers,
        value: message.payload().map(<[u8]>::to_vec),
    }
}
