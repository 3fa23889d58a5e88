//! What `headwater check` wants to know about Kafka. Changes nothing.

use std::time::Duration;

use headwater_core::finding::Finding;
use tokio::time::timeout;

use super::{Kafka, Settings};

/// Whether the brokers answer within the limit and let us in, and whether the positions topic is as it must be.
pub async fn check(
    settings: Settings,
    positions_topic: Option<&str>,
    limit: Duration,
) -> Vec<Finding> {
    let brokers = settings.brokers.clone();
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
    if let Some(topic) = positions_topic {
        let positions = kafka.positions(topic, 1, "check");
        findings.push(match timeout(limit, positions.verify()).await {
            Ok(Ok(())) => Finding::ok(format!("the positions topic \"{topic}\" is compacted")),
            Ok(Err(error)) => error.into(),
            Err(_) => silent(&brokers, &kafka, limit),
        });
    }
    findings
}

fn silent(brokers: &str, kafka: &Kafka, limit: Duration) -> Finding {
    let reason = kafka.client.contact().reason();
    let why = if reason.is_empty() {
        String::new()
    } else {
        format!(" ({reason})")
    };
    Finding::problem(
        format!("Kafka at {brokers} does not answer within {limit:?}{why}"),
        "start it, or correct sink.brokers",
    )
}
