//! Messages to Kafka, and reports of what became of them.
//!
//! In: messages, each with its ticket. Out: one report a message, in the order in which Kafka answers.
//! Rule: nothing is kept of a message after `send` but its ticket, its id, its topic and a digest of its key; librdkafka has the copy, also of
//! a refused one.
//! Rule: a message that the broker may refuse travels alone, by a producer of its own. Behind a refused one nothing is sent before
//! the caller has heard of it, and then only if it goes on behind refusals of this kind.
//! Rule: works inside a tokio runtime. After an error, or a refusal that it does not go on behind, it is to be dropped; dropping
//! gives up what is in flight.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use headwater_core::failure::Kind;
use headwater_core::ledger::Ticket;
use headwater_core::message::{Content, Id, Message};
use headwater_core::sink::{Report, Sink, Unsent};
use slab::Slab;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};

use crate::Error;

mod back;
mod check;
mod client;
mod contact;
mod doubt;
mod endpoint;
mod grant;
mod login;
mod partitions;
mod passing;
mod polling;
mod positions;
mod rights;
mod security;
mod sending;
mod settings;
mod settling;
mod size;
mod token;
mod tools;
mod topic;
mod topics;
mod verdict;

pub use back::{Back, Ends, REPLAY, Reading, Since, Stored};
pub use check::check;
pub use grant::{Endpoint, Grant, ReadSecret};
pub use passing::Passing;
pub use positions::{KafkaPositions, Made};
pub use rights::rights;
pub use security::{Identity, Mechanism, Sasl, Tls, Verify};
pub use settings::{NewTopics, Settings, forbidden};

use client::Client;
use contact::Outcome;
use topics::{Topics, Way};

pub struct Kafka {
    client: Client,
    outcomes: UnboundedReceiver<Outcome>,
    sent: Slab<Sent>,
    gate: Gate,
    /// [`Settings::batch_limit`], which is looked at for every message.
    batch_limit: usize,
    /// Whether some messages go alone because of what an earlier run saw; looked at for every message.
    suspecting: bool,
    topics: Topics,
    /// Refused, perhaps only because of others in the batch: they wait for what the topic's rules say.
    doubtful: HashMap<Arc<str>, Vec<(Ticket, Message, Kind)>>,
    /// By topic, the batches that were refused without having been foreseen: the run ends with them.
    suspects: HashMap<Arc<str>, Suspects>,
    ready: VecDeque<Report>,
    broken: Option<Error>,
}

struct Sent {
    ticket: Ticket,
    id: Id,
    topic: Arc<str>,
    /// A digest of its key, if it has one and the caller goes on behind refusals.
    key: Option<u64>,
    content: Content,
}

/// The members of refused batches.
#[derive(Default)]
struct Suspects {
    /// Some batch was too large.
    too_large: bool,
    members: Vec<Sent>,
}

/// Whether messages are sent, or given back until the next report.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Gate {
    Open,
    /// One travels alone.
    Alone,
    /// One was refused, and the caller has not heard of it.
    Untold,
    /// For good: brokers take any first batch of a new producer, also one behind a refused batch.
    Shut,
}

impl Kafka {
    /// Does not wait for a broker.
    pub fn open(settings: Settings) -> Result<Kafka, Error> {
        let (tell, outcomes) = unbounded_channel();
        let batch_limit = settings.batch_limit();
        let suspecting = settings.passing.has_suspects();
        let client = Client::open(settings, tell)?;
        Ok(Kafka {
            topics: Topics::new(client.clone()),
            client,
            outcomes,
            sent: Slab::new(),
            gate: Gate::Open,
            batch_limit,
            suspecting,
            doubtful: HashMap::new(),
            suspects: HashMap::new(),
            ready: VecDeque::new(),
            broken: None,
        })
    }

    /// Where the pipeline `name` keeps its position, over the same connection.
    pub fn positions(&self, topic: &str, replication: u16, name: &str) -> KafkaPositions {
        KafkaPositions::new(self.client.clone(), topic, replication, name)
    }

    pub fn makes_topics(&self) -> bool {
        self.client.settings.create_topics
    }

    /// Makes a topic if it is missing; whether it was.
    pub async fn make(&self, topic: &str) -> Result<bool, Error> {
        topic::make(&self.client, topic).await
    }

    fn goes_on_behind(&self, kind: Kind, topic: &str) -> bool {
        self.client.settings.passing.lets_pass(kind, topic)
    }

    fn break_off(&mut self, error: Error) -> Error {
        let error = self.client.contact().fail(error);
        if self.broken.is_none() {
            self.broken = Some(error.clone());
            self.client.give_up();
        }
        error
    }

    /// The caller hears of a refusal.
    fn told(&mut self, kind: Kind, topic: &str) {
        if !self.goes_on_behind(kind, topic) {
            self.broken.get_or_insert_with(after_a_refusal);
        } else if self.gate == Gate::Untold {
            self.gate = Gate::Open;
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
        match self.topics.way(&message, self.batch_limit) {
            Way::Together if self.suspecting && self.client.settings.passing.suspects(&message) => {
                self.send_alone(message, ticket)
            }
            Way::Together => self.send_together(message, ticket),
            Way::Alone => self.send_alone(message, ticket),
            Way::Later => Err(Unsent::Later(message, ticket)),
            Way::Never(kind, why) => self.refuse_unsent(message, ticket, kind, why),
        }
    }

    fn queued(&self) -> Option<usize> {
        usize::try_from(self.client.in_flight()).ok()
    }

    async fn next_report(&mut self) -> Result<Report, Error> {
        loop {
            if let Some(report) = self.ready.pop_front() {
                if let Report::Refused(_, message, refusal) = &report {
                    self.told(refusal.kind, &message.address.topic);
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
                found = self.topics.next() => self.found(found),
            }
        }
    }
}

fn after_a_refusal() -> Error {
    Error::transient("nothing is sent behind a message that Kafka refused")
}
