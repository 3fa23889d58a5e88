//! What is on the topics, read back band by band.

use std::collections::HashMap;
use std::sync::Arc;

use headwater_core::band::{self, Band, Gathering};
use headwater_core::instant::Instant;
use headwater_encode::Encoder;
use headwater_sink::Error;
use headwater_sink::kafka::{Back, Cut, Ends, Keeping, Since, Stored};

use crate::clock;

/// So many events are in memory at once, of 48 bytes each.
const LIMIT: usize = 1_000_000;
/// A message is later than its event, but for the clocks of those who wrote the two.
const CLOCKS_DIFFER: i64 = 10 * 60 * 1000;

/// What a reading of the topics borrows: messages are put into it in a thread of its own.
struct Desk {
    gathering: Gathering,
    encoder: Encoder,
    unreadable: u64,
}

/// The topics of a pipeline.
pub struct Published {
    back: Back,
    numbers: HashMap<String, u16>,
    encoders: Encoders,
    /// Before these times (milliseconds since 1970) the topics' retention has cut what was there.
    cut: HashMap<u16, i64>,
    keeping: HashMap<u16, Keeping>,
    /// Messages that are none of this pipeline's, or of another envelope, as the first reading counted them: others read them again.
    unreadable: Option<u64>,
}

/// Makes encoders like that of the pipeline: each reading has one, in its own thread. None if the schemas changed for the worse.
pub type Encoders = Arc<dyn Fn() -> Option<Encoder> + Send + Sync>;

/// Topics that are read back band by band, and what they can tell of events.
pub trait Bands: Send + 'static {
    /// The events of this date (microseconds since 1970) or later, as many as fit.
    fn band(&mut self, from: Option<i64>) -> impl Future<Output = Result<Band, Error>> + Send;
    /// A topic's number in bands; none if there is no such topic.
    fn number(&self, topic: &str) -> Option<u16>;
    /// Whether an event of this date that is not on the topic can have been there.
    fn absent(&self, topic: u16, date: i64) -> Absent;
    /// What the topics cannot tell, in sentences.
    fn doubts(&self) -> Vec<String>;
}

impl Bands for Published {
    async fn band(&mut self, from: Option<i64>) -> Result<Band, Error> {
        let (band, _) = Published::band(self, from).await?;
        Ok(band)
    }

    fn number(&self, topic: &str) -> Option<u16> {
        Published::number(self, topic)
    }

    fn absent(&self, topic: u16, date: i64) -> Absent {
        Published::absent(self, topic, date)
    }

    fn doubts(&self) -> Vec<String> {
        Published::doubts(self)
    }
}

/// What is known of an event that is not on its topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Absent {
    /// It never was there.
    Surely,
    /// It was there, and is gone, or it never was: retention or compaction has taken what is of its date.
    Perhaps,
}

impl Published {
    pub async fn open(back: Back, encoders: Encoders) -> Result<Published, Error> {
        let numbers = back.topics().iter().cloned().zip(0..).collect();
        let keeping = back.keeping().await?.into_iter().collect();
        Ok(Published {
            back,
            numbers,
            encoders,
            cut: HashMap::new(),
            keeping,
            unreadable: None,
        })
    }

    pub fn topics(&self) -> &[String] {
        self.back.topics()
    }

    /// A topic's number in bands; none if there is no such topic.
    pub fn number(&self, topic: &str) -> Option<u16> {
        self.numbers.get(topic).copied()
    }

    /// The events of this date (microseconds since 1970) or later, as many as fit, and up to where the topics were read.
    pub async fn band(&mut self, from: Option<i64>) -> Result<(Band, Ends), Error> {
        let time = from.map(|from| (from / 1000).saturating_sub(CLOCKS_DIFFER).max(0));
        let gathering = Gathering::new(from.unwrap_or(i64::MIN), LIMIT);
        self.read(Since::Time(time), gathering).await
    }

    /// Whatever has come since.
    pub async fn since(&mut self, ends: &Ends) -> Result<(Band, Ends), Error> {
        let gathering = Gathering::new(i64::MIN, usize::MAX);
        self.read(Since::Ends(ends.clone()), gathering).await
    }

    async fn read(&mut self, from: Since, gathering: Gathering) -> Result<(Band, Ends), Error> {
        let Some(encoder) = (self.encoders)() else {
            return Err(Error::fatal(
                "the schemas cannot be read any more",
                "headwater check says what is wrong with them",
            ));
        };
        let desk = Desk {
            gathering,
            encoder,
            unreadable: 0,
        };
        let reading = self.back.read(from, desk, put).await?;
        self.unreadable.get_or_insert(reading.into.unreadable);
        for (topic, cut) in reading.cut {
            let since = self.since_when(topic, cut);
            let known = self.cut.entry(topic).or_insert(since);
            *known = since.max(*known);
        }
        Ok((reading.into.gathering.finish(), reading.ends))
    }

    /// Since when nothing was cut. A partition from which all is gone does not tell: what the topic is told to keep does, if only time
    /// makes it delete.
    fn since_when(&self, topic: u16, cut: Cut) -> i64 {
        let at_least = self.keeping.get(&topic).and_then(|it| it.at_least);
        match (cut, at_least) {
            (Cut::Before(time), _) => time,
            (Cut::All, Some(at_least)) => (clock::micros() / 1000).saturating_sub(at_least),
            (Cut::All, None) => i64::MAX,
        }
    }

    /// Whether an event of this date that is not on the topic can have been there.
    pub fn absent(&self, topic: u16, date: i64) -> Absent {
        let is_cut = self.cut.get(&topic).is_some_and(|cut| date / 1000 < *cut);
        let keeping = self.keeping.get(&topic).copied().unwrap_or_default();
        if is_cut || keeping.compacted == Some(true) {
            Absent::Perhaps
        } else {
            Absent::Surely
        }
    }

    pub fn unreadable(&self) -> u64 {
        self.unreadable.unwrap_or_default()
    }

    /// What the topics cannot tell, in sentences.
    pub fn doubts(&self) -> Vec<String> {
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
        for (number, keeping) in &self.keeping {
            let name = name(*number).map_or("?", String::as_str);
            match keeping.compacted {
                Some(true) => doubts.push(format!(
                    "topic {name} is compacted: what is not there may have been"
                )),
                None => doubts.push(format!(
                    "whether topic {name} is compacted is not known: its settings may not be seen (ACL DescribeConfigs)"
                )),
                Some(false) => {}
            }
        }
        doubts.sort_unstable();
        doubts
    }
}

fn put(desk: &mut Desk, stored: &Stored<'_>) {
    match desk.encoder.identify(stored.value) {
        Some((id, date)) => desk.gathering.add(band::Found {
            id,
            topic: stored.topic,
            date,
            is_replay: stored.is_replay,
        }),
        None => desk.unreadable += 1,
    }
}
