//! Whether a message was refused for itself, or for another one in its batch: brokers refuse a batch whole, and
//! librdkafka gives every member of it the same error.
//!
//! Rule: a message is called refused only if it travelled alone or if the topic's own rules say so; anything else stops,
//! because every further try would end alike.

use std::collections::HashMap;

use headwater_core::failure::Kind;
use headwater_core::message::Message;

use super::settings::Settings;
use super::size;
use super::tools::Tools;
use crate::Error;

/// What a topic asks of messages, as far as we may see it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Rules {
    largest_batch: Option<usize>,
    compacted: bool,
    partitions: Option<usize>,
}

impl Rules {
    pub(super) fn of(topic_settings: &HashMap<String, String>) -> Rules {
        let limits = ["max.message.bytes", "segment.bytes"].into_iter();
        let limits = limits.filter_map(|name| topic_settings.get(name)?.parse().ok());
        let policy = topic_settings.get("cleanup.policy");
        Rules {
            largest_batch: limits.min(),
            compacted: policy.is_some_and(|policy| policy.contains("compact")),
            partitions: None,
        }
    }

    pub(super) fn of_partitions(self, partitions: usize) -> Rules {
        Rules {
            partitions: Some(partitions),
            ..self
        }
    }

    /// Newer settings of the same topic.
    pub(super) fn with_settings_of(self, newer: Rules) -> Rules {
        Rules {
            partitions: self.partitions,
            ..newer
        }
    }

    /// Whether the topic has a partition that was asked for.
    pub(super) fn have(&self, partition: Option<i32>) -> bool {
        match (partition, self.partitions) {
            (Some(wanted), Some(known)) => usize::try_from(wanted).is_ok_and(|it| it < known),
            _ => true,
        }
    }

    pub(super) fn largest_batch(&self) -> Option<usize> {
        self.largest_batch
    }

    /// Whether the broker may refuse this message for itself. What is too large may still fit when compressed, and the
    /// rules may have changed since: the broker decides. Where the limit is not known, what no other message joins anyway
    /// is taken for too large.
    pub(super) fn may_refuse(&self, message: &Message, batch_limit: usize) -> bool {
        size::alone(message) > self.largest_batch.unwrap_or(batch_limit)
            || self.compacted && message.address.key.is_none()
    }
}

/// A message larger than a batch may be is never joined by another.
pub(super) fn travelled_alone(message: &Message, settings: &Settings) -> bool {
    settings.one_by_one() || size::alone(message) > settings.batch_limit() + size::BATCH_HEADER
}

/// What in the rules explains that this message is refused.
pub(super) fn why_refused(message: &Message, kind: Kind, rules: Rules) -> Option<String> {
    let (topic, size) = (&message.address.topic, size::alone(message));
    match (kind, rules.largest_batch) {
        (Kind::TooLarge, Some(limit)) if size > limit => Some(format!(
            "{size} bytes are more than topic \"{topic}\" takes ({limit})"
        )),
        (Kind::TooLarge, _) => None,
        _ if rules.compacted && message.address.key.is_none() => Some(format!(
            "topic \"{topic}\" is compacted and takes no message without a key"
        )),
        _ => None,
    }
}

/// Why this message itself is refused, or the error to stop with if it may be innocent.
pub(super) fn judge(
    message: &Message,
    kind: Kind,
    rules: Rules,
    settings: &Settings,
) -> Result<String, Error> {
    let topic = &message.address.topic;
    why_refused(message, kind, rules).ok_or_else(|| match kind {
        Kind::TooLarge => batch_too_large(topic, rules.largest_batch, settings),
        _ => refused_together(topic),
    })
}

fn batch_too_large(topic: &str, limit: Option<usize>, settings: &Settings) -> Error {
    let takes = limit.map_or_else(String::new, |limit| format!(" of {limit}"));
    let set = limit.map_or_else(
        || "a smaller one".to_owned(),
        |limit| format!("at most {limit}"),
    );
    Error::fatal(
        format!(
            "topic \"{topic}\" has a max.message.bytes{takes}, too little for a batch of several messages (batch.size {})",
            settings.batch_size()
        ),
        format!(
            "set \"batch.size\" in sink.properties to {set}, or raise the limit: {}",
            Tools::of(settings).configure(topic, "max.message.bytes=1048588")
        ),
    )
}

pub(super) fn refused_together(topic: &str) -> Error {
    Error::fatal(
        format!("Kafka refused a batch for topic \"{topic}\" because of a message in it"),
        "look at what the topic asks of its messages (a compacted one asks for keys); to have the one message refused alone, set \"batch.num.messages\" = \"1\" in sink.properties",
    )
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use bytes::Bytes;
    use headwater_core::message::{Address, Content};
    use headwater_core::trouble::Trouble;

    use super::*;

    fn message(key: Option<&'static str>, length: usize) -> Message {
        Message {
            id: "7".into(),
            address: Address {
                key: key.map(|key| Bytes::from_static(key.as_bytes())),
                ..Address::of("shop")
            },
            content: Content::Json,
            value: vec![b'1'; length].into(),
        }
    }

    fn settings(properties: &[(&str, &str)]) -> Settings {
        Settings {
            brokers: "b:1".into(),
            client_id: "shop".into(),
            compression: "none".into(),
            linger: Duration::ZERO,
            max_messages: 1,
            max_bytes: 1,
            create_topics: true,
            topics: Vec::new(),
            passing: super::super::Passing::default(),
            tls: None,
            sasl: None,
            properties: properties
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        }
    }

    fn rules(entries: &[(&str, &str)]) -> Rules {
        let entries = entries.iter();
        let entries = entries.map(|(k, v)| ((*k).to_owned(), (*v).to_owned()));
        Rules::of(&entries.collect())
    }

    #[test]
    fn a_message_larger_than_any_batch_travels_alone() {
        let settings = settings(&[("batch.size", "1000")]);
        assert!(travelled_alone(&message(None, 1001), &settings));
        assert!(!travelled_alone(&message(None, 900), &settings));
    }

    #[test]
    fn with_batches_of_one_every_message_travels_alone() {
        let settings = settings(&[("batch.num.messages", "1")]);
        assert!(travelled_alone(&message(None, 1), &settings));
    }

    #[test]
    fn only_a_message_above_the_limit_is_too_large() {
        let rules = rules(&[("max.message.bytes", "2000"), ("segment.bytes", "1048576")]);
        let settings = settings(&[]);
        let why = judge(&message(None, 3000), Kind::TooLarge, rules, &settings).unwrap();
        assert!(why.contains("(2000)"), "{why}");
        let error = judge(&message(None, 300), Kind::TooLarge, rules, &settings).unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains("at most 2000"),
            "{error}"
        );
    }

    #[test]
    fn what_a_topic_may_refuse_is_told_from_what_it_takes() {
        let small = rules(&[("max.message.bytes", "2000"), ("cleanup.policy", "delete")]);
        assert!(small.may_refuse(&message(None, 2000), 5000));
        assert!(!small.may_refuse(&message(None, 1900), 5000));
        let compacted = rules(&[("cleanup.policy", "compact")]);
        assert!(compacted.may_refuse(&message(None, 1), 5000));
        assert!(!compacted.may_refuse(&message(Some("k"), 1), 5000));
        let unseen = Rules::default();
        assert!(unseen.may_refuse(&message(None, 5000), 5000));
        assert!(!unseen.may_refuse(&message(None, 4900), 5000));
    }

    #[test]
    fn without_a_known_limit_nothing_is_called_too_large() {
        let error = judge(
            &message(None, 3000),
            Kind::TooLarge,
            Rules::default(),
            &settings(&[]),
        );
        assert!(error.unwrap_err().to_string().contains("a smaller one"));
    }

    #[test]
    fn of_a_batch_for_a_compacted_topic_only_messages_without_key_are_refused() {
        let (rules, settings) = (
            rules(&[("cleanup.policy", "compact,delete")]),
            settings(&[]),
        );
        judge(&message(None, 1), Kind::Refused, rules, &settings).unwrap();
        let error = judge(&message(Some("k"), 1), Kind::Refused, rules, &settings).unwrap_err();
        assert!(error.to_string().contains("batch.num.messages"), "{error}");
    }

    #[test]
    fn without_a_rule_that_explains_it_nothing_is_called_refused() {
        let rules = rules(&[("cleanup.policy", "delete")]);
        assert!(judge(&message(None, 1), Kind::Refused, rules, &settings(&[])).is_err());
    }
}
