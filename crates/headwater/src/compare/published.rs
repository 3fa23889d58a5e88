//! What is on the topics, read back band by band.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use headwater_core::band::{self, Band, Gathering, Place, ShortId};
use headwater_core::instant::Instant;
use headwater_encode::Encoder;
use headwater_sink::Error;
use headwater_sink::kafka::{Back, Ends, Since, Stored};

use crate::clock;

/// So many events are in memory at once, of 32 bytes each.
const LIMIT: usize = 1_000_000;
/// A message is later than its event, but for the clocks of those who wrote the two.
const CLOCKS_DIFFER: i64 = 10 * 60 * 1000;

/// How many messages of the topics were read, for those who show it; what is read again counts again.
pub type Count = Arc<AtomicU64>;

/// What a reading of the topics borrows: messages are put into it in a thread of its own.
struct Desk {
    gathering: Gathering,
    encoder: Encoder,
    /// Nothing but these is wanted.
    only: Option<HashSet<(u16, ShortId)>>,
    unreadable: u64,
    /// By how much an event's date was later than its message, at most, in milliseconds.
    lead: i64,
    count: Count,
}

/// The topics of a pipeline.
pub struct Published {
    back: Back,
    count: Count,
    numbers: HashMap<String, u16>,
    encoders: Encoders,
    /// Before these times (milliseconds since 1970) the topics' retention has cut what was there.
    cut: HashMap<u16, i64>,
    compacted: HashMap<u16, Option<bool>>,
    /// Messages that are none of this pipeline's, or of another envelope, as the first reading counted them: others read them again.
    unreadable: Option<u64>,
    /// The times of messages tell nothing of their events' dates: all of a topic is read.
    timeless: bool,
    /// By so much dates may be ahead of their messages, as far as was seen; in milliseconds.
    allowed: i64,
    /// Since when the topics were read last (milliseconds since 1970); 0: all of them.
    since: i64,
}

/// Makes encoders like that of the pipeline: each reading has one, in its own thread. None if the schemas changed for the worse.
pub type Encoders = Arc<dyn Fn() -> Option<Encoder> + Send + Sync>;

/// Topics that are read back band by band, and what they can tell of events.
pub trait Bands: Send + 'static {
    /// The events from there on, as many as fit, and up to where the topics were read. A band of whole dates has all events of a date or
    /// none, however many they are.
    fn band(
        &mut self,
        from: Place,
        whole_dates: bool,
    ) -> impl Future<Output = Result<(Band, Ends), Error>> + Send;

    /// Which of these have come since.
    fn since(
        &mut self,
        ends: &Ends,
        only: HashSet<(u16, ShortId)>,
    ) -> impl Future<Output = Result<Band, Error>> + Send;

    fn topics(&self) -> &[String];

    /// A topic's number in bands; none if there is no such topic.
    fn number(&self, topic: &str) -> Option<u16>;

    /// Whether an event of this date that is not on the topic can have been there.
    fn absent(&self, topic: u16, date: i64) -> Absent;

    /// How many messages are no events of this pipeline.
    fn unreadable(&self) -> u64;

    /// What the topics cannot tell, in sentences.
    fn doubts(&self) -> Vec<String>;
}

/// Where a table is begun to be laid beside the topics.
pub fn beginning(from: Option<Instant>) -> Place {
    Place::before(from.map_or(i64::MIN, |from| from.0))
}

/// What is known of an event that is not on its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// It never was there.
    Surely,
    /// It was there, and is gone, or it never was: retention or compaction has taken what is of its date, or its date is still to come.
    Perhaps,
}

impl Published {
    pub async fn open(back: Back, encoders: Encoders, count: Count) -> Result<Published, Error> {
        let numbers = back.topics().iter().cloned().zip(0..).collect();
        let compacted = back.compacted().await?.into_iter().collect();
        Ok(Published {
            back,
            count,
            numbers,
            encoders,
            cut: HashMap::new(),
            compacted,
            unreadable: None,
            timeless: false,
            allowed: CLOCKS_DIFFER,
            since: 0,
        })
    }

    /// The same, and all of the topics is read if their times tell nothing.
    #[must_use]
    pub fn timeless(mut self, timeless: bool) -> Published {
        self.timeless = timeless;
        self
    }

    async fn read(
        &mut self,
        from: Since,
        gathering: Gathering,
        only: Option<HashSet<(u16, ShortId)>>,
    ) -> Result<(Band, Ends, i64), Error> {
        let Some(encoder) = (self.encoders)() else {
            return Err(Error::fatal(
                "the schemas cannot be read any more",
                "headwater check says what is wrong with them",
            ));
        };
        let desk = Desk {
            gathering,
            encoder,
            only,
            unreadable: 0,
            lead: 0,
            count: Arc::clone(&self.count),
        };
        let reading = self.back.read(from, desk, put).await?;
        self.unreadable.get_or_insert(reading.into.unreadable);
        for (topic, since) in reading.cut {
            let known = self.cut.entry(topic).or_insert(since);
            *known = since.max(*known);
        }
        let Desk {
            gathering, lead, ..
        } = reading.into;
        Ok((gathering.finish(), reading.ends, lead))
    }
}

impl Bands for Published {
    /// Where dates are seen to be ahead of the messages by more than was thought, it is read from further back.
    async fn band(&mut self, from: Place, whole_dates: bool) -> Result<(Band, Ends), Error> {
        loop {
            let earliest = (from.date / 1000).saturating_sub(self.allowed).max(0);
            let time = if self.timeless { 0 } else { earliest };
            self.since = time;
            let gathering = Gathering::new(from, LIMIT).of_whole_dates(whole_dates);
            let since = Since::Time((time > 0).then_some(time));
            let (band, ends, lead) = self.read(since, gathering, None).await?;
            if lead <= self.allowed || time == 0 {
                return Ok((band, ends));
            }
            self.allowed = lead.saturating_add(CLOCKS_DIFFER);
        }
    }

    async fn since(&mut self, ends: &Ends, only: HashSet<(u16, ShortId)>) -> Result<Band, Error> {
        let gathering = Gathering::new(beginning(None), usize::MAX);
        let from = Since::Ends(ends.clone());
        let (band, ..) = self.read(from, gathering, Some(only)).await?;
        Ok(band)
    }

    fn topics(&self) -> &[String] {
        self.back.topics()
    }

    fn number(&self, topic: &str) -> Option<u16> {
        self.numbers.get(topic).copied()
    }

    fn absent(&self, topic: u16, date: i64) -> Absent {
        let is_cut = self.cut.get(&topic).is_some_and(|cut| date / 1000 < *cut);
        // Its message is older than its date, by nobody knows how much.
        let is_ahead = self.since > 0 && date > clock::micros();
        if is_cut || is_ahead || self.compacted.get(&topic) == Some(&Some(true)) {
            Absent::Perhaps
        } else {
            Absent::Surely
        }
    }

    fn unreadable(&self) -> u64 {
        self.unreadable.unwrap_or_default()
    }

    fn doubts(&self) -> Vec<String> {
        let name = |number: u16| self.topics().get(usize::from(number));
        let mut doubts = Vec::new();
        for (number, since) in &self.cut {
            let before = match since.checked_mul(1000) {
                Some(since) => format!("what is from before {}", Instant(since)),
                None => "some of what was there, of whatever date".into(),
            };
            doubts.push(format!(
                "topic {} has not kept {before}: events that are not there may have been",
                name(*number).map_or("?", String::as_str)
            ));
        }
        for (number, compacted) in &self.compacted {
            let name = name(*number).map_or("?", String::as_str);
            match compacted {
                Some(true) => doubts.push(format!(
                    "topic {name} is compacted: what is not there may have been"
                )),
                None => doubts.push(format!(
                    "whether topic {name} is compacted is not known: its settings may not be seen (ACL DescribeConfigs)"
                )),
                Some(false) => {}
            }
        }
        if self.unreadable() > 0 {
            doubts.push(format!(
                "{} messages on the topics are no events in this format: an event that was published in another form, or with another \
                 envelope, is taken for one that is not there",
                self.unreadable()
            ));
        }
        doubts.sort_unstable();
        doubts
    }
}

fn put(desk: &mut Desk, stored: &Stored<'_>) {
    desk.count.fetch_add(1, Ordering::Relaxed);
    let Some((id, date)) = desk.encoder.identify(stored.value) else {
        desk.unreadable += 1;
        return;
    };
    let only = desk.only.as_ref();
    if only.is_some_and(|only| !only.contains(&(stored.topic, id))) {
        return;
    }
    if let Some(time) = stored.time {
        desk.lead = desk.lead.max((date / 1000).saturating_sub(time));
    }
    desk.gathering.add(band::Found {
        id,
        topic: stored.topic,
        date,
        is_replay: stored.is_replay,
    });
}
