//! The positions topic: one record a pipeline, in one compacted partition that all pipelines share.
//!
//! Rule: a record counts as written when all in-sync replicas have it, like any message.

use headwater_core::positions::{Positions, Record};
use rdkafka::error::RDKafkaErrorCode as Code;
use rdkafka::producer::BaseRecord;
use tokio::sync::watch;
use tokio::time::{Duration, sleep};
use tracing::warn;

use super::client::{Client, NewTopicSpec, Presence};
use super::contact::Written;
use super::verdict::{self, Doing};
use crate::Error;

mod read;

const PAUSE: Duration = Duration::from_millis(200);

pub struct KafkaPositions {
    client: Client,
    topic: String,
    replication: u16,
    name: String,
    came_back: watch::Receiver<Written>,
    under_way: Option<UnderWay>,
}

/// A record that is not known to be safe yet.
enum UnderWay {
    /// There was no room for it in librdkafka's queue.
    Waiting(Vec<u8>),
    Sent(usize),
}

/// What `init` did.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Made {
    Created,
    AlreadyThere,
}

/// What could be seen of a topic that is fit as far as one can see.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sight {
    Compacted,
    /// We may not see its settings.
    Hidden,
}

impl KafkaPositions {
    pub(super) fn new(client: Client, topic: &str, replication: u16, name: &str) -> KafkaPositions {
        KafkaPositions {
            came_back: client.contact().watch_positions(),
            client,
            topic: topic.to_owned(),
            replication,
            name: name.to_owned(),
            under_way: None,
        }
    }

    /// Waits for Kafka to answer.
    pub async fn exists(&self) -> Result<bool, Error> {
        Ok(self.partitions().await?.is_some())
    }

    /// Creates the topic, unless it is there.
    pub async fn init(&self) -> Result<Made, Error> {
        if self.exists().await? {
            return Ok(Made::AlreadyThere);
        }
        let created = self.client.create(self.blueprint().await?).await?;
        while !self.exists().await? {
            sleep(PAUSE).await;
        }
        Ok(if created {
            Made::Created
        } else {
            Made::AlreadyThere
        })
    }

    /// That the topic is there and keeps the last record of each pipeline for ever.
    pub async fn verify(&self) -> Result<(), Error> {
        if self.look().await? == Sight::Hidden {
            warn!(
                topic = self.topic,
                "not allowed to see whether the positions topic is compacted"
            );
        }
        Ok(())
    }

    /// The same, for those who tell about it themselves.
    pub(super) async fn look(&self) -> Result<Sight, Error> {
        let topic = &self.topic;
        match self.partitions().await? {
            Some(1) => {}
            None => {
                return Err(Error::fatal(
                    format!("the positions topic \"{topic}\" does not exist"),
                    "run `headwater init`, which creates it; if it was lost, `headwater adopt` goes on from the slot's own position",
                ));
            }
            Some(partitions) => {
                return Err(Error::fatal(
                    format!(
                        "the positions topic \"{topic}\" has {partitions} partitions instead of one"
                    ),
                    "name another topic in position.topic and run `headwater init`, which creates it",
                ));
            }
        }
        let Some(settings) = self.client.topic_settings(topic).await? else {
            return Ok(Sight::Hidden);
        };
        let policy = settings.get("cleanup.policy").map_or("", String::as_str);
        if policy == "compact" {
            return Ok(Sight::Compacted);
        }
        Err(Error::fatal(
            format!(
                "the positions topic \"{topic}\" would lose its records (cleanup.policy is \"{policy}\")"
            ),
            format!(
                "make it compacted: {}",
                self.client
                    .tools()
                    .configure(topic, "cleanup.policy=compact")
            ),
        ))
    }

    /// The records of all names that begin with ours and with what follows it, such as those of its replays.
    pub async fn beginning(&self, with: &str) -> Result<Vec<Record>, Error> {
        if !self.exists().await? {
            return Ok(Vec::new());
        }
        let name = format!("{}{with}", self.name);
        read::beginning(&self.client, &self.topic, &name).await
    }

    /// How many partitions the topic has, if it exists.
    async fn partitions(&self) -> Result<Option<usize>, Error> {
        loop {
            match self.client.presence(&self.topic).await? {
                Presence::There { partitions } => return Ok(Some(partitions)),
                Presence::Missing => return Ok(None),
                Presence::Coming => sleep(PAUSE).await,
                Presence::Denied => {
                    return Err(self.error(
                        Code::TopicAuthorizationFailed,
                        Doing::LookingAt(&self.topic),
                    ));
                }
                Presence::Illegal => {
                    return Err(Error::fatal(
                        format!("no topic can be named \"{}\"", self.topic),
                        "set position.topic to letters, digits, '.', '_' and '-'",
                    ));
                }
            }
        }
    }

    async fn blueprint(&self) -> Result<NewTopicSpec, Error> {
        let brokers = self.client.brokers().await?;
        let wanted = usize::from(self.replication.max(1));
        let replication = wanted.min(brokers.max(1));
        if replication < wanted {
            warn!(
                topic = self.topic,
                wanted,
                replication,
                "fewer replicas of the positions topic: the cluster is smaller"
            );
        }
        // Compaction leaves the segment that is being written alone: small ones keep a start from reading days of records.
        let config = [
            ("cleanup.policy", "compact"),
            ("segment.bytes", "1048576"),
            ("segment.ms", "600000"),
            ("min.cleanable.dirty.ratio", "0.1"),
            ("delete.retention.ms", "60000"),
            // Not the cluster's own, which may ask for more replicas than there are.
            (
                "min.insync.replicas",
                if replication > 2 { "2" } else { "1" },
            ),
        ];
        Ok(NewTopicSpec {
            name: self.topic.clone(),
            partitions: 1,
            replication: i32::try_from(replication).unwrap_or(i32::MAX),
            config: config.map(|(k, v)| (k.to_owned(), v.to_owned())).into(),
        })
    }

    fn send(&mut self, value: Vec<u8>) -> Result<(), Error> {
        let number = self.client.contact().number_position();
        let record = BaseRecord::with_opaque_to(&self.topic, number)
            .partition(0)
            .key(&self.name)
            .payload(&value);
        self.under_way = match self.client.producer().send(record) {
            Ok(()) => Some(UnderWay::Sent(number)),
            Err((error, _)) => match verdict::code(&error) {
                Some(code)
                    if code == Code::QueueFull || self.client.stopped_behind_another(code) =>
                {
                    Some(UnderWay::Waiting(value))
                }
                code => return Err(self.not_written(code.unwrap_or(Code::Unknown))),
            },
        };
        Ok(())
    }

    fn not_written(&self, code: Code) -> Error {
        self.client
            .trouble()
            .unwrap_or_else(|| self.error(code, Doing::Writing(&self.topic)))
    }

    fn error(&self, code: Code, doing: Doing<'_>) -> Error {
        verdict::error(code, doing, self.client.tools(), "")
    }
}

impl Positions for KafkaPositions {
    type Error = Error;

    async fn read(&mut self) -> Result<Option<Record>, Error> {
        match self.partitions().await? {
            None => Ok(None),
            Some(_) => read::newest(&self.client, &self.topic, &self.name).await,
        }
    }

    fn write(&mut self, record: &Record) -> Result<(), Error> {
        let value = serde_json::to_vec(record)
            .map_err(|e| Error::transient(format!("a position cannot be written as JSON: {e}")))?;
        self.send(value)
    }

    async fn written(&mut self) -> Result<(), Error> {
        loop {
            match &mut self.under_way {
                None => std::future::pending().await,
                Some(UnderWay::Waiting(value)) => {
                    sleep(PAUSE).await;
                    let value = std::mem::take(value);
                    self.send(value)?;
                }
                Some(UnderWay::Sent(number)) => {
                    let number = *number;
                    let back = self.came_back.wait_for(|w| w.number >= number).await;
                    let failed = back.map_or(Some(Code::PurgeQueue), |written| written.failed);
                    self.under_way = None;
                    match failed {
                        None => return Ok(()),
                        // The sink stopped at a message that Kafka refused, and is about to say so.
                        Some(code) if self.client.stopped_behind_another(code) => {}
                        Some(code) => return Err(self.not_written(code)),
                    }
                }
            }
        }
    }
}
