//! Messages to Kafka, and reports of what became of them.
//!
//! In: messages, each with its ticket. Out: one report a message, in the order in which Kafka answers.
//! Rule: nothing is kept of a message after `send` but its ticket and its id; librdkafka has the copy, also of a refused one.
//! Rule: a message that the broker may refuse travels alone, and behind a refused one nothing is sent.
//! Rule: works inside a tokio runtime. After an error or a refusal it is to be dropped; dropping gives up what is in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use headwater_core::failure::Kind;
use headwater_core::ledger::Ticket;
use headwater_core::message::{Content, Id, Message};
use headwater_core::sink::{Report, Sink, Unsent};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{BaseRecord, Producer as _};
use slab::Slab;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::task::{JoinError, JoinSet};

use crate::Error;

mod back;
mod check;
mod client;
mod contact;
mod doubt;
mod endpoint;
mod grant;
mod login;
mod polling;
mod positions;
mod rights;
mod security;
mod settings;
mod size;
mod token;
mod tools;
mod topic;
mod verdict;

pub use back::{Back, Ends, REPLAY, Reading, Since, Stored};
pub use check::check;
pub use grant::{Endpoint, Grant, ReadSecret};
pub use positions::{KafkaPositions, Made};
pub use rights::rights;
pub use security::{Identity, Mechanism, Sasl, Tls, Verify};
pub use settings::{Settings, forbidden};

use client::Client;
use contact::{Outcome, Refusal};
use doubt::Rules;
use topic::Topic;
use verdict::{Doing, Verdict};

pub struct Kafka {
    client: Client,
    outcomes: UnboundedReceiver<Outcome>,
    sent: Slab<Sent>,
    gate: Gate,
    /// [`Settings::batch_limit`], which is looked at for every message.
    batch_limit: usize,
    topics: HashMap<Arc<str>, Topic>,
    lookups: JoinSet<Found>,
    /// Refused, perhaps only because of others in the batch: they wait for what the topic's rules say.
    doubtful: HashMap<Arc<str>, Vec<(Ticket, Message, Kind)>>,
    ready: VecDeque<Report>,
    broken: Option<Error>,
}

struct Sent {
    ticket: Ticket,
    id: Id,
    content: Content,
}

/// Whether messages are sent, or given back until the next report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// One travels alone: brokers take any first batch of a new producer, also one behind a refused batch.
    Alone,
    /// One was refused.
    Shut,
}

/// What a lookup came back with.
enum Found {
    Topic(Arc<str>, Result<Topic, Error>),
    Rules(Arc<str>, Result<Rules, Error>),
}

impl Kafka {
    /// Does not wait for a broker.
    pub fn open(settings: Settings) -> Result<Kafka, Error> {
        let (tell, outcomes) = unbounded_channel();
        let batch_limit = settings.batch_limit();
        Ok(Kafka {
            client: Client::open(settings, tell)?,
            outcomes,
            sent: Slab::new(),
            gate: Gate::Open,
            batch_limit,
            topics: HashMap::new(),
            lookups: JoinSet::new(),
            doubtful: HashMap::new(),
            ready: VecDeque::new(),
            broken: None,
        })
    }

    /// Where the pipeline `name` keeps its position, over the same connection.
    pub fn positions(&self, topic: &str, replication: u16, name: &str) -> KafkaPositions {
        KafkaPositions::new(self.client.clone(), topic, replication, name)
    }

    fn look_up(&mut self, topic: &Arc<str>) {
        self.topics.insert(Arc::clone(topic), Topic::LookingUp);
        let (client, topic) = (self.client.clone(), Arc::clone(topic));
        self.lookups.spawn(async move {
            let found = topic::find(client, Arc::clone(&topic)).await;
            Found::Topic(topic, found)
        });
    }

    fn send_alone(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        if !self.sent.is_empty() {
            return Err(Unsent::Later(message, ticket));
        }
        self.hand_over(message, ticket)?;
        if self.gate == Gate::Open {
            self.gate = Gate::Alone;
        }
        Ok(())
    }

    fn hand_over(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        let number = self.sent.insert(Sent {
            ticket,
            id: message.id.clone(),
            content: message.content,
        });
        let address = &message.address;
        let mut record =
            BaseRecord::with_opaque_to(&address.topic, number).payload(message.value.as_ref());
        record.key = address.key.as_deref();
        record.headers = headers(&message);
        let Err((error, _)) = self.client.producer().send(record) else {
            return Ok(());
        };
        let ticket = self.sent.remove(number).ticket;
        self.not_taken(&error, message, ticket)
    }

    /// librdkafka did not even queue it.
    fn not_taken(
        &mut self,
        error: &KafkaError,
        message: Message,
        ticket: Ticket,
    ) -> Result<(), Unsent<Error>> {
        let code = match error {
            KafkaError::Nul(_) => Code::InvalidTopic,
            error => verdict::code(error).unwrap_or(Code::Unknown),
        };
        let stopped = self.client.stopped_behind_another(code);
        if stopped {
            self.gate = Gate::Shut;
        }
        if stopped || code == Code::QueueFull {
            return Err(Unsent::Later(message, ticket));
        }
        match verdict::delivery(code) {
            Verdict::Refuse(Kind::TooLarge) => {
                let why = format!(
                    "{} bytes are more than message.max.bytes in sink.properties allows ({})",
                    message.size(),
                    self.client.settings.largest_message()
                );
                self.refuse_unsent(message, ticket, Kind::TooLarge, why)
            }
            Verdict::Refuse(kind) => self.refuse_unsent(message, ticket, kind, code.to_string()),
            _ => {
                let error = self.failed(code, &message.address.topic);
                Err(Unsent::Broken(error))
            }
        }
    }

    /// Only when all before it were reported: a refusal ends the run, and they are to arrive.
    fn refuse_unsent(
        &mut self,
        message: Message,
        ticket: Ticket,
        kind: Kind,
        why: String,
    ) -> Result<(), Unsent<Error>> {
        if !self.sent.is_empty() {
            return Err(Unsent::Later(message, ticket));
        }
        self.refuse(message, ticket, kind, why);
        Ok(())
    }

    fn refuse(&mut self, message: Message, ticket: Ticket, kind: Kind, why: String) {
        self.gate = Gate::Shut;
        self.ready
            .push_back(Report::Refused(ticket, message, kind, why));
    }

    /// The message with this number is lost to this run.
    fn failed(&mut self, code: Code, topic: &str) -> Error {
        let error = self.client.trouble().unwrap_or_else(|| {
            verdict::error(code, Doing::Writing(topic), self.client.tools(), "")
        });
        self.break_off(error)
    }

    fn break_off(&mut self, error: Error) -> Error {
        let error = self.client.contact().fail(error);
        if self.broken.is_none() {
            self.broken = Some(error.clone());
            self.client.give_up();
        }
        error
    }

    fn settle(&mut self, outcome: Outcome) -> Option<Report> {
        match outcome {
            Outcome::Delivered(number) => {
                if self.gate == Gate::Alone {
                    self.gate = Gate::Open;
                }
                return Some(Report::Delivered(self.sent.remove(number).ticket));
            }
            Outcome::Refused(number, refusal) => self.refused(number, *refusal),
            Outcome::Failed(number, code, topic) => {
                self.sent.remove(number);
                if self.client.stopped_behind_another(code) {
                    self.gate = Gate::Shut;
                } else {
                    self.failed(code, &topic);
                }
            }
            Outcome::Trouble => {
                if let Some(trouble) = self.client.trouble() {
                    self.break_off(trouble);
                }
            }
        }
        None
    }

    fn refused(&mut self, number: usize, refusal: Refusal) {
        let Sent {
            ticket,
            id,
            content,
        } = self.sent.remove(number);
        let message = Message {
            id,
            address: refusal.address,
            content,
            value: refusal.value,
        };
        let alone = self.gate == Gate::Alone;
        self.gate = Gate::Shut;
        if alone || doubt::travelled_alone(&message, &self.client.settings) {
            let rules = self.rules(&message.address.topic);
            let why = doubt::why_refused(&message, refusal.kind, rules).unwrap_or_else(|| {
                let size = size::alone(&message);
                format!("Kafka refused its {size} bytes: {}", refusal.code)
            });
            return self.refuse(message, ticket, refusal.kind, why);
        }
        self.doubt(message, ticket, refusal.kind);
    }

    /// As they were when the topic was looked up.
    fn rules(&self, topic: &str) -> Rules {
        match self.topics.get(topic) {
            Some(Topic::Known(rules)) => *rules,
            _ => Rules::default(),
        }
    }

    fn doubt(&mut self, message: Message, ticket: Ticket, kind: Kind) {
        let topic = Arc::clone(&message.address.topic);
        let waiting = self.doubtful.entry(Arc::clone(&topic)).or_default();
        waiting.push((ticket, message, kind));
        if waiting.len() == 1 {
            let client = self.client.clone();
            self.lookups.spawn(async move {
                let rules = topic::rules(&client, &topic).await;
                Found::Rules(topic, rules)
            });
        }
    }

    fn found(&mut self, found: Result<Found, JoinError>) {
        let error = match found {
            Ok(Found::Topic(topic, Ok(state))) => {
                self.topics.insert(topic, state);
                return self.ready.push_back(Report::Room);
            }
            Ok(Found::Rules(topic, Ok(rules))) => return self.judge(&topic, rules),
            Ok(Found::Topic(_, Err(error)) | Found::Rules(_, Err(error))) => error,
            Err(error) => Error::transient(format!("a lookup broke off: {error}")),
        };
        self.break_off(error);
    }

    fn judge(&mut self, topic: &Arc<str>, rules: Rules) {
        for (ticket, message, kind) in self.doubtful.remove(topic).unwrap_or_default() {
            match doubt::judge(&message, kind, rules, &self.client.settings) {
                Ok(why) => self.refuse(message, ticket, kind, why),
                Err(error) => {
                    self.break_off(error);
                }
            }
        }
    }
}

impl Sink for Kafka {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        if let Some(error) = &self.broken {
            return Err(Unsent::Broken(error.clone()));
        }
        if self.gate != Gate::Open {
            return Err(Unsent::Later(message, ticket));
        }
        match self.topics.get(&message.address.topic) {
            Some(Topic::Known(rules)) if rules.may_refuse(&message, self.batch_limit) => {
                self.send_alone(message, ticket)
            }
            Some(Topic::Known(_)) => self.hand_over(message, ticket),
            Some(Topic::LookingUp) => Err(Unsent::Later(message, ticket)),
            Some(Topic::Illegal) => {
                let why = format!("no topic can be named \"{}\"", message.address.topic);
                self.refuse_unsent(message, ticket, Kind::Unroutable, why)
            }
            None => {
                self.look_up(&message.address.topic);
                Err(Unsent::Later(message, ticket))
            }
        }
    }

    fn queued(&self) -> Option<usize> {
        usize::try_from(self.client.producer().in_flight_count()).ok()
    }

    async fn next_report(&mut self) -> Result<Report, Error> {
        loop {
            if let Some(report) = self.ready.pop_front() {
                if matches!(report, Report::Refused(..)) {
                    self.broken.get_or_insert_with(after_a_refusal);
                }
                return Ok(report);
            }
            if let Some(error) = &self.broken {
                return Err(error.clone());
            }
            tokio::select! {
                biased;
                // Never closed: the client, which we hold, has the other end.
                Some(outcome) = self.outcomes.recv() => {
                    if let Some(report) = self.settle(outcome) {
                        return Ok(report);
                    }
                }
                Some(found) = self.lookups.join_next() => self.found(found),
            }
        }
    }
}

fn after_a_refusal() -> Error {
    Error::transient("nothing is sent behind a message that Kafka refused")
}

fn headers(message: &Message) -> Option<OwnedHeaders> {
    let headers = &message.address.headers;
    if headers.is_empty() {
        return None;
    }
    let empty = OwnedHeaders::new_with_capacity(headers.len());
    Some(headers.iter().fold(empty, |all, (key, value)| {
        all.insert(Header {
            key,
            value: Some(value.as_ref()),
        })
    }))
}
