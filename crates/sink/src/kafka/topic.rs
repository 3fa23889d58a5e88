//! Whether a topic can be written to; a missing one is created if that is allowed.

use std::sync::Arc;
use std::time::{Duration, Instant};

use headwater_core::trouble::Trouble as _;
use tokio::time::sleep;
use tracing::{debug, info};

use super::client::{Client, NewTopicSpec, Presence};
use super::doubt::Rules;
use super::settings::Settings;
use super::topics::{Known, Sight, Topic};
use super::verdict::{self, Doing};
use crate::Error;
use rdkafka::error::RDKafkaErrorCode as Code;

/// A broker that has just started may not know all topics yet: a topic is missing if it is so for this long.
const MISSING_FOR_GOOD: Duration = Duration::from_secs(3);
/// How long a created topic may take to appear before it is created again: somebody may have deleted it at once.
const APPEARS_WITHIN: Duration = Duration::from_secs(10);
const PAUSE: Duration = Duration::from_millis(200);

pub(super) async fn find(client: Client, topic: Arc<str>) -> Result<Sight, Error> {
    let since = Instant::now();
    let mut created: Option<Instant> = None;
    loop {
        match client.presence(&topic).await? {
            Presence::There { partitions } => {
                let rules = first_rules(&client, &topic).await;
                let known = Known::new(rules.of_partitions(partitions));
                return Ok(Sight::Open(Topic::Known(known)));
            }
            Presence::Illegal => return Ok(Sight::Open(Topic::Illegal)),
            Presence::Denied => return Ok(Sight::Closed(denied(&client, &topic))),
            Presence::Missing if !client.settings.create_topics => {
                if since.elapsed() >= MISSING_FOR_GOOD || client.settings.passing.was_denied(&topic)
                {
                    return Ok(Sight::Closed(missing(&client, &topic)));
                }
                sleep(PAUSE).await;
            }
            Presence::Missing if created.is_none_or(|at| at.elapsed() >= APPEARS_WITHIN) => {
                match client.create(blueprint(&client.settings, &topic)).await {
                    Ok(true) => info!(topic = &*topic, "created a topic"),
                    Ok(false) => {}
                    // What is wrong is this topic: its name, its settings, our rights on it.
                    Err(error) if error.is_fatal() && client.trouble().is_none() => {
                        return Ok(Sight::Closed(error));
                    }
                    Err(error) => return Err(error),
                }
                created = Some(Instant::now());
            }
            Presence::Missing | Presence::Coming => sleep(PAUSE).await,
        }
    }
}

/// Makes a topic if it is missing; whether it was.
pub(super) async fn make(client: &Client, topic: &str) -> Result<bool, Error> {
    match client.presence(topic).await? {
        Presence::Missing => client.create(blueprint(&client.settings, topic)).await,
        Presence::Denied => Err(denied(client, topic)),
        Presence::There { .. } | Presence::Coming | Presence::Illegal => Ok(false),
    }
}

/// What the topic asks of messages now, as far as we may see it.
pub(super) async fn rules(client: &Client, topic: &str) -> Result<Rules, Error> {
    let settings = client.topic_settings(topic).await?;
    Ok(settings.map_or_else(Rules::default, |settings| Rules::of(&settings)))
}

/// Without them messages can still be sent, so that a cluster which does not tell is no error.
async fn first_rules(client: &Client, topic: &str) -> Rules {
    let since = Instant::now();
    loop {
        match rules(client, topic).await {
            Ok(rules) => return rules,
            // A broker may not have heard yet of a topic that another one has just created.
            Err(error) if !error.is_fatal() && since.elapsed() < MISSING_FOR_GOOD => {
                sleep(PAUSE).await;
            }
            Err(error) => {
                debug!(topic, %error, "what the topic asks of messages is not known");
                return Rules::default();
            }
        }
    }
}

/// The longest pattern that matches says how; what it leaves open is the broker's default.
pub(super) fn blueprint(settings: &Settings, topic: &str) -> NewTopicSpec {
    let fitting = settings
        .topics
        .iter()
        .filter(|it| it.pattern.matches(topic));
    let rule = fitting.max_by_key(|it| it.pattern.precision());
    NewTopicSpec {
        name: topic.to_owned(),
        partitions: rule.and_then(|it| it.partitions).unwrap_or(-1),
        replication: rule.and_then(|it| it.replication).unwrap_or(-1),
        config: rule.map_or_else(Vec::new, |it| it.settings.clone()),
    }
}

fn denied(client: &Client, topic: &str) -> Error {
    verdict::error(
        Code::TopicAuthorizationFailed,
        Doing::Writing(topic),
        client.tools(),
        "",
    )
}

fn missing(client: &Client, topic: &str) -> Error {
    Error::fatal(
        format!("topic \"{topic}\" does not exist, and sink.create_topics is false"),
        format!("create it: {}", client.tools().create_topic(topic)),
    )
}
