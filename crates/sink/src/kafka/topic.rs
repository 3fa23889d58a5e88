//! Whether a topic can be written to; a missing one is created if that is allowed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio::time::sleep;
use tracing::info;

use super::client::{Client, NewTopicSpec, Presence};
use super::verdict::{self, Doing, create_command};
use crate::Error;
use rdkafka::error::RDKafkaErrorCode as Code;

/// A broker that has just started may not know all topics yet: a topic is missing if it is so for this long.
const MISSING_FOR_GOOD: Duration = Duration::from_secs(3);
/// How long a created topic may take to appear before it is created again: somebody may have deleted it at once.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Topic {
    Known,
    LookingUp,
    /// No topic can have this name.
    Illegal,
}

pub(super) async fn find(client: Client, topic: Arc<str>) -> Result<Topic, Error> {
    let since = Instant::now();
    let mut created: Option<Instant> = None;
    loop {
        match client.presence(&topic).await? {
            Presence::There { .. } => return Ok(Topic::Known),
            Presence::Illegal => return Ok(Topic::Illegal),
            Presence::Denied => return Err(denied(&client, &topic)),
            Presence::Missing if !client.settings.create_topics => {
                if since.elapsed() >= MISSING_FOR_GOOD {
                    return Err(missing(&client, &topic));
                }
                sleep(PAUSE).await;
            }
            Presence::Missing if created.is_none_or(|at| at.elapsed() >= APPEARS_WITHIN) => {
                if client.create(with_defaults(&topic)).await? {
                    info!(topic = &*topic, "created a topic");
                }
                created = Some(Instant::now());
            }
            Presence::Missing | Presence::Coming => sleep(PAUSE).await,
        }
    }
}

fn with_defaults(topic: &str) -> NewTopicSpec {
    NewTopicSpec {
        name: topic.to_owned(),
        partitions: -1,
        replication: -1,
        config: Vec::new(),
    }
}

fn denied(client: &Client, topic: &str) -> Error {
    let brokers = &client.settings.brokers;
    verdict::error(
        Code::TopicAuthorizationFailed,
        Doing::Writing(topic),
        brokers,
        "",
    )
}

fn missing(client: &Client, topic: &str) -> Error {
    Error::fatal(
        format!("topic \"{topic}\" does not exist, and sink.create_topics is false"),
        format!(
            "create it: {}",
            create_command(topic, &client.settings.brokers)
        ),
    )
}
