//! Reads partitions of topics, each from a place in it to where it ended when the reading began.
//!
//! Never: joins a group or commits an offset; nobody sees that it was there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use rdkafka::consumer::{BaseConsumer, Consumer as _};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Message as _};
use rdkafka::{Offset, TopicPartitionList};

use super::client::{Client, end_aside};
use super::login::Pass;
use super::verdict;

const POLL: Duration = Duration::from_millis(100);
/// Without a single message for this long, what is left is read one by one.
const QUIET: Duration = Duration::from_secs(3);

/// A topic's place among those that are read, and one of its partitions.
pub(super) type Place = (u16, i32);

/// What went wrong, and on which topic.
pub(super) type Broken = (Option<String>, KafkaError);

/// What is left of a partition: from here on, and up to there, without.
#[derive(Debug)]
struct Left {
    next: i64,
    end: i64,
}

/// What a reading was told.
enum Polled<'c> {
    Message(BorrowedMessage<'c>),
    /// A partition was read to its end. Some of what is before the end may be no messages, or was compacted away.
    End,
    Nothing,
}

/// A consumer, for as long as somebody waits for what it reads.
struct Reader {
    consumer: BaseConsumer,
    pass: Pass,
    abandoned: Arc<AtomicBool>,
}

impl Reader {
    fn poll(&mut self) -> KafkaResult<Polled<'_>> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err(KafkaError::MessageConsumption(Code::OperationTimedOut));
        }
        self.pass.renew(self.consumer.client())?;
        match self.consumer.poll(POLL) {
            None => Ok(Polled::Nothing),
            Some(Ok(message)) => Ok(Polled::Message(message)),
            Some(Err(KafkaError::PartitionEOF(_))) => Ok(Polled::End),
            Some(Err(error)) => verdict::passing(error).map(|()| Polled::Nothing),
        }
    }
}

/// Those that are still to be read.
pub(super) struct Partitions {
    reader: Reader,
    topics: Arc<[String]>,
    left: HashMap<Place, Left>,
    /// Without a word of a single partition for this long, the reading has broken off.
    silence: Duration,
}

impl Partitions {
    pub(super) fn of(
        client: &Client,
        topics: Arc<[String]>,
        abandoned: Arc<AtomicBool>,
        silence: Duration,
    ) -> KafkaResult<Partitions> {
        Ok(Partitions {
            reader: Reader {
                consumer: client.consumer()?,
                pass: client.contact().pass(),
                abandoned,
            },
            topics,
            left: HashMap::new(),
            silence,
        })
    }

    pub(super) fn consumer(&self) -> &BaseConsumer {
        &self.reader.consumer
    }

    /// To be read from this offset on, up to that one, without it.
    pub(super) fn add(&mut self, place: Place, next: i64, end: i64) {
        if next < end {
            self.left.insert(place, Left { next, end });
        }
    }

    /// Hands over every message that was there when the reading began.
    pub(super) fn read(
        mut self,
        mut put: impl FnMut(Place, &BorrowedMessage<'_>),
    ) -> Result<(), Broken> {
        let read = self.read_all(&mut put);
        end_aside(self.reader.consumer);
        read
    }

    fn read_all(
        &mut self,
        put: &mut impl FnMut(Place, &BorrowedMessage<'_>),
    ) -> Result<(), Broken> {
        if self.left.len() > 1 {
            self.read_together(put)?;
        }
        // What is left has no messages up to its end, or comes slowly: one by one, each tells its own.
        let mut places: Vec<Place> = self.left.keys().copied().collect();
        places.sort_unstable();
        for place in places {
            self.read_alone(place, put)
                .map_err(|error| (self.topic(place), error))?;
        }
        Ok(())
    }

    fn read_together(
        &mut self,
        put: &mut impl FnMut(Place, &BorrowedMessage<'_>),
    ) -> Result<(), Broken> {
        let topics = Arc::clone(&self.topics);
        let numbers: HashMap<&str, u16> = (0..)
            .zip(topics.iter())
            .map(|(number, topic)| (topic.as_str(), number))
            .collect();
        self.assign(self.left.keys())
            .map_err(|error| (None, error))?;
        let mut heard = Instant::now();
        while !self.left.is_empty() && heard.elapsed() < QUIET {
            match self.reader.poll() {
                Ok(Polled::Message(message)) => {
                    heard = Instant::now();
                    if let Some(topic) = numbers.get(message.topic()) {
                        let place = (*topic, message.partition());
                        take(&message, place, &mut self.left, put);
                    }
                }
                // Whose end it is, is not told.
                Ok(Polled::Nothing | Polled::End) => {}
                // Nor of which topic an error is: one of those that are still read.
                Err(error) => {
                    let first = self.left.keys().min().copied();
                    return Err((first.and_then(|it| self.topic(it)), error));
                }
            }
        }
        Ok(())
    }

    fn read_alone(
        &mut self,
        place: Place,
        put: &mut impl FnMut(Place, &BorrowedMessage<'_>),
    ) -> KafkaResult<()> {
        self.assign([&place])?;
        let mut heard = Instant::now();
        while self.left.contains_key(&place) {
            if heard.elapsed() > self.silence {
                return Err(KafkaError::MessageConsumption(Code::OperationTimedOut));
            }
            match self.reader.poll()? {
                Polled::Message(message) => {
                    heard = Instant::now();
                    take(&message, place, &mut self.left, put);
                }
                Polled::End => drop(self.left.remove(&place)),
                Polled::Nothing => {}
            }
        }
        Ok(())
    }

    fn assign<'p>(&self, places: impl IntoIterator<Item = &'p Place>) -> KafkaResult<()> {
        let mut assigned = TopicPartitionList::new();
        for place in places {
            let topic = self.topics.get(usize::from(place.0));
            if let (Some(topic), Some(left)) = (topic, self.left.get(place)) {
                assigned.add_partition_offset(topic, place.1, Offset::Offset(left.next))?;
            }
        }
        self.reader.consumer.assign(&assigned)
    }

    fn topic(&self, (number, _): Place) -> Option<String> {
        self.topics.get(usize::from(number)).cloned()
    }
}

/// Hands a message over, if it is one of those that were there when the reading began.
fn take(
    message: &BorrowedMessage<'_>,
    place: Place,
    left: &mut HashMap<Place, Left>,
    put: &mut impl FnMut(Place, &BorrowedMessage<'_>),
) {
    let Some(partition) = left.get_mut(&place) else {
        return;
    };
    let offset = message.offset();
    if offset < partition.next {
        return;
    }
    partition.next = offset + 1;
    let is_wanted = offset < partition.end;
    if partition.next >= partition.end {
        left.remove(&place);
    }
    if is_wanted {
        put(place, message);
    }
}
