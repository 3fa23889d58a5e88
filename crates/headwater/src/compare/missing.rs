//! A sink that sends only what is not on the topics yet; what is there counts as delivered.
//!
//! In: messages in the order of their events' dates. Rule: while the next band of the topics is read, messages are given back.

use std::collections::{HashSet, VecDeque};
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};

use headwater_core::band::{Band, Place, ShortId};
use headwater_core::failure::Failure;
use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::sink::{self, Refusal, Report, Sink};
use headwater_encode::Encoder;
use headwater_sink::Error;

use super::published::{Absent, Bands};
use super::unsent::Unsent;
use crate::pipeline::Unfit;

/// So many that were sent last are known, should they come again in this process: more than are ever sent and not yet remembered.
const KNOWN: usize = 100_000;

/// What became of the messages.
#[derive(Debug, Clone, Default)]
pub struct Found {
    pub looked_at: u64,
    pub there: u64,
    /// Are not there, and stand for that on the topic of dead letters, from where they can be replayed.
    pub dead_lettered: u64,
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
    /// The table has ids of one date in another order than the bands.
    whole_dates: bool,
    /// Events that cannot be encoded today.
    unfit: Unfit,
    unsent: Arc<Unsent>,
    /// What became of messages that were not sent.
    reports: VecDeque<Report>,
    /// What this process has sent last; the band was read before.
    sent: HashSet<(Arc<str>, ShortId)>,
    sent_before: HashSet<(Arc<str>, ShortId)>,
    found: Arc<Mutex<Found>>,
}

impl<K: Sink<Error = Error>, B: Bands> Missing<K, B> {
    /// `from`: where the first event that will come stands, or before it.
    pub fn new(
        inner: K,
        published: B,
        encoder: Encoder,
        from: Place,
        (unfit, unsent): (Unfit, Arc<Unsent>),
        found: Arc<Mutex<Found>>,
    ) -> Missing<K, B> {
        Missing {
            inner,
            encoder,
            state: State::Reading(read(Box::new(published), from, false)),
            whole_dates: false,
            unfit,
            unsent,
            reports: VecDeque::new(),
            sent: HashSet::new(),
            sent_before: HashSet::new(),
            found,
        }
    }

    fn count(&self, change: impl FnOnce(&mut Found)) {
        change(&mut self.found.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The band is done with if the event is not in it.
    fn go_on(&mut self, place: Place) {
        let State::Known(_, band) = &self.state else {
            return;
        };
        if band.covers(place) {
            return;
        }
        // Among ids of one date each database has an order of its own. Dates go back only where the table is read again.
        let known_from = band.from();
        self.whole_dates |= place < known_from && place.date == known_from.date;
        let from = if self.whole_dates {
            Place::before(place.date)
        } else {
            place
        };
        if let State::Known(published, _) = std::mem::replace(&mut self.state, State::Broken) {
            self.state = State::Reading(read(published, from, self.whole_dates));
        }
    }

    /// Of which event a message is.
    fn identify(&mut self, message: &Message) -> Option<Place> {
        if let Some(date) = self.unfit.date_of(message) {
            let id = ShortId::of(&message.id);
            return Some(Place { date, id });
        }
        let (id, date) = self.encoder.identify(&message.value)?;
        Some(Place { date, id })
    }

    /// Whether it is there; if not, whether it may have been.
    fn look(&mut self, message: &Message, Place { date, id }: Place) -> Result<(), Absent> {
        let State::Known(published, band) = &mut self.state else {
            return Err(Absent::Surely);
        };
        let topic = &message.address.topic;
        let this = (Arc::clone(topic), id);
        if self.sent.contains(&this) || self.sent_before.contains(&this) {
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
            self.sent_before = std::mem::take(&mut self.sent);
        }
        self.sent.insert((topic, id));
    }
}

fn read<B: Bands>(mut published: Box<B>, from: Place, whole_dates: bool) -> Reading<B> {
    Box::pin(async move {
        let (band, _) = published.band(from, whole_dates).await?;
        Ok((published, band))
    })
}

impl<K: Sink<Error = Error>, B: Bands> Sink for Missing<K, B> {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), sink::Unsent<Error>> {
        let Some(place) = self.identify(&message) else {
            return Err(sink::Unsent::Broken(Error::fatal(
                "messages do not tell the id and the date of their events, so which of them are on the topics cannot be known",
                "encode.envelope must have the fields id and event_date",
            )));
        };
        self.go_on(place);
        if !matches!(self.state, State::Known(..)) {
            return Err(sink::Unsent::Later(message, ticket));
        }
        let found = self.look(&message, place);
        let topic = Arc::clone(&message.address.topic);
        match (found, self.unfit.take(&message)) {
            (Ok(()), _) => {
                self.reports.push_back(Report::Delivered(ticket));
                self.count(|found| {
                    found.looked_at += 1;
                    found.there += 1;
                });
            }
            (Err(_), _) if self.unsent.has(place.id, None, Some(&topic)) => {
                self.reports.push_back(Report::Delivered(ticket));
                self.count(|found| {
                    found.looked_at += 1;
                    found.dead_lettered += 1;
                });
            }
            (Err(_), Some(Failure { kind, detail })) => {
                let refusal = Refusal {
                    kind,
                    why: detail,
                    overtaken: false,
                };
                let refused = Report::Refused(ticket, message, refusal);
                self.reports.push_back(refused);
            }
            (Err(absent), None) => {
                self.inner.send(message, ticket)?;
                self.remember(topic, place.id);
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
        if let Some(report) = self.reports.pop_front() {
            return Ok(report);
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
    use headwater_core::failure::Kind;
    use headwater_core::instant::Instant;
    use headwater_core::ledger::Ledger;
    use headwater_core::message::{Address, Content, Id};
    use headwater_encode::{Json, JsonStyle};
    use headwater_sink::kafka::Ends;

    use super::*;
    use crate::dead_letters::Stand;

    /// It stands as an open letter of topic `t`.
    const LETTER: u32 = 77_777;
    /// This one as a letter of another route, which named no topic.
    const OTHERS: u32 = 88_888;

    /// Topics that hold these events (number and date), in bands of two or three.
    struct Scripted {
        there: Vec<(u32, i64)>,
        /// How many events each band had.
        bands: Arc<Mutex<Vec<usize>>>,
    }

    impl Bands for Scripted {
        async fn band(&mut self, from: Place, whole_dates: bool) -> Result<(Band, Ends), Error> {
            let mut gathering = Gathering::new(from, 3).of_whole_dates(whole_dates);
            for (number, date) in &self.there {
                gathering.add(band::Found {
                    id: ShortId::of(&uuid(*number)),
                    topic: 0,
                    date: *date,
                    is_replay: false,
                });
            }
            let band = gathering.finish();
            self.bands.lock().unwrap().push(band.foreign().count());
            Ok((band, Ends::default()))
        }

        async fn since(&mut self, _: &Ends, _: HashSet<(u16, ShortId)>) -> Result<Band, Error> {
            unreachable!("a recovery holds the lock: nobody else publishes")
        }

        fn topics(&self) -> &[String] {
            &[]
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

        fn unreadable(&self) -> u64 {
            0
        }

        fn doubts(&self) -> Vec<String> {
            vec!["what was before 5".into()]
        }
    }

    fn uuid(number: u32) -> String {
        format!("00000000-0000-0000-0000-{number:012x}")
    }

    /// Takes everything, and reports it.
    #[derive(Default)]
    struct Taking {
        taken: Arc<Mutex<Vec<String>>>,
        tickets: VecDeque<Ticket>,
    }

    impl Sink for Taking {
        type Error = Error;

        fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), sink::Unsent<Error>> {
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
        let id = uuid(number);
        let value = format!(r#"{{"id":"{id}","event_date":"{}"}}"#, Instant(date));
        Message {
            id: Id::from(id.as_str()),
            address: Address::of(topic),
            content: Content::Json,
            value: Bytes::from(value),
        }
    }

    /// What became of messages.
    struct Sent {
        taken: Vec<String>,
        found: Found,
        refused: Vec<String>,
        bands: Vec<usize>,
    }

    /// Of messages that come in this order; each is offered until it is taken, and all are settled.
    async fn sent(there: &[(u32, i64)], messages: Vec<Message>, unfit: Unfit) -> Sent {
        let found = Arc::new(Mutex::new(Found::default()));
        let taking = Taking::default();
        let taken = Arc::clone(&taking.taken);
        let encoder = Encoder::Json(Json::new(JsonStyle::Embedded));
        let bands = Arc::new(Mutex::new(Vec::new()));
        let scripted = Scripted {
            there: there.to_vec(),
            bands: Arc::clone(&bands),
        };
        let letter = |event, topic: Option<&str>| Stand {
            event_id: uuid(event),
            route: Some(2),
            topic: topic.map(str::to_owned),
            ..Stand::default()
        };
        let letters = [letter(LETTER, Some("t")), letter(OTHERS, None)];
        let apart = (unfit, Arc::new(Unsent::of(letters.iter())));
        let from = Place::before(i64::MIN);
        let mut missing = Missing::new(taking, scripted, encoder, from, apart, Arc::clone(&found));
        let mut ledger: Ledger<()> = Ledger::new(0);
        let (count, mut settled, mut refused) = (messages.len(), 0, Vec::new());
        let mut settle = |report: Report| match report {
            Report::Delivered(_) => settled += 1,
            Report::Refused(_, message, ..) => {
                settled += 1;
                refused.push(message.id.to_string());
            }
            Report::Room => {}
        };
        for message in messages {
            let mut next = Some((message, ledger.admit(1)));
            while let Some((message, ticket)) = next.take() {
                match missing.send(message, ticket) {
                    Ok(()) => {}
                    Err(sink::Unsent::Later(message, ticket)) => {
                        next = Some((message, ticket));
                        settle(missing.next_report().await.unwrap());
                    }
                    Err(sink::Unsent::Broken(error)) => panic!("{error}"),
                }
            }
        }
        while !missing.reports.is_empty() || !missing.inner.tickets.is_empty() {
            settle(missing.next_report().await.unwrap());
        }
        assert_eq!(settled, count);
        let taken = taken.lock().unwrap().clone();
        let found = found.lock().unwrap().clone();
        let bands = bands.lock().unwrap().clone();
        Sent {
            taken,
            found,
            refused,
            bands,
        }
    }

    fn uuids(numbers: impl IntoIterator<Item = u32>) -> Vec<String> {
        numbers.into_iter().map(uuid).collect()
    }

    #[tokio::test]
    async fn only_what_is_missing_is_sent_over_many_bands() {
        let there: Vec<(u32, i64)> = (0..40)
            .filter(|n| n % 3 != 0)
            .map(|n| (n, n.into()))
            .collect();
        let all = (0..40).map(|n| message("t", n, n.into())).collect();
        let Sent { taken, found, .. } = sent(&there, all, Unfit::default()).await;
        assert_eq!(taken, uuids((0..40).filter(|n| n % 3 == 0)));
        assert_eq!((found.looked_at, found.there, found.sent), (40, 26, 14));
        assert_eq!(found.perhaps_again, 2, "0 and 3");
        assert_eq!(found.doubts, ["what was before 5"]);
    }

    #[tokio::test]
    async fn the_events_of_one_date_are_compared_part_by_part() {
        let there: Vec<(u32, i64)> = (0..60).filter(|n| n % 3 != 0).map(|n| (n, 7)).collect();
        let all = (0..60).map(|n| message("t", n, 7)).collect();
        let Sent { taken, bands, .. } = sent(&there, all, Unfit::default()).await;
        assert_eq!(taken, uuids((0..60).filter(|n| n % 3 == 0)));
        assert!(bands.iter().all(|events| *events <= 3), "{bands:?}");
    }

    #[tokio::test]
    async fn where_ids_have_an_order_of_their_own_a_date_is_compared_as_a_whole() {
        let there: Vec<(u32, i64)> = (0..60).filter(|n| n % 3 != 0).map(|n| (n, 7)).collect();
        let backward = (0..60).rev().map(|n| message("t", n, 7)).collect();
        let Sent { taken, bands, .. } = sent(&there, backward, Unfit::default()).await;
        assert_eq!(taken, uuids((0..60).rev().filter(|n| n % 3 == 0)));
        assert!(bands.len() < 5, "{bands:?}");
    }

    #[tokio::test]
    async fn where_the_table_is_read_again_bands_stay_small() {
        let date = |n: u32| i64::from(n.min(30));
        let there: Vec<(u32, i64)> = (0..60)
            .filter(|n| n % 3 != 0)
            .map(|n| (n, date(n)))
            .collect();
        let read = (0..40).chain(5..60);
        let all = read.map(|n| message("t", n, date(n))).collect();
        let Sent { taken, bands, .. } = sent(&there, all, Unfit::default()).await;
        assert_eq!(taken, uuids((0..60).filter(|n| n % 3 == 0)));
        assert!(bands.iter().all(|events| *events <= 3), "{bands:?}");
    }

    #[tokio::test]
    async fn what_was_sent_is_not_sent_again_and_another_topic_is_another_message() {
        let twice = [(1, "t"), (1, "t"), (1, "new"), (2, "t")];
        let messages = twice.map(|(n, topic)| message(topic, n, 9));
        let Sent { taken, found, .. } = sent(&[(2, 9)], messages.to_vec(), Unfit::default()).await;
        assert_eq!(taken, uuids([1, 1]));
        assert_eq!((found.there, found.sent), (2, 2));
    }

    #[tokio::test]
    async fn what_stands_as_a_letter_is_neither_sent_nor_refused() {
        let unfit = Unfit::default();
        let failure = Failure::new(Kind::UnknownType, "no schema");
        unfit.put(&uuid(LETTER), 9, (failure, 1));
        let unencoded = Message {
            value: Bytes::new(),
            ..message("t", LETTER, 9)
        };
        let messages = vec![
            unencoded,
            message("t", LETTER, 9),
            message("new", LETTER, 9),
            message("t", OTHERS, 9),
        ];
        let Sent {
            taken,
            found,
            refused,
            ..
        } = sent(&[], messages, unfit).await;
        assert_eq!((taken, refused), (uuids([LETTER, OTHERS]), Vec::new()));
        assert_eq!((found.dead_lettered, found.sent), (2, 2));
    }

    #[tokio::test]
    async fn what_cannot_be_encoded_is_refused_only_if_it_is_not_there() {
        let unfit = Unfit::default();
        let messages = [1, 2].map(|number| {
            let failure = Failure::new(Kind::UnknownType, "no schema");
            unfit.put(&uuid(number), 9, (failure, 1));
            Message {
                value: Bytes::new(),
                ..message("t", number, 9)
            }
        });
        let Sent {
            taken,
            found,
            refused,
            ..
        } = sent(&[(2, 9)], messages.to_vec(), unfit.clone()).await;
        assert_eq!((taken, refused), (Vec::new(), uuids([1])));
        assert_eq!((found.looked_at, found.there), (1, 1));
        assert!(unfit.is_empty(), "nothing of them is kept");
    }
}
