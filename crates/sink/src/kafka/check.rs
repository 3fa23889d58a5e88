//! What `headwater check` wants to know about Kafka. Changes nothing.

use std::time::Duration;

use headwater_core::finding::Finding;
use tokio::time::{sleep, timeout};

use super::positions::Sight;
use super::security::is_this_machine;
use super::tools::Tools;
use super::{Kafka, Settings};
use crate::Error;

const REFUSED_WITHIN: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(50);

/// Whether the brokers answer within the limit and let us in, who can read along, and whether the positions topic is as it
/// must be.
pub async fn check(
    settings: Settings,
    positions_topic: Option<&str>,
    limit: Duration,
) -> Vec<Finding> {
    let brokers = settings.brokers.clone();
    let plain_text = plain_text(&settings);
    let kafka = match Kafka::open(settings) {
        Ok(kafka) => kafka,
        Err(error) => return vec![error.into()],
    };
    let mut findings = Vec::new();
    match timeout(limit, kafka.client.brokers()).await {
        Ok(Ok(count)) => findings.push(Finding::ok(format!(
            "Kafka at {brokers} answers ({count} {})",
            if count == 1 { "broker" } else { "brokers" }
        ))),
        Ok(Err(error)) => return vec![error.into()],
        Err(_) => return vec![silent(&brokers, &kafka, limit)],
    }
    findings.extend(plain_text);
    if let Some(error) = refusal(&kafka).await {
        findings.push(error.into());
        return findings;
    }
    if let Some(topic) = positions_topic {
        let positions = kafka.positions(topic, 1, "check");
        findings.push(match timeout(limit, positions.look()).await {
            Ok(Ok(Sight::Compacted)) => {
                Finding::ok(format!("the positions topic \"{topic}\" is compacted"))
            }
            Ok(Ok(Sight::Hidden)) => hidden(topic, kafka.client.tools()),
            Ok(Err(error)) => error.into(),
            Err(_) => silent(&brokers, &kafka, limit),
        });
    }
    findings
}

/// A user who may write to no topic at all is refused a moment after the brokers answered.
async fn refusal(kafka: &Kafka) -> Option<Error> {
    let wait = async {
        loop {
            if let Some(trouble) = kafka.client.trouble() {
                return trouble;
            }
            sleep(PAUSE).await;
        }
    };
    timeout(REFUSED_WITHIN, wait).await.ok()
}

fn hidden(topic: &str, tools: &Tools) -> Finding {
    Finding::warning(
        format!("whether the positions topic \"{topic}\" is compacted cannot be seen"),
        format!("grant it: {}", tools.grant("DescribeConfigs", topic)),
    )
}

/// Only on its way to another machine can anybody read it.
fn plain_text(settings: &Settings) -> Option<Finding> {
    let what = match settings.protocol().as_str() {
        "plaintext" => "events go",
        "sasl_plaintext" => "the login and the events go",
        _ => return None,
    };
    let mut brokers = settings.brokers.split(',').map(str::trim);
    let elsewhere = brokers.find(|broker| !broker.is_empty() && !is_loopback(broker))?;
    Some(Finding::warning(
        format!("{what} to Kafka at {elsewhere} in plain text"),
        "set tls = { mode = \"verify-full\" } under [sink], with ca = FILE if its authority is not one of the system's, unless you trust the network",
    ))
}

/// `host`, `host:port`, `[address]:port`; librdkafka takes a protocol before it as well.
fn is_loopback(broker: &str) -> bool {
    let place = broker.rsplit_once("://").map_or(broker, |(_, place)| place);
    let host = match place
        .strip_prefix('[')
        .and_then(|rest| rest.split_once(']'))
    {
        Some((address, _)) => address,
        None if place.matches(':').count() == 1 => place.split(':').next().unwrap_or(place),
        None => place,
    };
    is_this_machine(host)
}

fn silent(brokers: &str, kafka: &Kafka, limit: Duration) -> Finding {
    let reason = kafka.client.contact().reason();
    let why = if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    };
    if kafka.client.contact().lacks_token() {
        return Finding::problem(
            format!("there is no token for Kafka within {limit:?}{why}"),
            "start the token endpoint, or correct sink.sasl.token_endpoint",
        );
    }
    Finding::problem(
        format!("Kafka at {brokers} does not answer within {limit:?}{why}"),
        "start it, or correct sink.brokers",
    )
}

#[cfg(test)]
mod tests {
    use headwater_core::finding::Level;

    use super::*;

    fn settings(brokers: &str, protocol: Option<&str>) -> Settings {
        let protocol = protocol.map(|value| ("security.protocol".to_owned(), value.to_owned()));
        Settings {
            brokers: brokers.into(),
            client_id: "headwater-shop".into(),
            compression: "none".into(),
            linger: Duration::ZERO,
            max_messages: 1,
            max_bytes: 1,
            create_topics: false,
            topics: Vec::new(),
            passing: super::super::Passing::default(),
            tls: None,
            sasl: None,
            properties: protocol.into_iter().collect(),
        }
    }

    #[test]
    fn plain_text_to_another_machine_is_a_warning() {
        for (brokers, protocol) in [
            ("kafka-1:9092", None),
            ("kafka-1", None),
            ("10.0.0.7:9092", Some("PLAINTEXT")),
            ("10.0.0.7:9092", Some("sasl_plaintext")),
            ("localhost:9092, kafka-2:9092", None),
            ("[2001:db8::1]:9092", None),
            ("127.evil.example:9092", None),
            ("PLAINTEXT://kafka-1:9092", None),
        ] {
            let finding = plain_text(&settings(brokers, protocol)).expect(brokers);
            assert_eq!(finding.level, Level::Warning);
            assert!(finding.mend.unwrap().contains("verify-full"));
        }
    }

    #[test]
    fn plain_text_to_this_machine_and_tls_to_another_are_not() {
        for (brokers, protocol) in [
            ("localhost:9092", None),
            ("Localhost", None),
            ("127.0.0.1:9092,127.1.2.3:9093,", Some("plaintext")),
            ("[::1]:9092", Some("SASL_PLAINTEXT")),
            ("::1", None),
            ("PLAINTEXT://localhost:9092", None),
            ("kafka-1:9093", Some("SSL")),
            ("kafka-1:9093", Some("sasl_ssl")),
        ] {
            assert_eq!(plain_text(&settings(brokers, protocol)), None, "{brokers}");
        }
    }
}
