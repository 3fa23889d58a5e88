//! A throwaway Apache Kafka of one or more brokers, and what a test asks of it.

use std::collections::HashMap;
use std::sync::{LazyLock, OnceLock};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use rdkafka::ClientConfig;
use rdkafka::admin::{
    AdminClient, AdminOptions, AlterConfig, NewTopic, ResourceSpecifier, TopicReplication,
};
use rdkafka::client::DefaultClientContext;
use rdkafka::error::RDKafkaErrorCode;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord};
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};

use crate::check;
use crate::load::Written;

mod certificate;
mod issuer;
mod listener;
mod node;
mod reader;
mod tools;

pub use certificate::Certificates;
pub use issuer::{Issuer, Manner};
pub use listener::Listener;
use node::Node;
pub use reader::Consumed;
use reader::{Reader, message_count};

/// How long any single request may take, a broker's start included.
const LIMIT: Duration = Duration::from_mins(1);

/// What a cluster of the test's own is to be.
pub struct KafkaOptions {
    pub nodes: usize,
    /// Also a `SASL_PLAINTEXT` listener on each broker: PLAIN and SCRAM-SHA-512, user `u`, password `p`.
    pub sasl: bool,
    /// Also every [`Listener`], on each broker.
    pub tls: bool,
    /// All of Java's compiler, for benchmarks; it takes a while to warm up.
    pub fast: bool,
    /// Further lines of server.properties.
    pub settings: Vec<(String, String)>,
}

impl Default for KafkaOptions {
    fn default() -> Self {
        Self {
            nodes: 1,
            sasl: false,
            tls: false,
            fast: false,
            settings: Vec::new(),
        }
    }
}

pub struct Kafka {
    nodes: Vec<Node>,
    certificates: Option<Certificates>,
    /// Made by the first [`Kafka::produce`] and kept: making one takes longer than sending.
    producer: OnceLock<FutureProducer>,
}

impl Kafka {
    pub fn start(nodes: usize) -> Self {
        Self::start_with(&KafkaOptions {
            nodes,
            ..KafkaOptions::default()
        })
    }

    pub fn start_with(options: &KafkaOptions) -> Self {
        Self::of(options, false)
    }

    fn of(options: &KafkaOptions, shared: bool) -> Self {
        let certificates = options.tls.then(Certificates::new);
        Self {
            nodes: node::start_all(options, certificates.as_ref(), shared),
            certificates,
            producer: OnceLock::new(),
        }
    }

    /// One broker for all tests of the process. Whoever stops it, stops it for all.
    pub fn shared() -> &'static Self {
        static SHARED: LazyLock<Kafka> =
            LazyLock::new(|| Kafka::of(&KafkaOptions::default(), true));
        &SHARED
    }

    /// For `bootstrap.servers`.
    pub fn brokers(&self) -> String {
        addresses(self.nodes.iter().map(Node::port))
    }

    /// The listeners that want a password.
    pub fn sasl_brokers(&self) -> String {
        addresses(self.nodes.iter().filter_map(Node::sasl_port))
    }

    /// The addresses of one of the listeners of [`KafkaOptions::tls`].
    pub fn listener(&self, listener: Listener) -> String {
        addresses(self.nodes.iter().map(|node| node.listener_port(listener)))
    }

    /// What a client needs for them.
    pub fn certificates(&self) -> &Certificates {
        self.certificates.as_ref().expect("started with tls")
    }

    /// Of broker `node`, counted from 0.
    pub fn port(&self, node: usize) -> u16 {
        self.nodes[node].port()
    }

    pub fn kill9(&self, node: usize) {
        self.nodes[node].kill9();
    }

    /// SIGSTOP: its connections stay, and nothing is answered on them.
    pub fn pause(&self, node: usize) {
        self.nodes[node].signal(Signal::SIGSTOP);
    }

    /// SIGCONT.
    pub fn go_on(&self, node: usize) {
        self.nodes[node].signal(Signal::SIGCONT);
    }

    /// The broker that leads the topic's first partition, counted from 0.
    pub async fn leader(&self, topic: &str) -> usize {
        let (brokers, topic) = (self.brokers(), topic.to_owned());
        let port = blocking(move || reader::leader(&brokers, &topic, LIMIT)).await;
        let mut ports = self.nodes.iter().map(Node::port);
        ports.position(|it| it == port).expect("one of ours")
    }

    /// SIGTERM, and waits for its orderly end.
    pub fn term(&self, node: usize) {
        self.nodes[node].term();
    }

    /// Starts a stopped broker on its old port and data; [`Self::wait_ready`] tells when it takes part.
    pub fn start_again(&self, node: usize) {
        self.nodes[node].start();
    }

    /// What the broker logged so far.
    pub fn log(&self, node: usize) -> String {
        self.nodes[node].log()
    }

    /// Until every started broker is in the cluster and every partition of every topic has a leader.
    pub async fn wait_ready(&self) {
        let running = self.nodes.iter().filter(|n| n.is_running()).count();
        let brokers = self.brokers();
        blocking(move || reader::wait_ready(&brokers, running, LIMIT)).await;
    }

    /// Returns once every partition has a leader; a topic of that name that is there already is left as it is.
    pub async fn create_topic(
        &self,
        name: &str,
        partitions: i32,
        replication: i32,
        settings: &[(&str, &str)],
    ) {
        let mut topic = NewTopic::new(name, partitions, TopicReplication::Fixed(replication));
        for (key, value) in settings {
            topic = topic.set(key, value);
        }
        let admin = self.admin();
        let end = Instant::now() + LIMIT;
        loop {
            let error = match admin.create_topics([&topic], &patient()).await {
                Ok(results) => match results.into_iter().next() {
                    None | Some(Ok(_) | Err((_, RDKafkaErrorCode::TopicAlreadyExists))) => break,
                    Some(Err((_, code))) => code.to_string(),
                },
                Err(error) => error.to_string(),
            };
            assert!(Instant::now() < end, "topic {name} not created: {error}");
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
        let (brokers, name) = (self.brokers(), name.to_owned());
        blocking(move || reader::wait_for_leaders(&brokers, &name, LIMIT)).await;
    }

    /// The topic's settings, defaults included.
    pub async fn topic_config(&self, name: &str) -> HashMap<String, String> {
        let admin = self.admin();
        let asked = [ResourceSpecifier::Topic(name)];
        let results = admin.describe_configs(&asked, &patient()).await.unwrap();
        let config = results.into_iter().next().unwrap().unwrap();
        let pairs = config.entries.into_iter();
        pairs.filter_map(|e| Some((e.name, e.value?))).collect()
    }

    /// Gives a topic these settings; all others become the defaults.
    pub async fn set_topic(&self, name: &str, settings: &[(&str, &str)]) {
        let mut config = AlterConfig::new(ResourceSpecifier::Topic(name));
        for (key, value) in settings {
            config = config.set(key, value);
        }
        let altered = self.admin().alter_configs([&config], &patient()).await;
        for result in altered.unwrap() {
            result.unwrap();
        }
        // It answers before all of it has heard.
        tokio::time::sleep(Duration::from_millis(300)).await;
    }

    pub async fn partitions(&self, name: &str) -> usize {
        let (brokers, name) = (self.brokers(), name.to_owned());
        blocking(move || reader::partition_count(&brokers, &name)).await
    }

    /// The copies that each partition was made with.
    pub async fn replication(&self, name: &str) -> Vec<usize> {
        let (brokers, name) = (self.brokers(), name.to_owned());
        blocking(move || reader::replication(&brokers, &name)).await
    }

    /// Removes what lies before `offset` in one partition.
    pub async fn delete_records(&self, topic: &str, partition: i32, offset: i64) {
        let mut list = TopicPartitionList::new();
        list.add_partition_offset(topic, partition, Offset::Offset(offset))
            .unwrap();
        let admin = self.admin();
        let result = admin.delete_records(&list, &patient()).await.unwrap();
        for element in result.elements() {
            element.error().unwrap();
        }
    }

    /// Returns when the topic is gone from the cluster's metadata.
    pub async fn delete_topic(&self, name: &str) {
        let admin = self.admin();
        let results = admin.delete_topics(&[name], &patient()).await.unwrap();
        for result in results {
            result.unwrap();
        }
        let (brokers, name) = (self.brokers(), name.to_owned());
        blocking(move || reader::wait_gone(&brokers, &name, LIMIT)).await;
    }

    /// Without a value: a tombstone.
    pub async fn produce(&self, topic: &str, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.produce_with(topic, key, &[], value).await;
    }

    /// With headers.
    pub async fn produce_with(
        &self,
        topic: &str,
        key: Option<&[u8]>,
        headers: &[(&str, &[u8])],
        value: Option<&[u8]>,
    ) {
        let producer = self.producer.get_or_init(|| {
            let mut config = client(&self.brokers());
            config.set("partitioner", "murmur2_random");
            config.create().unwrap()
        });
        let mut record: FutureRecord<'_, [u8], [u8]> = FutureRecord::to(topic);
        record.key = key;
        record.payload = value;
        let empty = OwnedHeaders::new_with_capacity(headers.len());
        let all = headers.iter().fold(empty, |all, (key, value)| {
            let value = Some(*value);
            all.insert(Header { key, value })
        });
        record.headers = Some(all).filter(|_| !headers.is_empty());
        let sent = producer.send(record, LIMIT).await;
        sent.unwrap_or_else(|(e, _)| panic!("{topic}: {e}"));
    }

    /// Everything that the topics hold now, each partition in the order of its offsets. A topic that does not exist
    /// holds nothing.
    pub async fn consume_all(&self, topics: &[&str]) -> Vec<Consumed> {
        let mut reader = Reader::new(&self.brokers(), topics);
        blocking(move || {
            reader.catch_up();
            reader.seen
        })
        .await
    }

    /// Reads on until every committed event has arrived, or the limit is over: the checker then says what is lost.
    pub async fn consume_until_complete(
        &self,
        topics: &[&str],
        written: &Written,
        limit: Duration,
    ) -> Vec<Consumed> {
        let mut reader = Reader::new(&self.brokers(), topics);
        let end = Instant::now() + limit;
        let mut judged = None;
        loop {
            reader = blocking(move || {
                reader.catch_up();
                reader
            })
            .await;
            // Judging costs more than reading: only when it could be complete, and only once for the same messages.
            let arrived = reader.seen.len();
            let worth_judging = arrived >= written.committed.len() && judged != Some(arrived);
            if worth_judging && check(written, &reader.seen).lost.is_empty() {
                return reader.seen;
            }
            judged = Some(arrived);
            if Instant::now() >= end {
                return reader.seen;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    }

    /// How many messages the topic holds, without reading them.
    pub async fn message_count(&self, topic: &str) -> u64 {
        let (brokers, topic) = (self.brokers(), topic.to_owned());
        blocking(move || message_count(&brokers, &topic)).await
    }

    /// Waits until the topic holds at least `count` messages; false when it does not within the limit.
    pub async fn wait_for_messages(&self, topic: &str, count: u64, limit: Duration) -> bool {
        let end = Instant::now() + limit;
        while self.message_count(topic).await < count {
            if Instant::now() >= end {
                return false;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        true
    }

    fn admin(&self) -> AdminClient<DefaultClientContext> {
        client(&self.brokers()).create().unwrap()
    }
}

fn addresses(ports: impl Iterator<Item = u16>) -> String {
    let all: Vec<String> = ports.map(|port| format!("127.0.0.1:{port}")).collect();
    all.join(",")
}

fn client(brokers: &str) -> ClientConfig {
    let mut config = ClientConfig::new();
    config
        .set("bootstrap.servers", brokers)
        // Tests take brokers away and give them back: look again soon.
        .set("reconnect.backoff.max.ms", "500")
        .set("allow.auto.create.topics", "false");
    config
}

fn patient() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(LIMIT))
        .operation_timeout(Some(LIMIT))
}

async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(done) => done,
        Err(error) => std::panic::resume_unwind(error.into_panic()),
    }
}
