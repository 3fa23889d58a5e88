//! What `[sink]` and `[position]` mean: where messages go, and where the position is remembered.

use std::path::PathBuf;
use std::time::Duration;

use headwater_core::route::legal;

use super::sasl::{self, Sasl};
use super::security::{self, KafkaTls};
use crate::config::problem::Located;
use crate::config::secret::Secret;
use crate::config::written::Written;

/// librdkafka's own limit of `linger.ms`.
const MOST_LINGER: Duration = Duration::from_mins(15);

const LEAST_BYTES: u64 = 1 << 10;
const MOST_BYTES: u64 = 16 << 30;

#[derive(Clone, Debug)]
pub struct Sink {
    pub kind: SinkKind,
    pub max_in_flight: MaxInFlight,
}

#[derive(Clone, Debug)]
pub enum SinkKind {
    Kafka(Box<Kafka>),
    Stdout,
}

#[derive(Clone, Debug)]
pub struct Kafka {
    /// As librdkafka takes it: `host:port`, several with commas.
    pub brokers: String,
    pub compression: Compression,
    pub linger: Duration,
    pub create_topics: bool,
    pub topics: Vec<TopicRule>,
    /// Absent: plain text, unless the properties say otherwise.
    pub tls: Option<KafkaTls>,
    pub sasl: Option<Sasl>,
    /// Not yet looked at: the sink knows which of them would break a promise.
    pub properties: Vec<Located<Property>>,
}

/// How topics are made whose names a pattern matches.
#[derive(Clone, Debug)]
pub struct TopicRule {
    pub pattern: String,
    pub partitions: Option<u32>,
    pub replication: Option<u32>,
    pub settings: Vec<(String, String)>,
}

/// One of librdkafka's settings. Its value may be a password, so it is a secret.
#[derive(Clone, Debug)]
pub struct Property {
    pub name: String,
    pub value: Secret,
}

/// The bound on what was sent and not yet acked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxInFlight {
    pub messages: u32,
    pub bytes: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    None,
    Gzip,
    Snappy,
    Lz4,
    Zstd,
}

/// Where the position is remembered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PositionStore {
    Topic { name: String, replication: u16 },
    File(PathBuf),
}

pub(super) fn check(written: &mut Written) -> Option<Sink> {
    let max_in_flight = max_in_flight(written);
    let is_kafka = written.word("sink.kind", &[("kafka", true), ("stdout", false)])?;
    let kind = if is_kafka {
        SinkKind::Kafka(Box::new(kafka(written)?))
    } else {
        stdout(written);
        SinkKind::Stdout
    };
    Some(Sink {
        kind,
        max_in_flight: max_in_flight?,
    })
}

fn stdout(written: &mut Written) {
    written.contradict(
        &[
            "sink.brokers",
            "sink.compression",
            "sink.linger",
            "sink.create_topics",
            "sink.tls",
            "sink.sasl",
            "sink.properties",
            "sink.topics",
        ],
        "means nothing with sink.kind = \"stdout\"; remove it, or the kind",
    );
}

fn kafka(written: &mut Written) -> Option<Kafka> {
    let brokers = brokers(written);
    let compression = written.word(
        "sink.compression",
        &[
            ("none", Compression::None),
            ("gzip", Compression::Gzip),
            ("snappy", Compression::Snappy),
            ("lz4", Compression::Lz4),
            ("zstd", Compression::Zstd),
        ],
    );
    let linger = written.duration("sink.linger").filter(|found| {
        let holds = *found.value() <= MOST_LINGER;
        written.rule(found, holds, "is too long; at most \"15m\" is wanted")
    });
    let create_topics = written.flag("sink.create_topics");
    let topics = topics(written, create_topics);
    let properties = properties(written);
    security::contradictions(written, &properties);
    let tls = security::tls(written);
    let sasl = sasl::sasl(written);
    Some(Kafka {
        brokers: brokers?,
        compression: compression?,
        linger: linger?.into_value(),
        create_topics: create_topics?,
        topics,
        tls,
        sasl,
        properties,
    })
}

fn brokers(written: &mut Written) -> Option<String> {
    if written.given("sink.brokers").is_none() {
        let wanted = "\"host:port\" is wanted, or sink.kind = \"stdout\"";
        written.missing("sink.brokers", wanted);
        return None;
    }
    let brokers = written.text("sink.brokers")?;
    let holds = brokers.value().split(',').all(|one| is_broker(one.trim()));
    let what = "is no list of brokers; host:port is wanted, several with commas, without a scheme";
    written
        .rule(&brokers, holds, what)
        .then(|| brokers.into_value())
}

/// `host`, `host:port`, `[v6]` or `[v6]:port`.
fn is_broker(text: &str) -> bool {
    let (host, port) = match text.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
        Some((host, "")) => (host, None),
        Some((host, port)) => (host, port.strip_prefix(':').or(Some(""))),
        None => match text.split_once(':') {
            Some((host, port)) => (host, Some(port)),
            None => (text, None),
        },
    };
    let port_holds = port.is_none_or(|port| port.parse::<u16>().is_ok_and(|port| port > 0));
    !host.is_empty() && !host.contains(['/', ' ', '@']) && port_holds
}

fn topics(written: &mut Written, create: Option<bool>) -> Vec<TopicRule> {
    let mut topics = Vec::new();
    for (pattern, place, mut table) in written.tables("sink.topics") {
        let key = format!("sink.topics.{pattern:?}");
        let name = pattern.strip_suffix('*').unwrap_or(&pattern);
        if pattern != "*" && legal(name).is_err() {
            let what = "matches no topic; a topic's name is wanted, or the beginning of one and *";
            table.refuse(&place, &key, what);
        }
        if create == Some(false) {
            let what = "says nothing beside sink.create_topics = false; remove one of the two";
            table.refuse(&place, &key, what);
        }
        let settings = table.members("sink.topics.settings");
        let settings = settings.into_iter();
        let settings = settings.map(|(name, value)| (name, value.into_value()));
        topics.push(TopicRule {
            settings: settings.collect(),
            partitions: table.integer("sink.topics.partitions", 1..=100_000),
            replication: table.integer("sink.topics.replication", 1..=32_767),
            pattern,
        });
        written.absorb(table);
    }
    topics
}

fn properties(written: &mut Written) -> Vec<Located<Property>> {
    let members = written.members("sink.properties");
    let property = |(name, found): (String, Located<String>)| {
        let (key, place) = (found.key().to_owned(), found.place().clone());
        let value = Secret::new(found.into_value());
        Located::new(key, place, Property { name, value })
    };
    members.into_iter().map(property).collect()
}

fn max_in_flight(written: &mut Written) -> Option<MaxInFlight> {
    let messages = written.integer("sink.max_in_flight.messages", 1..=10_000_000);
    let bytes = written.size("sink.max_in_flight.bytes").filter(|found| {
        let holds = (LEAST_BYTES..=MOST_BYTES).contains(found.value());
        let what = "is out of range; \"1KiB\" to \"16GiB\" is wanted";
        written.rule(found, holds, what)
    });
    Some(MaxInFlight {
        messages: messages?,
        bytes: bytes?.into_value(),
    })
}

/// `sink` is absent if something is wrong with it; its position is checked all the same.
pub(super) fn position(written: &mut Written, sink: Option<&SinkKind>) -> Option<PositionStore> {
    if let Some(place) = written.given("position.file") {
        let what = format!("contradicts position.file ({place}); one of the two is wanted");
        written.contradict(&["position.topic", "position.replication"], &what);
        return written.path("position.file").map(PositionStore::File);
    }
    if let Some(SinkKind::Stdout) = sink {
        let wanted =
            "sink.kind = \"stdout\" has no topic to remember positions in, a path is wanted";
        written.missing("position.file", wanted);
        return None;
    }
    let topic = written.text("position.topic").filter(|topic| {
        let what = "is no topic's name; 1 to 249 of a-z, A-Z, 0-9, . _ and - are wanted";
        written.rule(topic, legal(topic.value()).is_ok(), what)
    });
    let replication = written.integer("position.replication", 1..=32_767);
    Some(PositionStore::Topic {
        name: topic?.into_value(),
        replication: u16::try_from(replication?).ok()?,
    })
}
