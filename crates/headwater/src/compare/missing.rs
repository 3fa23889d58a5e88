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

use super::published::{Absent, Bands};

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

type Reading<B> = Pin<Box<dyn Future<Output = Result<(Box<B>, Band), Error>> + Send>>;

enum State<B> {
    Known(Box<B>, Band),
    Reading(Reading<B>),
    /// A reading failed.
    Broken,
}

pub struct Missing<K, B> {
    inner: K,
    encoder: Encoder,
    state: State<B>,
    /// What was there, to be reported.
    there: VecDeque<Ticket>,
    /// What this process has sent; the band was read before.
    sent: HashSet<(Arc<str>, ShortId)>,
    found: Arc<Mutex<Found>>,
}

impl<K: Sink<Error = Error>, B: Bands> Missing<K, B> {
    /// `from`: the date of the first event that will come, in microseconds since 1970.
    pub fn new(
        inner: K,
        published: B,
        encoder: Encoder,
        from: Option<i64>,
        found: Arc<Mutex<Found>>,
    ) -> Missing<K, B> {
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

fn read<B: Bands>(mut published: Box<B>, from: Option<i64>) -> Reading<B> {
    Box::pin(async move {
        let band = published.band(from).await?;
        Ok((published, band))
    })
}

impl<K: Sink<Error = Error>, B: Bands> Sink for Missing<K, B> {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        let Some((id, date)) = self.encoder.identify(&message.value) else {
            return Err(Unsent::Broken(Error::fatal(
                "messages do not tell the id and the date of their events, so which of them are on the topics cannot be known",
                "encode.envelope must have the fields id and event_date",
            )));
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use headwater_core::band::{self, Gathering};
    use headwater_core::instant::Instant;
    use headwater_core::ledger::Ledger;
    use headwater_core::message::{Address, Content, Id};
    use headwater_encode::{Json, JsonStyle};

    use super::*;

    /// Topics that hold these events (number and date), in bands of two or three.
    struct Scripted(Vec<(u32, i64)>);

    impl Bands for Scripted {
        async fn band(&mut self, from: Option<i64>) -> Result<Band, Error> {
            let mut gathering = Gathering::new(from.unwrap_or(i64::MIN), 3);
            for (number, date) in &self.0 {
                gathering.add(band::Found {
                    id: ShortId::of(&number.to_string()),
                    topic: 0,
                    date: *date,
                    is_replay: false,
                });
            }
            Ok(gathering.finish())
        }

        fn number(&self, topic: &str) -> Option<u16> {
            (topic == "t").then_some(0)
        }

        fn absent(&self, _: u16, date: i64) -> Absent {
            if date < 5 {
                Absent::Perhaps
            } else {
                Absent::Surely
            }
        }

        fn doubts(&self) -> Vec<String> {
            vec!["what was before 5".into()]
        }
    }

    /// Takes everything, and reports it.
    #[derive(Default)]
    struct Taking {
        taken: Arc<Mutex<Vec<String>>>,
        tickets: VecDeque<Ticket>,
    }

    impl Sink for Taking {
        type Error = Error;

        fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
            self.taken.lock().unwrap().push(message.id.to_string());
            self.tickets.push_back(ticket);
            Ok(())
        }

        async fn next_report(&mut self) -> Result<Report, Error> {
            match self.tickets.pop_front() {
                Some(ticket) => Ok(Report::Delivered(ticket)),
                None => std::future::pending().await,
            }
        }
    }

    fn message(topic: &str, number: u32, date: i64) -> Message {
        let value = format!(r#"{{"id":"{number}","event_date":"{}"}}"#, Instant(date));
        Message {
            id: Id::from(number.to_string().as_str()),
            address: Address {
                topic: topic.into(),
                key: None,
                headers: Vec::new(),
            },
            content: Content::Json,
            value: Bytes::from(value),
        }
    }

    /// What was sent on, of messages that come in this order; each is offered until it is taken, and all are settled.
    async fn sent(there: &[(u32, i64)], messages: Vec<Message>) -> (Vec<String>, Found) {
        let found = Arc::new(Mutex::new(Found::default()));
        let taking = Taking::default();
        let taken = Arc::clone(&taking.taken);
        let encoder = Encoder::Json(Json::new(JsonStyle::Embedded));
        let scripted = Scripted(there.to_vec());
        let mut missing = Missing::new(taking, scripted, encoder, None, Arc::clone(&found));
        let mut ledger: Ledger<()> = Ledger::new(0);
        let count = messages.len();
        let mut settled = 0;
        for message in messages {
            let mut next = Some((message, ledger.admit(1)));
            while let Some((message, ticket)) = next.take() {
                match missing.send(message, ticket) {
                    Ok(()) => {}
                    Err(Unsent::Later(message, ticket)) => {
                        next = Some((message, ticket));
                        let report = missing.next_report().await.unwrap();
                        settled += usize::from(matches!(report, Report::Delivered(_)));
                    }
                    Err(Unsent::Broken(error)) => panic!("{error}"),
                }
            }
        }
        while settled < count {
            let report = missing.next_report().await.unwrap();
            settled += usize::from(matches!(report, Report::Delivered(_)));
        }
        let found = found.lock().unwrap().clone();
        let taken = taken.lock().unwrap().clone();
        (taken, found)
    }

    #[tokio::test]
    async fn only_what_is_missing_is_sent_over_many_bands() {
        let there: Vec<(u32, i64)> = (0..40)
            .filter(|n| n % 3 != 0)
            .map(|n| (n, n.into()))
            .collect();
        let all = (0..40).map(|n| message("t", n, n.into())).collect();
        let (taken, found) = sent(&there, all).await;
        let wanted: Vec<String> = (0..40)
            .filter(|n| n % 3 == 0)
            .map(|n| n.to_string())
            .collect();
        assert_eq!(taken, wanted);
        assert_eq!((found.looked_at, found.there, found.sent), (40, 26, 14));
        assert_eq!(found.perhaps_again, 2, "0 and 3");
        assert_eq!(found.doubts, ["what was before 5"]);
    }

    #[tokio::test]
    async fn what_was_sent_is_not_sent_again_and_another_topic_is_another_message() {
        let twice = [(1, "t"), (1, "t"), (1, "new"), (2, "t")];
        let messages = twice.map(|(n, topic)| message(topic, n, 9));
        let (taken, found) = sent(&[(2, 9)], messages.to_vec()).await;
        assert_eq!(taken, ["1", "1"]);
        assert_eq!((found.there, found.sent), (2, 2));
    }
}
