//! What the sink is told of Kafka, but for the login.

use headwater_core::failure::Kind;
use headwater_core::pattern::Pattern;
use headwater_sink::kafka;

use crate::config::{self, Compression, Config, ConfigError, KafkaTlsMode};
use crate::parts;

/// A property that would break a promise is refused with its line.
pub(super) fn settings(
    config: &Config,
    kafka: &config::Kafka,
) -> Result<kafka::Settings, ConfigError> {
    let bound = parts::bound(config);
    let mut properties = Vec::new();
    for property in &kafka.properties {
        let config::Property { name, value } = property.value();
        if let Some(reason) = kafka::forbidden(name) {
            return Err(property.problem(format!("may not be set: {reason}")));
        }
        properties.push((name.clone(), value.expose().to_owned()));
    }
    Ok(kafka::Settings {
        brokers: kafka.brokers.clone(),
        client_id: format!("headwater-{}", config.name()),
        compression: match kafka.compression {
            Compression::None => "none",
            Compression::Gzip => "gzip",
            Compression::Snappy => "snappy",
            Compression::Lz4 => "lz4",
            Compression::Zstd => "zstd",
        }
        .into(),
        linger: kafka.linger,
        max_messages: bound.messages,
        max_bytes: bound.bytes,
        create_topics: kafka.create_topics,
        topics: kafka.topics.iter().map(new_topics).collect(),
        passing: passing(config),
        tls: kafka.tls.as_ref().map(tls),
        sasl: None,
        properties,
    })
}

fn new_topics(rule: &config::TopicRule) -> kafka::NewTopics {
    let number = |number: Option<u32>| number.and_then(|it| i32::try_from(it).ok());
    kafka::NewTopics {
        pattern: Pattern::parse(&rule.pattern),
        partitions: number(rule.partitions),
        replication: number(rule.replication),
        settings: rule.settings.clone(),
    }
}

/// The kinds that become letters; and where any does, a letter that is too large is cut.
fn passing(config: &Config) -> kafka::Passing {
    let kinds: Vec<Kind> = config.failure().policy.kinds().collect();
    let passing = kafka::Passing::of(&kinds);
    if kinds.is_empty() {
        passing
    } else {
        passing.cutting(parts::dead_letter_topic(config))
    }
}

fn tls(tls: &config::KafkaTls) -> kafka::Tls {
    kafka::Tls {
        verify: match tls.mode {
            KafkaTlsMode::Require => kafka::Verify::Nothing,
            KafkaTlsMode::VerifyCa => kafka::Verify::Authority,
            KafkaTlsMode::VerifyFull => kafka::Verify::Name,
        },
        ca: tls.ca.clone(),
        identity: tls
            .identity
            .clone()
            .map(|(cert, key)| kafka::Identity { cert, key }),
    }
}
