//! A sink that sends only what is not on the topics yet; what is there counts as delivered.
//!
//! In: messages in the order of their events' dates. Rule: while the next band of the topics is read, messages are given back.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::band::{Band, ShortId};
use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::sink::{Report, Sink, Unsent};
use headwater_encode::Encoder;
use headwater_sink::Error;

use super::published::{Absent, Published};

/// So many that were sent are known, should they come again in this process.
const KNOWN: usize = 1_000_000;

/// What became of the messages.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub looked_at: u64,
    pub there: u64,
    pub sent: u64,
    /// Of those that were sent: they may have been there before.
    pub perhaps_again: u64,
    /// What the topics cannot tell, in sentences.
    pub doubts: Vec<String>,
}

type Reading = Pin<Box<dyn Future<Output = Result<(Box<Published>, Band), Error>> + Send>>;

enum State {
    Known(Box<Published>, Band),
    Reading(Reading),
    /// A reading failed.
    Broken,
}

pub struct Missing<K> {
    inner: K,
    encoder: Encoder,
    state: State,
    /// What was there, to be reported.
    there: VecDeque<Ticket>,
    /// What this process has sent; the band was read before.
    sent: HashSet<(Arc<str>, ShortId)>,
    found: Arc<Mutex<Found>>,
}

impl<K: Sink<Error = Error>> Missing<K> {
    /// `from`: the date of the first event that will come, in microseconds since 1970.
    pub fn new(
        inner: K,
        published: Published,
        encoder: Encoder,
        from: Option<i64>,
        found: Arc<Mutex<Found>>,
    ) -> Missing<K> {
        Missing {
            inner,
            encoder,
            state: State::Reading(read(Box::new(published), from)),
            there: VecDeque::new(),
            sent: HashSet::new(),
            found,
        }
    }

    fn count(&self, change: impl FnOnce(&mut Found)) {
        change(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The band is done with if the event is of a later date.
    fn go_on(&mut self, date: i64) {
        let State::Known(_, band) = &self.state else {
            return;
        };
        let Some(horizon) = band.horizon().filter(|horizon| date >= *horizon) else {
            return;
        };
        if let State::Known(published, _) = std::mem::replace(&mut self.state, State::Broken) {
            self.state = State::Reading(read(published, Some(horizon)));
        }
    }

    /// Whether it is there; if not, whether it may have been.
    fn look(&mut self, message: &Message, id: ShortId, date: i64) -> Result<(), Absent> {
        let State::Known(published, band) = &mut self.state else {
            return Err(Absent::Surely);
        };
        let topic = &message.address.topic;
        if self.sent.contains(&(Arc::clone(topic), id)) {
            return Ok(());
        }
        match published.number(topic) {
            Some(number) if band.has(number, id) => Ok(()),
            Some(number) => Err(published.absent(number, date)),
            None => Err(Absent::Surely),
        }
    }

    fn remember(&mut self, topic: Arc<str>, id: ShortId) {
        if self.sent.len() >= KNOWN {
            self.sent.clear();
        }
        self.sent.insert((topic, id));
    }
}

fn read(mut published: Box<Published>, from: Option<i64>) -> Reading {
    Box::pin(async move {
        let (band, _) = published.band(from).await?;
        Ok((published, band))
    })
}

impl<K: Sink<Error = Error>> Sink for Missing<K> {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        // What was encoded a moment ago can be read.
        let Some((id, date)) = self.encoder.identify(&message.value) else {
            return self.inner.send(message, ticket);
        };
        self.go_on(date);
        if !matches!(self.state, State::Known(..)) {
            return Err(Unsent::Later(message, ticket));
        }
        let topic = Arc::clone(&message.address.topic);
        match self.look(&message, id, date) {
            Ok(()) => {
                self.there.push_back(ticket);
                self.count(|found| {
                    found.looked_at += 1;
                    found.there += 1;
                });
            }
            Err(absent) => {
                self.inner.send(message, ticket)?;
                self.remember(topic, id);
                self.count(|found| {
                    found.looked_at += 1;
                    found.sent += 1;
                    found.perhaps_again += u64::from(absent == Absent::Perhaps);
                });
            }
        }
        Ok(())
    }

    fn queued(&self) -> Option<usize> {
        self.inner.queued()
    }

    async fn next_report(&mut self) -> Result<Report, Error> {
        if let Some(ticket) = self.there.pop_front() {
            return Ok(Report::Delivered(ticket));
        }
        let State::Reading(reading) = &mut self.state else {
            return self.inner.next_report().await;
        };
        let read = tokio::select! {
            report = self.inner.next_report() => return report,
            read = reading => read,
        };
        match read {
            Ok((published, band)) => {
                self.count(|found| found.doubts = published.doubts());
                self.state = State::Known(published, band);
            }
            Err(error) => {
                self.state = State::Broken;
                return Err(error);
            }
        }
        Ok(Report::Room)
    }
}
