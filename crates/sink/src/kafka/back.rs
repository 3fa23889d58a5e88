//! Reads topics back: everything that is on them since a moment, up to where they ended when the reading began.
//!
//! Never: joins a group or commits an offset; nobody sees that it was there.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use headwater_core::route::Topics;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc::unbounded_channel;

use super::Settings;
use super::client::{Abandon, Client, end_aside};
use super::login::Pass;
use super::verdict::{self, Doing};
use crate::Error;

const POLL: Duration = Duration::from_millis(100);
const ANSWER: Duration = Duration::from_secs(10);
/// Without a single message for this long, what is left is read one by one.
const QUIET: Duration = Duration::from_secs(3);
/// Without a word of a single partition for this long, the reading has broken off.
const SILENCE: Duration = Duration::from_secs(30);

/// The name of the header that a replay puts on its messages.
pub const REPLAY: &str = "headwater-replay";

/// A message as it stands on a topic.
pub struct Stored<'m> {
    /// Its topic's place among those that are read.
    pub topic: u16,
    pub value: &'m [u8],
    /// When it was written, in milliseconds since 1970.
    pub time: Option<i64>,
    pub is_replay: bool,
}

/// How far the topics have been read: where the next reading of them goes on.
#[derive(Debug, Clone, Default)]
pub struct Ends(HashMap<(u16, i32), i64>);

/// From where topics are read.
#[derive(Debug, Clone)]
pub enum Since {
    /// The first message of this time (milliseconds since 1970) or later; all of them, if there is none.
    Time(Option<i64>),
    Ends(Ends),
}

/// What a reading came to.
#[derive(Debug)]
pub struct Reading<T> {
    /// What the messages were put into.
    pub into: T,
    pub ends: Ends,
    /// What is before this time (milliseconds since 1970) is not on a partition of the topic any more; the last of all times, if all
    /// that ever was there is gone.
    pub cut: HashMap<u16, i64>,
}

/// Several topics, to be read back.
#[derive(Clone)]
pub struct Back {
    client: Client,
    topics: Arc<[String]>,
}

impl Back {
    /// The topics that there are, of those that routes can lead to, without the one of positions.
    pub async fn find(
        settings: Settings,
        routes: &[Topics],
        positions: Option<&str>,
    ) -> Result<Back, Error> {
        // Nothing is sent, so nothing is reported.
        let (tell, _) = unbounded_channel();
        let client = Client::open(settings, tell)?;
        let all = client.ask(Doing::Connecting, Client::all_topics).await?;
        let wanted = |topic: &String| {
            Some(topic.as_str()) != positions
                && !topic.starts_with("__")
                && routes.iter().any(|route| match route {
                    Topics::Only(name) => name == topic,
                    Topics::Beginning(text) => topic.starts_with(text.as_str()),
                })
        };
        let mut topics: Vec<String> = all.into_iter().filter(wanted).collect();
        topics.sort_unstable();
        if topics.len() > usize::from(u16::MAX) {
            return Err(Error::fatal(
                format!(
                    "the routes can lead to {} topics, which are too many to be read back",
                    topics.len()
                ),
                "let the topics of [[route]] begin with what no others begin with",
            ));
        }
        Ok(Back {
            client,
            topics: topics.into(),
        })
    }

    pub fn topics(&self) -> &[String] {
        &self.topics
    }

    /// Which of them are compacted: what is not on them may have been. None of a topic whose settings we may not see.
    pub async fn compacted(&self) -> Result<Vec<(u16, Option<bool>)>, Error> {
        let mut found = Vec::new();
        for (number, topic) in (0..).zip(self.topics.iter()) {
            let settings = self.client.topic_settings(topic).await?;
            let policy = settings.as_ref().and_then(|it| it.get("cleanup.policy"));
            found.push((number, policy.map(|policy| policy.contains("compact"))));
        }
        Ok(found)
    }

    /// Puts every message into `into`. Reads once: what cannot be read is an error.
    pub async fn read<T: Send + 'static>(
        &self,
        from: Since,
        into: T,
        put: impl Fn(&mut T, &Stored<'_>) + Send + 'static,
    ) -> Result<Reading<T>, Error> {
        let abandon = Abandon(Arc::default());
        let abandoned = Arc::clone(&abandon.0);
        let back = self.clone();
        let reading = tokio::task::spawn_blocking(move || {
            let mut reader = Reader {
                consumer: back.client.consumer().map_err(|error| (None, error))?,
                pass: back.client.contact().pass(),
                topics: Arc::clone(&back.topics),
                abandoned,
            };
            let read = reader.read(&from, into, put);
            end_aside(reader.consumer);
            read
        });
        let read = reading
            .await
            .map_err(|e| Error::transient(format!("reading the topics back broke off: {e}")))?;
        read.map_err(|(topic, error)| self.explain(&error, topic.as_deref()))
    }

    fn explain(&self, error: &KafkaError, topic: Option<&str>) -> Error {
        if let Some(trouble) = self.client.trouble() {
            return trouble;
        }
        let doing = topic.map_or(Doing::Connecting, Doing::Reading);
        match verdict::code(error) {
            Some(code) => verdict::error(code, doing, self.client.tools(), ""),
            None => Error::transient(format!("Kafka: {error}")),
        }
    }
}

/// What went wrong, and on which topic.
type Broken = (Option<String>, KafkaError);

/// One partition that is being read.
#[derive(Debug)]
struct Partition {
    /// What is left of it: from here on, and up to there, without.
    next: i64,
    end: i64,
    /// Nothing before it is there, and something was: the first message tells since when.
    is_cut: bool,
}

/// What a reading was told.
enum Polled<'c> {
    Message(BorrowedMessage<'c>),
    /// A partition was read to its end. Some of what is before the end may be no messages, or was compacted away.
    End,
    Nothing,
}

struct Reader {
    consumer: BaseConsumer,
    pass: Pass,
    topics: Arc<[String]>,
    abandoned: Arc<AtomicBool>,
}

impl Reader {
    fn read<T>(
        &mut self,
        from: &Since,
        into: T,
        put: impl Fn(&mut T, &Stored<'_>),
    ) -> Result<Reading<T>, Broken> {
        let mut reading = Reading {
            into,
            ends: Ends::default(),
            cut: HashMap::new(),
        };
        let mut left = self.assign(from, &mut reading.ends, &mut reading.cut)?;
        let topics = Arc::clone(&self.topics);
        let numbers: HashMap<&str, u16> = (0..)
            .zip(topics.iter())
            .map(|(number, topic)| (topic.as_str(), number))
            .collect();
        let mut heard = Instant::now();
        while !left.is_empty() && heard.elapsed() < QUIET {
            match self.poll(&left)? {
                Polled::Message(message) => {
                    heard = Instant::now();
                    if let Some(topic) = numbers.get(message.topic()) {
                        let place = (*topic, message.partition());
                        take(&message, place, (&mut left, &mut reading), &put);
                    }
                }
                // Whose end it is, is not told.
                Polled::Nothing | Polled::End => {}
            }
        }
        // What is left has no messages up to its end, or comes slowly: one by one, each tells its own.
        let mut places: Vec<(u16, i32)> = left.keys().copied().collect();
        places.sort_unstable();
        for place in places {
            self.read_alone(place, (&mut left, &mut reading), &put)?;
        }
        Ok(reading)
    }

    fn read_alone<T>(
        &mut self,
        place: (u16, i32),
        (left, reading): (&mut HashMap<(u16, i32), Partition>, &mut Reading<T>),
        put: &impl Fn(&mut T, &Stored<'_>),
    ) -> Result<(), Broken> {
        let topics = Arc::clone(&self.topics);
        let (Some(topic), Some(partition)) = (topics.get(usize::from(place.0)), left.get(&place))
        else {
            return Ok(());
        };
        let mut alone = TopicPartitionList::new();
        let at = Offset::Offset(partition.next);
        alone
            .add_partition_offset(topic, place.1, at)
            .and_then(|()| self.consumer.assign(&alone))
            .map_err(|error| (Some(topic.clone()), error))?;
        let mut heard = Instant::now();
        while left.contains_key(&place) {
            if heard.elapsed() > SILENCE {
                return Err((
                    self.first(left),
                    KafkaError::Global(Code::OperationTimedOut),
                ));
            }
            match self.poll(left)? {
                Polled::Message(message) => {
                    heard = Instant::now();
                    take(&message, place, (left, reading), put);
                }
                Polled::End => drop(left.remove(&place)),
                Polled::Nothing => {}
            }
        }
        Ok(())
    }

    fn poll(&mut self, left: &HashMap<(u16, i32), Partition>) -> Result<Polled<'_>, Broken> {
        if self.abandoned.load(Ordering::Relaxed) {
            return Err((None, KafkaError::Global(Code::OperationTimedOut)));
        }
        self.pass
            .renew(self.consumer.client())
            .map_err(|error| (None, error))?;
        match self.consumer.poll(POLL) {
            None => Ok(Polled::Nothing),
            Some(Ok(message)) => Ok(Polled::Message(message)),
            Some(Err(KafkaError::PartitionEOF(_))) => Ok(Polled::End),
            Some(Err(error)) => verdict::passing(error)
                .map(|()| Polled::Nothing)
                .map_err(|error| (self.first(left), error)),
        }
    }

    /// One of the topics that are still read: an error of the reading does not name its own.
    fn first(&self, left: &HashMap<(u16, i32), Partition>) -> Option<String> {
        let number = left.keys().map(|(topic, _)| usize::from(*topic)).min()?;
        self.topics.get(number).cloned()
    }

    /// Says where each partition begins and ends, and begins to read those that have something between the two.
    fn assign(
        &self,
        from: &Since,
        ends: &mut Ends,
        cut: &mut HashMap<u16, i64>,
    ) -> Result<HashMap<(u16, i32), Partition>, Broken> {
        let mut left = HashMap::new();
        let mut assigned = TopicPartitionList::new();
        for (number, topic) in (0..).zip(self.topics.iter()) {
            let on = |error| (Some(topic.clone()), error);
            for (partition, begin) in self.begin(from, number, topic).map_err(on)? {
                let marks = self.consumer.fetch_watermarks(topic, partition, ANSWER);
                let (low, high) = marks.map_err(on)?;
                ends.0.insert((number, partition), high);
                let begin = begin.map_or(high, |begin| begin.max(low));
                let is_cut = low > 0 && begin == low && matches!(from, Since::Time(_));
                if begin >= high {
                    if is_cut && low == high {
                        cut.insert(number, i64::MAX);
                    }
                    continue;
                }
                let at = Offset::Offset(begin);
                assigned
                    .add_partition_offset(topic, partition, at)
                    .map_err(on)?;
                let place = Partition {
                    next: begin,
                    end: high,
                    is_cut,
                };
                left.insert((number, partition), place);
            }
        }
        self.consumer
            .assign(&assigned)
            .map_err(|error| (None, error))?;
        Ok(left)
    }

    /// The partitions of a topic, and where each begins: none if there is nothing yet of that time.
    fn begin(
        &self,
        from: &Since,
        number: u16,
        topic: &str,
    ) -> KafkaResult<Vec<(i32, Option<i64>)>> {
        let metadata = self.consumer.fetch_metadata(Some(topic), ANSWER)?;
        let found = metadata.topics().first();
        if let Some(error) = found.and_then(MetadataTopic::error) {
            return Err(KafkaError::MetadataFetch(Code::from(error)));
        }
        let partitions = found.map(MetadataTopic::partitions).unwrap_or_default();
        let partitions = partitions.iter().map(MetadataPartition::id);
        match from {
            Since::Time(None) => Ok(partitions.map(|it| (it, Some(0))).collect()),
            Since::Ends(ends) => {
                let begin = |it: i32| (it, Some(ends.0.get(&(number, it)).copied().unwrap_or(0)));
                Ok(partitions.map(begin).collect())
            }
            Since::Time(Some(time)) => {
                let mut asked = TopicPartitionList::new();
                for partition in partitions {
                    asked.add_partition_offset(topic, partition, Offset::Offset(*time))?;
                }
                let told = self.consumer.offsets_for_times(asked, ANSWER)?;
                let begin = |it: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
                    it.error()?;
                    Ok((it.partition(), it.offset().to_raw().filter(|at| *at >= 0)))
                };
                told.elements().into_iter().map(begin).collect()
            }
        }
    }
}

/// Puts a message in, if it is one of those that were there when the reading began.
fn take<T>(
    message: &BorrowedMessage<'_>,
    place: (u16, i32),
    (left, reading): (&mut HashMap<(u16, i32), Partition>, &mut Reading<T>),
    put: &impl Fn(&mut T, &Stored<'_>),
) {
    let Some(partition) = left.get_mut(&place) else {
        return;
    };
    let offset = message.offset();
    if std::mem::take(&mut partition.is_cut) {
        let since = message.timestamp().to_millis().unwrap_or(i64::MAX);
        let known = reading.cut.entry(place.0).or_insert(since);
        *known = since.max(*known);
    }
    if offset < partition.next {
        return;
    }
    partition.next = offset + 1;
    let (is_wanted, is_last) = (offset < partition.end, offset + 1 >= partition.end);
    if is_last {
        left.remove(&place);
    }
    if is_wanted {
        put_one(message, place.0, &mut reading.into, put);
    }
}

fn put_one<T>(
    message: &BorrowedMessage<'_>,
    topic: u16,
    into: &mut T,
    put: &impl Fn(&mut T, &Stored<'_>),
) {
    // Without a value it deletes a key in a compacted topic, and is no event.
    let Some(value) = message.payload() else {
        return;
    };
    let is_replay = message
        .headers()
        .is_some_and(|headers| headers.iter().any(|header| header.key == REPLAY));
    put(
        into,
        &Stored {
            topic,
            value,
            time: message.timestamp().to_millis(),
            is_replay,
        },
    );
}
