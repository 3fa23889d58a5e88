//! The one connection to a cluster, shared by the sink, its lookups and the positions; and the questions asked over it.
//!
//! Rule: a question waits until Kafka answers. Each single try is short, so that dropping the question ends it soon.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;
use std::time::Duration;

use headwater_core::trouble::Severity;
use rdkafka::ClientContext;
use rdkafka::admin::{AdminClient, AdminOptions, NewTopic, ResourceSpecifier, TopicReplication};
use rdkafka::client::{Client as Native, DefaultClientContext};
use rdkafka::config::ClientConfig;
use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::metadata::Metadata;
use rdkafka::producer::{Producer as _, PurgeConfig};
use tokio::runtime::Handle;
use tokio::sync::mpsc::UnboundedSender;
use tokio::task::{AbortHandle, spawn_blocking};
use tokio::time::sleep;

use super::contact::{Contact, Ear, Outcome};
use super::login::{self, Held};
use super::polling::{Polling, Producer};
use super::security::Sasl;
use super::settings::{Settings, unusable};
use super::tools::Tools;
use super::verdict::{self, Doing, Verdict};
use crate::Error;

const TRY: Duration = Duration::from_secs(1);
const PAUSE: Duration = Duration::from_millis(200);
const ADMIN_TRY: Duration = Duration::from_secs(10);

#[derive(Clone)]
pub(super) struct Client {
    connection: Arc<Connection>,
    pub settings: Arc<Settings>,
}

pub(super) struct Connection {
    producer: Polling,
    /// For messages that may be refused: a refusal stops nothing but them. Opened for the first of these.
    alone: OnceLock<Polling>,
    /// What keeps the token fresh, of a login by tokens.
    keeper: OnceLock<AbortHandle>,
}

impl Connection {
    pub(super) fn contact(&self) -> &Contact {
        self.producer.context()
    }

    pub(super) fn log_in(&self, held: &Held) -> KafkaResult<()> {
        self.producers()
            .try_for_each(|producer| held.hand_to(producer.client()))
    }

    fn producers(&self) -> impl Iterator<Item = &Polling> {
        std::iter::once(&self.producer).chain(self.alone.get())
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(keeper) = self.keeper.get() {
            keeper.abort();
        }
    }
}

/// What the cluster's metadata says of a topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Presence {
    There {
        partitions: usize,
    },
    /// It exists, and it is not ready yet.
    Coming,
    Missing,
    /// No topic can have this name.
    Illegal,
    Denied,
}

#[derive(Debug, Clone)]
pub(super) struct NewTopicSpec {
    pub name: String,
    /// -1: the broker's default.
    pub partitions: i32,
    /// -1: the broker's default.
    pub replication: i32,
    pub config: Vec<(String, String)>,
}

impl Client {
    pub(super) fn open(
        settings: Settings,
        outcomes: UnboundedSender<Outcome>,
    ) -> Result<Client, Error> {
        if let Some(tls) = &settings.tls {
            tls.check()?;
        }
        // Before librdkafka does it: its threads end a little after `main`, and OpenSSL, cleaned up at the exit, would crash under them.
        openssl_sys::init();
        let contact = Contact::new(Tools::of(&settings), outcomes);
        let producer = begin(&settings.producer()?, Ear(Arc::new(contact)), &settings)?;
        let connection = Arc::new(Connection {
            producer,
            alone: OnceLock::new(),
            keeper: OnceLock::new(),
        });
        if let Some(Sasl::Token(grant)) = &settings.sasl {
            let keeping = login::keep(grant.clone(), Arc::downgrade(&connection));
            let keeping = tokio::spawn(keeping).abort_handle();
            connection.keeper.get_or_init(|| keeping);
        }
        Ok(Client {
            connection,
            settings: Arc::new(settings),
        })
    }

    pub(super) fn producer(&self) -> &Producer {
        &self.connection.producer
    }

    /// The one for messages that travel alone.
    pub(super) fn alone(&self) -> Result<&Producer, Error> {
        let connection = &self.connection;
        if let Some(alone) = connection.alone.get() {
            return Ok(alone);
        }
        let ear = Ear::clone(connection.producer.context());
        let alone = begin(&self.settings.lone_producer()?, ear, &self.settings)?;
        // Without a living token it connects once the next one is handed over.
        if let Some(held) = self.contact().held() {
            let handed = held.hand_to(alone.client());
            handed.map_err(|e| Error::transient(format!("Kafka: {e}")))?;
        }
        Ok(connection.alone.get_or_init(|| alone))
    }

    /// How many messages and requests librdkafka holds.
    pub(super) fn in_flight(&self) -> i32 {
        let producers = self.connection.producers();
        producers.map(|producer| producer.in_flight_count()).sum()
    }

    pub(super) fn contact(&self) -> &Contact {
        self.connection.contact()
    }

    /// Lets a client beside the producer log in; with a password it does so by itself.
    pub(super) fn log_in<C: ClientContext>(&self, client: &Native<C>) -> KafkaResult<()> {
        if !matches!(self.settings.sasl, Some(Sasl::Token(_))) {
            return Ok(());
        }
        // Without a living token it is waited for, as Kafka is.
        let timed_out = KafkaError::Global(Code::OperationTimedOut);
        let held = self.contact().held().ok_or(timed_out)?;
        held.hand_to(client)
    }

    pub(super) fn tools(&self) -> &Tools {
        self.contact().tools()
    }

    /// What no waiting will mend, if there is something. A producer that stopped behind a failed message is not: that
    /// message's own report says what is wrong.
    pub(super) fn trouble(&self) -> Option<Error> {
        if let Some(error) = self.contact().trouble() {
            return Some(error.clone());
        }
        let mut producers = self.connection.producers();
        let broken = producers.find_map(|producer| {
            let fatal = producer.client().fatal_error();
            fatal.filter(|(code, _)| *code != Code::GaplessGuarantee)
        });
        let (code, reason) = broken?;
        Some(match verdict::delivery(code) {
            Verdict::EndRun(Severity::Fatal) => {
                verdict::error(code, Doing::Connecting, self.tools(), &reason)
            }
            _ => Error::transient(format!("the Kafka producer broke: {reason}")),
        })
    }

    /// Whether this message failed because librdkafka stopped behind another one, whose own report is there or will come.
    pub(super) fn stopped_behind_another(&self, code: Code) -> bool {
        let bystander = matches!(
            code,
            Code::Fatal | Code::GaplessGuarantee | Code::PurgeQueue | Code::PurgeInflight
        );
        bystander
            && self
                .producer()
                .client()
                .fatal_error()
                .is_some_and(|(code, _)| code == Code::GaplessGuarantee)
    }

    /// Nothing that waits behind a failed message may be delivered before the failed one is sent again by the next run.
    pub(super) fn give_up(&self) {
        for producer in self.connection.producers() {
            producer.purge(PurgeConfig::default().queue().inflight().non_blocking());
        }
    }

    /// Asks until Kafka answers.
    pub(super) async fn ask<T, Q>(&self, doing: Doing<'_>, question: Q) -> Result<T, Error>
    where
        T: Send + 'static,
        Q: Fn(&Client) -> KafkaResult<T> + Clone + Send + 'static,
    {
        loop {
            if let Some(trouble) = self.trouble() {
                return Err(trouble);
            }
            let (client, question) = (self.clone(), question.clone());
            let answer = spawn_blocking(move || question(&client))
                .await
                .map_err(|e| Error::transient(format!("a question to Kafka broke off: {e}")))?;
            let error = match answer {
                Ok(answer) => {
                    self.contact().answered();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            match verdict::code(&error) {
                Some(code) if verdict::request(code) == Verdict::Wait => {
                    self.contact().lost(&error.to_string());
                }
                Some(code) => {
                    return Err(verdict::error(code, doing, self.tools(), ""));
                }
                None => return Err(Error::transient(format!("Kafka: {error}"))),
            }
            sleep(PAUSE).await;
        }
    }

    /// How many brokers there are.
    pub(super) async fn brokers(&self) -> Result<usize, Error> {
        self.ask(Doing::Connecting, |client| {
            // Any topic's name will do; asking for all topics could be a long answer.
            let metadata = client.metadata(&client.settings.client_id)?;
            Ok(metadata.brokers().len())
        })
        .await
    }

    pub(super) async fn presence(&self, topic: &str) -> Result<Presence, Error> {
        // librdkafka cannot even ask for these.
        if topic.is_empty() || topic.contains('\0') {
            return Ok(Presence::Illegal);
        }
        let name = topic.to_owned();
        self.ask(Doing::LookingAt(topic), move |client| {
            presence(&client.metadata(&name)?)
        })
        .await
    }

    /// By the producer, so that it knows the topic from then on.
    fn metadata(&self, topic: &str) -> KafkaResult<Metadata> {
        self.producer().client().fetch_metadata(Some(topic), TRY)
    }

    /// Whether it was created now; false if it was there already.
    pub(super) async fn create(&self, topic: NewTopicSpec) -> Result<bool, Error> {
        let name = topic.name.clone();
        self.ask(Doing::Creating(&name), move |client| {
            client.try_create(&topic)
        })
        .await
    }

    fn try_create(&self, topic: &NewTopicSpec) -> KafkaResult<bool> {
        let replication = TopicReplication::Fixed(topic.replication);
        let mut new = NewTopic::new(&topic.name, topic.partitions, replication);
        for (key, value) in &topic.config {
            new = new.set(key, value);
        }
        let admin = self.admin()?;
        let results = Handle::current().block_on(admin.create_topics([&new], &options()));
        end_aside(admin);
        match results?.into_iter().next() {
            Some(Err((_, Code::TopicAlreadyExists))) => Ok(false),
            Some(Err((_, code))) => Err(KafkaError::AdminOp(code)),
            _ => Ok(true),
        }
    }

    /// A topic's settings, defaults included; `None` if we may not see them.
    pub(super) async fn topic_settings(
        &self,
        topic: &str,
    ) -> Result<Option<HashMap<String, String>>, Error> {
        let name = topic.to_owned();
        self.ask(Doing::LookingAt(topic), move |client| {
            client.try_topic_settings(&name)
        })
        .await
    }

    fn try_topic_settings(&self, topic: &str) -> KafkaResult<Option<HashMap<String, String>>> {
        let admin = self.admin()?;
        let asked = [ResourceSpecifier::Topic(topic)];
        let results = Handle::current().block_on(admin.describe_configs(&asked, &options()));
        end_aside(admin);
        match results?.into_iter().next() {
            Some(Ok(resource)) => {
                let entries = resource.entries.into_iter();
                Ok(visible(entries.filter_map(|e| Some((e.name, e.value?)))))
            }
            Some(Err(Code::TopicAuthorizationFailed)) | None => Ok(None),
            Some(Err(code)) => Err(KafkaError::AdminOp(code)),
        }
    }

    /// Every topic that we may see.
    pub(super) fn all_topics(&self) -> KafkaResult<Vec<String>> {
        let metadata = self.producer().client().fetch_metadata(None, ADMIN_TRY)?;
        let topics = metadata.topics().iter();
        Ok(topics.map(|topic| topic.name().to_owned()).collect())
    }

    /// One that reads partitions that it is told, in no group.
    pub(super) fn consumer(&self) -> KafkaResult<BaseConsumer> {
        let config = self.settings.consumer();
        let config = config.map_err(|e| KafkaError::ClientCreation(e.to_string()))?;
        let consumer: BaseConsumer = config.create()?;
        self.log_in(consumer.client())?;
        Ok(consumer)
    }

    fn admin(&self) -> KafkaResult<AdminClient<DefaultClientContext>> {
        let config = self.settings.producer();
        let config = config.map_err(|e| KafkaError::ClientCreation(e.to_string()))?;
        let admin: AdminClient<DefaultClientContext> = config.create()?;
        self.log_in(admin.inner())?;
        Ok(admin)
    }
}

fn begin(config: &ClientConfig, ear: Ear, settings: &Settings) -> Result<Polling, Error> {
    let producer = config.create_with_context(ear);
    let producer = producer.map_err(|e| unusable(&e, settings))?;
    Polling::begin(producer).map_err(|e| Error::transient(format!("no thread can be started: {e}")))
}

/// Set when the one who asked has gone: a thread that reads for nobody ends.
pub(super) struct Abandon(pub Arc<AtomicBool>);

impl Drop for Abandon {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Ends a client that was asked its one question. Its threads take up to 100 ms to notice, and no answer waits for that.
pub(super) fn end_aside<T: Send + 'static>(client: T) {
    let ending = thread::Builder::new().name("kafka end".into());
    // Without a thread for it, it was dropped here.
    let _ = ending.spawn(move || drop(client));
}

fn options() -> AdminOptions {
    AdminOptions::new()
        .request_timeout(Some(ADMIN_TRY))
        .operation_timeout(Some(ADMIN_TRY))
}

/// A broker answers without a single setting, and without an error, if we may not see them (Kafka 4.3).
fn visible(entries: impl Iterator<Item = (String, String)>) -> Option<HashMap<String, String>> {
    let entries: HashMap<_, _> = entries.collect();
    (!entries.is_empty()).then_some(entries)
}

fn presence(metadata: &Metadata) -> KafkaResult<Presence> {
    let Some(topic) = metadata.topics().first() else {
        return Ok(Presence::Missing);
    };
    let presence = match topic.error().map(Code::from) {
        Some(Code::UnknownTopicOrPartition) => Presence::Missing,
        Some(Code::InvalidTopic) => Presence::Illegal,
        Some(Code::TopicAuthorizationFailed) => Presence::Denied,
        Some(Code::LeaderNotAvailable) => Presence::Coming,
        Some(code) => return Err(KafkaError::MetadataFetch(code)),
        None if topic.partitions().is_empty() => Presence::Coming,
        None => Presence::There {
            partitions: topic.partitions().len(),
        },
    };
    Ok(presence)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_that_we_may_not_see_are_not_taken_for_absent_ones() {
        assert_eq!(visible(std::iter::empty()), None);
        let one = ("cleanup.policy".to_owned(), "compact".to_owned());
        assert_eq!(visible([one].into_iter()).unwrap().len(), 1);
    }
}
