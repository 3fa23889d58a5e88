//! Publishes what letters stand for, and then marks them.
//!
//! In: letters with their messages. Out: what became of each.
//! Rule: a letter's mark is sent when all of its messages were acked, and the letter is done when its mark was.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use headwater_core::dead_letter;
use headwater_core::ledger::Ledger;
use headwater_core::message::Message;
use headwater_core::sink::{Report, Sink, Unsent};
use headwater_sink::Error;
use tokio::time::timeout;

use super::Held;
use crate::clock;
use crate::pipeline::Stop;

/// How long what is on its way is waited for, once a stop was asked for.
const PATIENCE: Duration = Duration::from_secs(10);

/// What became of a letter, by its place among those that were given.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Becomes {
    Replayed,
    /// The broker will never take it: why.
    Refused(String),
}

/// A letter on its way.
struct Job {
    held: Held,
    /// Of its messages, or of its marks once there are no more of those.
    unacked: usize,
    is_marked: bool,
}

pub struct Again<S> {
    sink: S,
    ledger: Ledger<()>,
    /// The pipeline, and its topic of dead letters.
    name: String,
    topic: Arc<str>,
    jobs: HashMap<usize, Job>,
    /// Each with its letter's number, in the order in which they have to go.
    waiting: VecDeque<(usize, Message)>,
    /// The letters of the tickets that are out.
    sent: HashMap<u64, usize>,
    became: Vec<(usize, Becomes)>,
}

impl<S: Sink<Error = Error>> Again<S> {
    pub fn new(sink: S, name: &str, topic: &str) -> Again<S> {
        Again {
            sink,
            ledger: Ledger::new(0),
            name: name.to_owned(),
            topic: topic.into(),
            jobs: HashMap::new(),
            waiting: VecDeque::new(),
            sent: HashMap::new(),
            became: Vec::new(),
        }
    }

    pub fn add(&mut self, number: usize, held: Held, messages: Vec<Message>) {
        let job = Job {
            held,
            unacked: messages.len(),
            is_marked: false,
        };
        self.jobs.insert(number, job);
        let messages = messages.into_iter().map(|message| (number, message));
        self.waiting.extend(messages);
    }

    /// Until all that was given is done, or a stop was asked for: then what has not been sent stays open.
    pub async fn carry(&mut self, stop: &mut Stop) -> Result<Vec<(usize, Becomes)>, Error> {
        if let Some(done) = stop.or(self.finish()).await {
            done?;
            return Ok(std::mem::take(&mut self.became));
        }
        let is_mark =
            |(number, _): &(usize, Message)| self.jobs.get(number).is_some_and(|job| job.is_marked);
        self.waiting.retain(is_mark);
        // What is not acked by then may be there: its letter stays open all the same.
        if let Ok(done) = timeout(PATIENCE, self.finish()).await {
            done?;
        }
        Ok(std::mem::take(&mut self.became))
    }

    async fn finish(&mut self) -> Result<(), Error> {
        self.send()?;
        while !self.sent.is_empty() || !self.waiting.is_empty() {
            let report = self.sink.next_report().await?;
            self.take(report);
            self.send()?;
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), Error> {
        while let Some((number, message)) = self.waiting.pop_front() {
            let ticket = self.ledger.admit(message.size());
            let own = ticket.number();
            match self.sink.send(message, ticket) {
                Ok(()) => drop(self.sent.insert(own, number)),
                Err(Unsent::Later(message, ticket)) => {
                    // Its next try has a ticket of its own.
                    self.ledger.settle(ticket);
                    self.waiting.push_front((number, message));
                    return Ok(());
                }
                Err(Unsent::Broken(error)) => return Err(error),
            }
        }
        Ok(())
    }

    fn take(&mut self, report: Report) {
        match report {
            Report::Delivered(ticket) => {
                let number = self.sent.remove(&ticket.number());
                self.ledger.settle(ticket);
                if let Some(number) = number {
                    self.acked(number);
                }
            }
            Report::Refused(ticket, _, refusal) => {
                let number = self.sent.remove(&ticket.number());
                self.ledger.settle(ticket);
                if let Some(number) = number {
                    self.refused(number, refusal.why);
                }
            }
            Report::Room => {}
        }
    }

    fn acked(&mut self, number: usize) {
        let Some(job) = self.jobs.get_mut(&number) else {
            return;
        };
        job.unacked -= 1;
        if job.unacked > 0 {
            return;
        }
        if job.is_marked {
            self.jobs.remove(&number);
            self.became.push((number, Becomes::Replayed));
            return;
        }
        job.is_marked = true;
        let (letter, key) = (&job.held.letter, &job.held.key);
        for partition in job.held.places.keys() {
            let (topic, now) = (&self.topic, clock::now());
            let mark = dead_letter::mark(letter, topic, (*partition, key.clone()), &self.name, now);
            job.unacked += 1;
            // Before what waits: the letters before it are to be done before others begin.
            self.waiting.push_front((number, mark));
        }
    }

    fn refused(&mut self, number: usize, why: String) {
        self.waiting.retain(|(waits, _)| *waits != number);
        if self.jobs.remove(&number).is_some() {
            self.became.push((number, Becomes::Refused(why)));
        }
    }
}
