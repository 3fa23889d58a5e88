//! Dead letters of a pipeline: made of rows that cannot be published and of messages that the broker refused, if the policy says so.
//!
//! Rule: a letter takes the place of its message, ticket included, so that nothing is confirmed before it was acked.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use headwater_core::dead_letter::{Surroundings, letter};
use headwater_core::event::Roles;
use headwater_core::failure::{Failure, Kind, Policy};
use headwater_core::instant::Instant;
use headwater_core::message::Message;
use headwater_core::row::{Row, Value};

use crate::clock;

/// A letter that is too large itself is cut to the next of these.
const LIMITS: [usize; 3] = [512 * 1024, 64 * 1024, 8 * 1024];

/// What a configuration says about them. By default there are none.
#[derive(Debug, Clone, Default)]
pub struct Letters {
    pub policy: Policy,
    /// The pipeline's name.
    pub name: String,
    pub topic: Arc<str>,
    /// A recovery makes no letters, and passes over what stands as one.
    pub open: Option<Arc<dyn OpenLetters>>,
}

/// The letters that are open.
pub trait OpenLetters: fmt::Debug + Send + Sync {
    /// Whether one stands for this already. Then it is counted as passed over.
    fn passes_over(&self, id: &str, row: &Unpublished) -> bool;
}

/// A row under way, shared by its messages.
#[derive(Debug)]
pub struct Subject {
    pub row: Row,
    pub roles: Roles,
    /// The last position before its transaction.
    pub position: Arc<str>,
    /// What the database calls its transaction.
    pub transaction: Option<String>,
}

/// What the dead letter of a message will be made of.
#[derive(Debug, Clone)]
pub struct Seed {
    subject: Arc<Subject>,
    of: Of,
}

#[derive(Debug, Clone)]
enum Of {
    /// The event's, of the route with this number.
    Message(usize),
    /// A letter already, and this is why.
    Letter(Unpublished),
}

/// A row that cannot be published through one route, or through none.
#[derive(Debug, Clone, PartialEq)]
pub struct Unpublished {
    /// Counted from 1; none if it failed before any route.
    pub route: Option<usize>,
    /// The address, as far as it could be made.
    pub topic: Option<Arc<str>>,
    pub key: Option<Bytes>,
    pub failure: Failure,
    /// Later messages of its key were delivered.
    pub out_of_order: bool,
}

impl Unpublished {
    pub fn before_routes(failure: Failure) -> Unpublished {
        Unpublished {
            route: None,
            topic: None,
            key: None,
            failure,
            out_of_order: false,
        }
    }
}

impl Subject {
    /// What it holds in memory, about.
    fn size(&self) -> usize {
        let size = |cell: &Value| match cell {
            Value::Text(text) => text.len(),
            Value::Bytes(bytes) => bytes.len(),
            _ => 0,
        };
        self.row.cells.iter().map(size).sum()
    }
}

impl Seed {
    pub fn new(subject: &Arc<Subject>, route: usize) -> Seed {
        Seed {
            subject: Arc::clone(subject),
            of: Of::Message(route),
        }
    }

    /// What it holds in memory, about.
    pub fn size(&self) -> usize {
        self.subject.size()
    }

    /// The kind of failure, if the message is a letter.
    pub fn kind(&self) -> Option<Kind> {
        match &self.of {
            Of::Message(_) => None,
            Of::Letter(row) => Some(row.failure.kind),
        }
    }
}

impl Letters {
    /// Whether a letter stands already for what cannot be published.
    pub fn stands(&self, id: &str, row: &Unpublished) -> bool {
        let open = self.open.as_ref();
        open.is_some_and(|it| it.passes_over(id, row))
    }

    /// The letter of a row, and what a smaller one can be made of.
    pub fn of_row(&self, subject: &Arc<Subject>, row: Unpublished) -> (Message, Seed) {
        let letter = self.write(subject, &row, None);
        let seed = Seed {
            subject: Arc::clone(subject),
            of: Of::Letter(row),
        };
        (letter, seed)
    }

    /// The letter of a message that the broker refused, and of a letter that is too large a smaller one; none: stop.
    pub fn of_refused(
        &self,
        message: &Message,
        seed: Seed,
        failure: &Failure,
        out_of_order: bool,
    ) -> Option<(Message, Seed)> {
        let route = match &seed.of {
            Of::Message(route) => *route,
            Of::Letter(row) => {
                let smaller = |limit: &&usize| **limit < message.size();
                let limit = LIMITS.iter().find(smaller);
                let limit = limit.filter(|_| failure.kind == Kind::TooLarge)?;
                let letter = self.write(&seed.subject, row, Some(*limit));
                return (letter.size() < message.size()).then_some((letter, seed));
            }
        };
        let row = Unpublished {
            route: Some(route),
            topic: Some(Arc::clone(&message.address.topic)),
            key: message.address.key.clone(),
            failure: failure.clone(),
            out_of_order,
        };
        let makes = self.policy.makes_letters(failure.kind);
        makes.then(|| self.of_row(&seed.subject, row))
    }

    fn write(&self, subject: &Subject, row: &Unpublished, limit: Option<usize>) -> Message {
        let around = Surroundings {
            name: &self.name,
            to: &self.topic,
            position: &subject.position,
            transaction: subject.transaction.as_deref(),
            time: Instant(clock::micros()),
            version: env!("CARGO_PKG_VERSION"),
            route: row.route,
            topic: row.topic.as_deref(),
            key: row.key.as_deref(),
            limit,
            out_of_order: row.out_of_order,
        };
        letter(&subject.row, &subject.roles, &row.failure, &around)
    }
}

/// The seeds of the messages under way, by the numbers of their tickets.
#[derive(Debug, Default)]
pub struct Seeds(HashMap<u64, Seed>);

impl Seeds {
    pub fn keep(&mut self, number: u64, seed: Option<Seed>) {
        if let Some(seed) = seed {
            self.0.insert(number, seed);
        }
    }

    pub fn take(&mut self, number: u64) -> Option<Seed> {
        if self.0.is_empty() {
            return None;
        }
        self.0.remove(&number)
    }

    pub fn is_letter(&self, number: u64) -> bool {
        self.0
            .get(&number)
            .is_some_and(|seed| seed.kind().is_some())
    }
}
