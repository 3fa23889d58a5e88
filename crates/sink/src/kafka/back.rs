//! Reads topics back: everything that is on them since a moment, up to where they ended when the reading began.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use headwater_core::route::Topics;
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, Headers as _, Message as _};
use rdkafka::metadata::{MetadataPartition, MetadataTopic};
use rdkafka::{Offset, TopicPartitionList};
use tokio::sync::mpsc::unbounded_channel;

use super::Settings;
use super::client::{Abandon, Client, Presence};
use super::partitions::{Broken, Partitions, Place};
use super::verdict::{self, Doing};
use crate::Error;

const ANSWER: Duration = Duration::from_secs(10);
/// Without a word of a partition for this long, the reading has broken off.
const SILENCE: Duration = Duration::from_secs(30);
/// How soon a topic that is being made is looked at again.
const COMING: Duration = Duration::from_millis(200);

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
    message: &'m BorrowedMessage<'m>,
}

impl<'m> Stored<'m> {
    /// Its partition, and its offset there.
    pub fn place(&self) -> (i32, i64) {
        (self.message.partition(), self.message.offset())
    }

    pub fn key(&self) -> Option<&'m [u8]> {
        self.message.key()
    }

    pub fn headers(&self) -> impl Iterator<Item = (&'m str, &'m [u8])> + use<'m> {
        let headers = self.message.headers();
        let headers = headers.into_iter().flat_map(|headers| headers.iter());
        headers.map(|header| (header.key, header.value.unwrap_or_default()))
    }
}

/// How far the topics have been read: where the next reading of them goes on.
#[derive(Debug, Clone, Default)]
pub struct Ends(HashMap<Place, i64>);

/// From where topics are read.
#[derive(Debug, Clone)]
pub enum Since {
    /// The first message of this time (milliseconds since 1970) or later; all of them, if there is none.
    Time(Option<i64>),
    Ends(Ends),
    /// Not all that follows: of the first topic, these offsets of these partitions.
    Within(HashMap<i32, Range<i64>>),
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

impl<T> Reading<T> {
    fn cut_before(&mut self, (topic, _): Place, time: Option<i64>) {
        let since = time.unwrap_or(i64::MAX);
        let known = self.cut.entry(topic).or_insert(since);
        *known = since.max(*known);
    }
}

/// Several topics, to be read back.
#[derive(Clone)]
pub struct Back {
    client: Client,
    topics: Arc<[String]>,
}

impl Back {
    /// The topics that there are, of those that routes can lead to, without these, which hold something else.
    pub async fn find(
        settings: Settings,
        routes: &[Topics],
        without: &[&str],
    ) -> Result<Back, Error> {
        // Nothing is sent, so nothing is reported.
        let (tell, _) = unbounded_channel();
        let client = Client::open(settings, tell)?;
        let all = client.ask(Doing::Connecting, Client::all_topics).await?;
        let wanted = |topic: &String| {
            !without.contains(&topic.as_str())
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

    /// One topic; none if it is not there.
    pub async fn of(settings: Settings, topic: &str) -> Result<Option<Back>, Error> {
        let (tell, _) = unbounded_channel();
        let client = Client::open(settings, tell)?;
        let back = Back {
            client,
            topics: [topic.to_owned()].into(),
        };
        loop {
            match back.client.presence(topic).await? {
                Presence::There { .. } => return Ok(Some(back)),
                Presence::Missing | Presence::Illegal => return Ok(None),
                Presence::Coming => tokio::time::sleep(COMING).await,
                Presence::Denied => {
                    let denied = KafkaError::MessageConsumption(Code::TopicAuthorizationFailed);
                    return Err(back.explain(&denied, Some(topic)));
                }
            }
        }
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
            let topics = Arc::clone(&back.topics);
            let partitions = Partitions::of(&back.client, topics, abandoned, SILENCE)
                .map_err(|error| (None, error))?;
            read_back(partitions, &back.topics, &from, into, put)
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

/// Says where each partition begins and ends, and hands over what is between the two.
fn read_back<T>(
    mut partitions: Partitions,
    topics: &[String],
    from: &Since,
    into: T,
    put: impl Fn(&mut T, &Stored<'_>),
) -> Result<Reading<T>, Broken> {
    let mut reading = Reading {
        into,
        ends: Ends::default(),
        cut: HashMap::new(),
    };
    // Nothing before what is read is there, and something was: the first message tells since when.
    let mut cut: HashSet<Place> = HashSet::new();
    for (number, topic) in (0..).zip(topics) {
        let on = |error| (Some(topic.clone()), error);
        let consumer = partitions.consumer();
        for (partition, begin) in begin(consumer, from, number, topic).map_err(on)? {
            let place = (number, partition);
            let marks = partitions
                .consumer()
                .fetch_watermarks(topic, partition, ANSWER);
            let (low, high) = marks.map_err(on)?;
            reading.ends.0.insert(place, high);
            let begin = begin.map_or(high, |begin| begin.max(low));
            if low > 0 && begin == low && matches!(from, Since::Time(_)) {
                cut.insert(place);
            }
            let end = match from {
                Since::Within(ranges) => ranges.get(&partition).map_or(begin, |it| it.end),
                Since::Time(_) | Since::Ends(_) => high,
            };
            partitions.add(place, begin, end.min(high));
        }
    }
    partitions.read(|place, message| {
        if cut.remove(&place) {
            reading.cut_before(place, message.timestamp().to_millis());
        }
        put_one(message, place.0, &mut reading.into, &put);
    })?;
    for place in cut {
        reading.cut_before(place, None);
    }
    Ok(reading)
}

/// The partitions of a topic, and where each begins: none if there is nothing yet of that time.
fn begin(
    consumer: &BaseConsumer,
    from: &Since,
    number: u16,
    topic: &str,
) -> KafkaResult<Vec<(i32, Option<i64>)>> {
    let metadata = consumer.fetch_metadata(Some(topic), ANSWER)?;
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
        Since::Within(ranges) => {
            let begin = |it: i32| (it, ranges.get(&it).map(|range| range.start));
            Ok(partitions.map(begin).collect())
        }
        Since::Time(Some(time)) => {
            let mut asked = TopicPartitionList::new();
            for partition in partitions {
                asked.add_partition_offset(topic, partition, Offset::Offset(*time))?;
            }
            let told = consumer.offsets_for_times(asked, ANSWER)?;
            let begin = |it: rdkafka::topic_partition_list::TopicPartitionListElem<'_>| {
                it.error()?;
                Ok((it.partition(), it.offset().to_raw().filter(|at| *at >= 0)))
            };
            told.elements().into_iter().map(begin).collect()
        }
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
            message,
        },
    );
}
