//! What is asked of librdkafka: the settings that keep our promises are forced, the others can be chosen.

use std::fmt;
use std::time::Duration;

use headwater_core::pattern::Pattern;
use rdkafka::ClientConfig;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::KafkaError;

use super::passing::Passing;
use super::security::{self, Sasl, Tls};
use crate::Error;

/// A batch that the broker finds too large is refused whole: far below the 1 MiB that a topic takes unless told otherwise.
const BATCH_SIZE: usize = 512 * 1024;
/// librdkafka's own default.
const LARGEST_MESSAGE: usize = 1_000_000;

#[derive(Clone)]
pub struct Settings {
    /// `host:port`, several with commas.
    pub brokers: String,
    pub client_id: String,
    /// `none`, `gzip`, `snappy`, `lz4`, `zstd`.
    pub compression: String,
    pub linger: Duration,
    /// What the caller lets be in flight at most: librdkafka's queue is made larger than that.
    pub max_messages: usize,
    pub max_bytes: usize,
    /// Whether missing topics are created, as `topics` says, and else with the broker's defaults.
    pub create_topics: bool,
    pub topics: Vec<NewTopics>,
    /// The refusals that the caller goes on behind.
    pub passing: Passing,
    /// `None`: plain text, unless the properties say otherwise.
    pub tls: Option<Tls>,
    pub sasl: Option<Sasl>,
    /// Other librdkafka settings.
    pub properties: Vec<(String, String)>,
}

/// How topics are created whose names a pattern matches.
#[derive(Debug, Clone)]
pub struct NewTopics {
    pub pattern: Pattern,
    /// None: the broker's default.
    pub partitions: Option<i32>,
    pub replication: Option<i32>,
    pub settings: Vec<(String, String)>,
}

/// Properties may hold passwords and keys: only their names are shown.
impl fmt::Debug for Settings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.properties.iter().map(|(k, _)| k.as_str()).collect();
        f.debug_struct("Settings")
            .field("brokers", &self.brokers)
            .field("client_id", &self.client_id)
            .field("compression", &self.compression)
            .field("linger", &self.linger)
            .field("max_messages", &self.max_messages)
            .field("max_bytes", &self.max_bytes)
            .field("create_topics", &self.create_topics)
            .field("topics", &self.topics)
            .field("tls", &self.tls)
            .field("sasl", &self.sasl)
            .field("properties", &names)
            .finish_non_exhaustive()
    }
}

/// Why a property may not be set by hand; `None` if it may.
pub fn forbidden(property: &str) -> Option<&'static str> {
    let reason = match property {
        "acks" | "request.required.acks" => {
            "a message counts as delivered only when all in-sync replicas have it"
        }
        "enable.idempotence" => "without it a retry could double or reorder messages",
        "message.timeout.ms" | "delivery.timeout.ms" => {
            "messages must not expire while a broker is away"
        }
        "retries" | "message.send.max.retries" => {
            "a message is tried until the broker has taken or refused it"
        }
        "max.in.flight" | "max.in.flight.requests.per.connection" => {
            "more than five requests at once could reorder messages"
        }
        "queuing.strategy" => "messages of one key keep their order",
        "partitioner" => "a key must go to the partition that the Java clients choose for it",
        "allow.auto.create.topics" => "topics are created by sink.create_topics alone",
        "enable.gapless.guarantee" => "nothing may be sent behind a refused message: it is forced",
        "transactional.id" | "transaction.timeout.ms" => "transactions are not built yet",
        "delivery.report.only.error" => "every delivery must be reported",
        "bootstrap.servers" | "metadata.broker.list" => "use sink.brokers",
        "client.id" => "it is headwater- and the pipeline's name",
        "linger.ms" | "queue.buffering.max.ms" => "use sink.linger",
        "compression.type" | "compression.codec" => "use sink.compression",
        "queue.buffering.max.messages" | "queue.buffering.max.kbytes" => "use sink.max_in_flight",
        "statistics.interval.ms" => "nothing reads the statistics",
        "group.id" | "isolation.level" | "enable.auto.commit" | "enable.partition.eof" => {
            "it is needed to read the positions topic"
        }
        pretended if pretended.starts_with("test.mock.") => "a pretended cluster keeps nothing",
        _ => return None,
    };
    Some(reason)
}

impl Settings {
    /// Looks for names and values that librdkafka or a promise does not allow, without connecting.
    pub fn check(&self) -> Result<(), Error> {
        self.producer()?
            .create_native_config()
            .map(drop)
            .map_err(|e| unusable(&e, self))
    }

    pub(super) fn producer(&self) -> Result<ClientConfig, Error> {
        let mut config = self.client()?;
        // Twice our own bound, and room for the largest message: only then does librdkafka's queue never fill up first.
        let bytes = self.max_bytes.saturating_mul(2) + self.largest_message();
        config
            .set("acks", "all")
            .set("enable.idempotence", "true")
            // Else librdkafka sends what waits behind a refused message before we hear of the refusal.
            .set("enable.gapless.guarantee", "true")
            .set("message.timeout.ms", "0")
            .set("message.send.max.retries", i32::MAX.to_string())
            .set("max.in.flight.requests.per.connection", "5")
            .set("partitioner", "murmur2_random")
            .set("allow.auto.create.topics", "false")
            .set("queue.buffering.max.ms", millis(self.linger))
            .set("compression.codec", &self.compression)
            .set("batch.size", self.batch_size().to_string())
            .set(
                "queue.buffering.max.messages",
                bounded(self.max_messages.saturating_mul(2) + 1000),
            )
            .set("queue.buffering.max.kbytes", bounded(bytes / 1024 + 1));
        Ok(config)
    }

    /// The same for one message at a time: behind a refused one it goes on.
    pub(super) fn lone_producer(&self) -> Result<ClientConfig, Error> {
        let mut config = self.producer()?;
        config
            .set("enable.gapless.guarantee", "false")
            .set("queue.buffering.max.ms", "0");
        Ok(config)
    }

    /// For reading one topic from its beginning, outside of any group.
    pub(super) fn consumer(&self) -> Result<ClientConfig, Error> {
        let mut config = self.client()?;
        config
            // Never joined: librdkafka only reads an assigned partition when there is a group.
            .set("group.id", &self.client_id)
            .set("enable.auto.commit", "false")
            .set("enable.partition.eof", "true")
            .set("isolation.level", "read_uncommitted")
            .set("auto.offset.reset", "earliest")
            // Of 64 MB by default: what is read is looked at faster than it comes. Of each partition one batch of ours comes at a time, for
            // what a response holds is unpacked as a whole; a larger batch still comes (KIP-74).
            .set("queued.max.messages.kbytes", "8192")
            .set("fetch.message.max.bytes", "131072")
            // A second by default, in which nothing would be read of a partition once the queue was full.
            .set("fetch.queue.backoff.ms", "10");
        Ok(config)
    }

    /// What every client needs, and what the user added.
    fn client(&self) -> Result<ClientConfig, Error> {
        if self.brokers.trim().is_empty() {
            return Err(Error::fatal(
                "no Kafka brokers are named",
                "set sink.brokers, as in brokers = \"localhost:9092\"",
            ));
        }
        let mut config = ClientConfig::new();
        config
            .set_log_level(RDKafkaLogLevel::Debug)
            .set("socket.keepalive.enable", "true")
            // Ten seconds by default: too long a wait after a broker came back.
            .set("reconnect.backoff.max.ms", "2000")
            .set("enable.metrics.push", "false");
        for (name, value) in &self.properties {
            if let Some(reason) = forbidden(name) {
                return Err(Error::fatal(
                    format!("sink.properties must not set {name}"),
                    format!("{reason}; remove it"),
                ));
            }
            config.set(name, value);
        }
        for (name, value) in security::properties(self.tls.as_ref(), self.sasl.as_ref()) {
            config.set(name, value);
        }
        config
            .set("metadata.broker.list", &self.brokers)
            .set("client.id", &self.client_id);
        Ok(config)
    }

    /// `message.max.bytes`: librdkafka itself refuses what is larger.
    pub(super) fn largest_message(&self) -> usize {
        self.number("message.max.bytes").unwrap_or(LARGEST_MESSAGE)
    }

    /// A batch of several messages is never larger than this; a message that is larger travels alone.
    pub(super) fn batch_limit(&self) -> usize {
        self.batch_size().min(self.largest_message())
    }

    pub(super) fn batch_size(&self) -> usize {
        let chosen = self.number("batch.size").unwrap_or(BATCH_SIZE);
        self.passing
            .batch_size()
            .map_or(chosen, |size| size.min(chosen))
    }

    /// Whether no batch has more than one message.
    pub(super) fn one_by_one(&self) -> bool {
        self.number("batch.num.messages") == Some(1)
    }

    /// `security.protocol`, in small letters.
    pub(super) fn protocol(&self) -> String {
        let secured = security::properties(self.tls.as_ref(), self.sasl.as_ref());
        let given = secured.into_iter().next().map(|(_, protocol)| protocol);
        given.unwrap_or_else(|| {
            let property = self.property("security.protocol").unwrap_or("plaintext");
            property.to_ascii_lowercase()
        })
    }

    /// A text of librdkafka's without the values that the user gave: `${NAME}` may stand for a secret in any of them. A file is
    /// no secret, and what is shorter than any secret stays, for it may be a word of the sentence.
    fn without_values(&self, text: &str) -> String {
        let is_file = |name: &str| name.ends_with(".location");
        let hidden = self.properties.iter();
        let hidden = hidden.filter(|(name, value)| value.len() > 4 && !is_file(name));
        hidden.fold(text.to_owned(), |text, (_, value)| {
            text.replace(value.as_str(), "***")
        })
    }

    fn number(&self, property: &str) -> Option<usize> {
        self.property(property)
            .and_then(|value| value.trim().parse().ok())
    }

    /// What the user added; of two values librdkafka takes the last.
    pub(super) fn property(&self, property: &str) -> Option<&str> {
        let mut given = self.properties.iter().rev();
        given
            .find(|(name, _)| name == property)
            .map(|(_, value)| value.as_str())
    }
}

/// What librdkafka says about settings that it does not accept.
pub(super) fn unusable(error: &KafkaError, settings: &Settings) -> Error {
    match error {
        KafkaError::ClientConfig(_, reason, name, value) => {
            let reason = reason.replace(&format!("\"{value}\""), "\"***\"");
            let reason = settings.without_values(&reason);
            Error::fatal(
                format!("librdkafka does not accept the setting {name}: {reason}"),
                format!("correct or remove {name} in [sink] or its properties"),
            )
        }
        other => {
            let reason = settings.without_values(&other.to_string());
            Error::fatal(
                format!("the Kafka client cannot be made: {reason}"),
                "correct the settings of [sink] that it names",
            )
        }
    }
}

/// librdkafka takes milliseconds with a fraction.
fn millis(duration: Duration) -> String {
    format!("{}", duration.as_secs_f64() * 1000.0)
}

/// librdkafka's largest number.
fn bounded(number: usize) -> String {
    i32::try_from(number).unwrap_or(i32::MAX).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(properties: &[(&str, &str)]) -> Settings {
        Settings {
            brokers: "localhost:9092".into(),
            client_id: "shop".into(),
            compression: "lz4".into(),
            linger: Duration::from_micros(1500),
            max_messages: 20_000,
            max_bytes: 16 << 20,
            create_topics: true,
            topics: Vec::new(),
            passing: Passing::default(),
            tls: None,
            sasl: None,
            properties: properties
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
        }
    }

    /// What librdkafka makes of it, defaults and aliases included.
    fn native(settings: &Settings, property: &str) -> String {
        let config = settings.producer().unwrap();
        let native = config.create_native_config().unwrap();
        native.get(property).unwrap()
    }

    #[test]
    fn the_settings_that_keep_our_promises_reach_librdkafka() {
        let settings = settings(&[]);
        for (property, value) in [
            ("enable.idempotence", "true"),
            ("enable.gapless.guarantee", "true"),
            ("max.in.flight", "5"),
            ("retries", "2147483647"),
            ("allow.auto.create.topics", "false"),
            ("linger.ms", "1.5"),
            ("compression.type", "lz4"),
            ("batch.size", "524288"),
            ("queue.buffering.max.messages", "41000"),
            ("queue.buffering.max.kbytes", "33745"),
            ("bootstrap.servers", "localhost:9092"),
            ("client.id", "shop"),
            ("statistics.interval.ms", "0"),
        ] {
            let found = native(&settings, property);
            assert_eq!(
                found.trim_end_matches('0'),
                value.trim_end_matches('0'),
                "{property}"
            );
        }
        // Settings of topics are not shown by the native configuration.
        let config = settings.producer().unwrap();
        assert_eq!(config.get("acks"), Some("all"));
        assert_eq!(config.get("message.timeout.ms"), Some("0"));
        assert_eq!(config.get("partitioner"), Some("murmur2_random"));
    }

    #[test]
    fn a_property_that_would_break_a_promise_is_refused_by_name() {
        for property in [
            "acks",
            "request.required.acks",
            "enable.idempotence",
            "message.timeout.ms",
            "delivery.timeout.ms",
            "retries",
            "message.send.max.retries",
            "max.in.flight",
            "max.in.flight.requests.per.connection",
            "partitioner",
            "allow.auto.create.topics",
            "bootstrap.servers",
            "metadata.broker.list",
            "client.id",
            "linger.ms",
            "queue.buffering.max.ms",
            "queue.buffering.max.messages",
            "queue.buffering.max.kbytes",
            "compression.type",
            "compression.codec",
            "transactional.id",
            "delivery.report.only.error",
            "enable.gapless.guarantee",
            "queuing.strategy",
            "test.mock.num.brokers",
        ] {
            let error = settings(&[(property, "1")]).check().unwrap_err();
            assert!(error.to_string().contains(property), "{error}");
        }
    }

    #[test]
    fn what_is_forced_has_no_alias_that_is_allowed() {
        let settings = settings(&[]);
        let forced = settings.producer().unwrap();
        let chosen = [
            "batch.size",
            "socket.keepalive.enable",
            "reconnect.backoff.max.ms",
            "enable.metrics.push",
        ];
        for name in forced.config_map().keys() {
            assert!(chosen.contains(name) || forbidden(name).is_some(), "{name}");
        }
    }

    #[test]
    fn other_properties_reach_librdkafka() {
        let settings = settings(&[
            ("message.max.bytes", "5000000"),
            ("batch.size", "100000"),
            ("reconnect.backoff.max.ms", "7000"),
        ]);
        assert_eq!(native(&settings, "message.max.bytes"), "5000000");
        assert_eq!(native(&settings, "batch.size"), "100000");
        assert_eq!(native(&settings, "reconnect.backoff.max.ms"), "7000");
        assert_eq!(
            (settings.largest_message(), settings.batch_limit()),
            (5_000_000, 100_000)
        );
    }

    #[test]
    fn an_unknown_property_is_named() {
        let error = settings(&[("bach.size", "1")]).check().unwrap_err();
        assert!(error.to_string().contains("bach.size"), "{error}");
    }

    #[test]
    fn a_setting_that_librdkafka_does_not_take_is_named_without_its_value() {
        let error = settings(&[("security.protocol", "hunter2")])
            .check()
            .unwrap_err();
        let text = error.to_string();
        assert!(
            text.contains("Invalid value \"***\"") && text.contains("security.protocol"),
            "{text}"
        );
        assert!(!text.contains("hunter2"), "{text}");
        let error = settings(&[("socket.timeout.ms", "5")]).check().unwrap_err();
        assert!(error.to_string().contains("value 5 is outside"), "{error}");
    }

    #[test]
    fn a_client_that_cannot_be_made_shows_no_value() {
        let settings = settings(&[
            ("sasl.mechanism", "hunter2"),
            ("ssl.key.location", "key.pem"),
        ]);
        for (said, shown) in [
            ("Unsupported SASL mechanism: hunter2", "mechanism: ***"),
            (
                "ssl.key.location failed: key.pem",
                "ssl.key.location failed: key.pem",
            ),
        ] {
            let error = KafkaError::ClientCreation(said.into());
            let text = unusable(&error, &settings).to_string();
            assert!(text.contains(shown) && !text.contains("hunter2"), "{text}");
        }
        let short = KafkaError::ClientConfig(
            rdkafka::types::RDKafkaConfRes::RD_KAFKA_CONF_INVALID,
            "Invalid value \"pin\" for \"ssl.key.password\"".into(),
            "ssl.key.password".into(),
            "pin".into(),
        );
        let text = unusable(&short, &settings).to_string();
        assert!(text.contains("Invalid value \"***\""), "{text}");
    }

    #[test]
    fn secrets_are_not_shown_by_debug() {
        let shown = format!("{:?}", settings(&[("sasl.password", "hunter2")]));
        assert!(
            shown.contains("sasl.password") && !shown.contains("hunter2"),
            "{shown}"
        );
    }

    #[test]
    fn no_brokers_is_an_error_that_names_the_key() {
        let mut settings = settings(&[]);
        settings.brokers = " ".into();
        let error = settings.check().unwrap_err();
        assert!(error.to_string().contains("sink.brokers"), "{error}");
    }

    #[test]
    fn the_consumer_is_not_configured_as_a_producer() {
        let config = settings(&[]).consumer().unwrap();
        assert_eq!(config.get("acks"), None);
        assert_eq!(config.get("enable.auto.commit"), Some("false"));
    }
}
