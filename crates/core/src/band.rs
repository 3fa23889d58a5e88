//! What is on the topics, beside which the table is laid: the events of a span of dates, as many as memory may hold.
//!
//! In: what was found on the topics, in any order. Out: of each message of a row, whether it is there.
//! Rule: a band is bounded. What does not fit stands behind all that is in it, by date and then by id, and belongs to the next band.

use std::fmt;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// An event's id in few bytes, whatever its length. Ids that are no uuids are told apart by a hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ShortId {
    bits: u128,
    is_uuid: bool,
}

impl ShortId {
    pub fn of(id: &str) -> ShortId {
        match uuid(id) {
            Some(bits) => ShortId {
                bits,
                is_uuid: true,
            },
            None => ShortId {
                bits: u128::from(hash(0, id)) << 64 | u128::from(hash(1, id)),
                is_uuid: false,
            },
        }
    }
}

/// Where an event stands among all: by its date, and by its id among those of one date.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Place {
    /// Microseconds since 1970.
    pub date: i64,
    pub id: ShortId,
}

impl Place {
    /// Before all events of this date.
    pub fn before(date: i64) -> Place {
        let id = ShortId {
            bits: 0,
            is_uuid: false,
        };
        Place { date, id }
    }

    pub fn is_before_its_date(self) -> bool {
        self.id.bits == 0 && !self.id.is_uuid
    }
}

/// The id itself, if it is a uuid.
impl fmt::Display for ShortId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = format!("{:032x}", self.bits);
        if !self.is_uuid {
            return write!(f, "(an id that is no uuid, hash {digits})");
        }
        for (place, digit) in digits.char_indices() {
            if matches!(place, 8 | 12 | 16 | 20) {
                f.write_str("-")?;
            }
            write!(f, "{digit}")?;
        }
        Ok(())
    }
}

/// Only the form that a uuid is written in: another spelling is another id.
fn uuid(id: &str) -> Option<u128> {
    let bytes = id.as_bytes();
    if bytes.len() != 36 {
        return None;
    }
    let mut bits = 0;
    for (place, byte) in bytes.iter().enumerate() {
        let digit = match (place, byte) {
            (8 | 13 | 18 | 23, b'-') => continue,
            (8 | 13 | 18 | 23, _) => return None,
            (_, b'0'..=b'9') => byte - b'0',
            (_, b'a'..=b'f') => byte - b'a' + 10,
            _ => return None,
        };
        bits = bits << 4 | u128::from(digit);
    }
    Some(bits)
}

fn hash(seed: u8, id: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    (seed, id).hash(&mut hasher);
    hasher.finish()
}

/// One event on one topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Found {
    pub id: ShortId,
    /// Which topic; the caller's own number.
    pub topic: u16,
    /// Microseconds since 1970.
    pub date: i64,
    /// Somebody asked for it once more.
    pub is_replay: bool,
}

/// In 32 bytes, for there are a million of them: an id's two parts are apart.
#[derive(Debug, Clone, Copy)]
struct Entry {
    bits: u128,
    date: i64,
    topic: u16,
    /// Without replays.
    copies: u16,
    replays: u16,
    is_uuid: bool,
    is_in_table: bool,
}

impl Entry {
    fn id(&self) -> ShortId {
        ShortId {
            bits: self.bits,
            is_uuid: self.is_uuid,
        }
    }

    fn place(&self) -> Place {
        Place {
            date: self.date,
            id: self.id(),
        }
    }

    /// In which order they are looked for.
    fn rank(&self) -> (u16, ShortId) {
        (self.topic, self.id())
    }
}

/// A band under way: what is found on the topics is put into it.
#[derive(Debug)]
pub struct Gathering {
    entries: Vec<Entry>,
    from: Place,
    /// From here on nothing is kept any more.
    horizon: Option<Place>,
    limit: usize,
    /// Events of one date stay together, however many they are.
    whole_dates: bool,
}

impl Gathering {
    /// Events from there on; no more than about `limit` of them.
    pub fn new(from: Place, limit: usize) -> Gathering {
        Gathering {
            entries: Vec::new(),
            from,
            horizon: None,
            limit: limit.max(2),
            whole_dates: false,
        }
    }

    /// For whoever lays a table beside it that has the ids of one date in an order of its own.
    #[must_use]
    pub fn of_whole_dates(mut self, whole_dates: bool) -> Gathering {
        self.whole_dates = whole_dates;
        self
    }

    pub fn add(&mut self, found: Found) {
        let Found { date, id, .. } = found;
        if !is_within(self.from, self.horizon, Place { date, id }) {
            return;
        }
        if self.entries.len() >= self.limit {
            self.shrink();
            return self.add(found);
        }
        self.entries.push(Entry {
            bits: found.id.bits,
            date: found.date,
            topic: found.topic,
            copies: u16::from(!found.is_replay),
            replays: u16::from(found.is_replay),
            is_uuid: found.id.is_uuid,
            is_in_table: false,
        });
    }

    /// Lowers the horizon, so that about half of it is left.
    fn shrink(&mut self) {
        self.merge();
        let middle = self.entries.len() / 2;
        if middle < self.limit / 4 {
            return; // most of them were copies of others
        }
        let (_, entry, _) = self
            .entries
            .select_nth_unstable_by_key(middle, Entry::place);
        let horizon = if self.whole_dates {
            Place::before(entry.date)
        } else {
            entry.place()
        };
        let first = self.entries.iter().map(Entry::place).min();
        if first.is_none_or(|first| first >= horizon) {
            self.limit = self.limit.saturating_mul(2);
            return;
        }
        self.horizon = Some(horizon);
        self.entries.retain(|it| it.place() < horizon);
    }

    /// Copies of one event become one entry, in the order in which they are looked for.
    fn merge(&mut self) {
        self.entries.sort_unstable_by_key(Entry::rank);
        self.entries.dedup_by(|next, kept| {
            let is_same = next.rank() == kept.rank();
            if is_same {
                kept.copies = kept.copies.saturating_add(next.copies);
                kept.replays = kept.replays.saturating_add(next.replays);
            }
            is_same
        });
    }

    /// All of the topics was read.
    pub fn finish(mut self) -> Band {
        self.merge();
        Band {
            entries: self.entries,
            from: self.from,
            horizon: self.horizon,
        }
    }
}

fn is_within(from: Place, horizon: Option<Place>, place: Place) -> bool {
    place >= from && horizon.is_none_or(|horizon| place < horizon)
}

/// Everything that is on the topics of a span of dates.
#[derive(Debug)]
pub struct Band {
    /// In the order of topic and id.
    entries: Vec<Entry>,
    from: Place,
    horizon: Option<Place>,
}

impl Band {
    /// Nothing is known of what is before this.
    pub fn from(&self) -> Place {
        self.from
    }

    /// Nor of what is from here on; if there is none, all of that is known.
    pub fn horizon(&self) -> Option<Place> {
        self.horizon
    }

    /// Whether it tells of an event that stands there.
    pub fn covers(&self, place: Place) -> bool {
        is_within(self.from, self.horizon, place)
    }

    /// The table has this event: whether the topic has it too.
    pub fn has(&mut self, topic: u16, id: ShortId) -> bool {
        let place = self.entries.binary_search_by_key(&(topic, id), Entry::rank);
        match place.ok().and_then(|place| self.entries.get_mut(place)) {
            Some(entry) => {
                entry.is_in_table = true;
                true
            }
            None => false,
        }
    }

    /// What the table does not have, with its topic and date.
    pub fn foreign(&self) -> impl Iterator<Item = (ShortId, u16, i64)> + '_ {
        let foreign = self.entries.iter().filter(|it| !it.is_in_table);
        foreign.map(|it| (it.id(), it.topic, it.date))
    }

    /// Events that the table has, and their topic more than once; with topic and date.
    pub fn doubled(&self) -> impl Iterator<Item = (ShortId, u16, i64)> + '_ {
        let doubled = self.entries.iter();
        let doubled = doubled.filter(|it| it.is_in_table && it.copies > 1);
        doubled.map(|it| (it.id(), it.topic, it.date))
    }

    /// The dates of the table's events that were published again by a replay.
    pub fn replayed(&self) -> impl Iterator<Item = i64> + '_ {
        let all = self.entries.iter();
        let replayed = all.filter(|it| it.is_in_table && it.replays > 0);
        replayed.map(|it| it.date)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(number: u128, date: i64) -> Found {
        let id = format!("{number:032x}");
        let uuid = [&id[..8], &id[8..12], &id[12..16], &id[16..20], &id[20..]].join("-");
        Found {
            id: ShortId::of(&uuid),
            topic: 0,
            date,
            is_replay: false,
        }
    }

    #[test]
    fn a_uuid_is_its_own_mark_and_others_are_told_apart() {
        let id = "0b5e4a31-6c0e-4c1e-9d6e-2f1c6a4b9f01";
        assert_eq!(ShortId::of(id).to_string(), id);
        let ids = [
            id,
            "0B5E4A31-6c0e-4c1e-9d6e-2f1c6a4b9f01",
            "0b5e4a31-6c0e-4c1e-9d6e-2f1c6a4b9f0",
            "7",
            "",
            "0b5e4a316c0e-4c1e-9d6e-2f1c6a4b9f01-",
        ];
        for (place, one) in ids.iter().enumerate() {
            for other in &ids[place + 1..] {
                assert_ne!(ShortId::of(one), ShortId::of(other), "{one} {other}");
            }
        }
        assert!(ShortId::of("7").to_string().contains("no uuid"));
    }

    #[test]
    fn what_is_there_missing_doubled_and_foreign_is_told() {
        let mut gathering = Gathering::new(Place::before(0), 100);
        for id in [1, 2, 2, 3] {
            gathering.add(found(id, 10));
        }
        let replay = Found {
            is_replay: true,
            ..found(1, 10)
        };
        gathering.add(replay);
        gathering.add(found(9, -1));
        let mut band = gathering.finish();
        assert!(band.has(0, found(1, 0).id) && band.has(0, found(2, 0).id));
        assert!(!band.has(0, found(4, 0).id));
        assert!(!band.has(1, found(1, 0).id), "on another topic");
        assert!(!band.has(0, found(9, 0).id), "before the band");
        let foreign: Vec<_> = band.foreign().collect();
        assert_eq!(foreign, [(found(3, 0).id, 0, 10)]);
        let doubled: Vec<_> = band.doubled().collect();
        assert_eq!(doubled, [(found(2, 0).id, 0, 10)]);
        assert_eq!(band.replayed().count(), 1);
        assert_eq!(band.horizon(), None);
    }

    /// Whatever the limit and the order: bands that follow each other have every event once, as one large band has.
    #[test]
    fn bands_follow_each_other_without_gap_or_overlap() {
        let limits = [2, 3, 7, 50, 10_000];
        let kinds = limits.map(|limit| [(limit, false), (limit, true)]);
        for (limit, whole_dates) in kinds.into_iter().flatten() {
            let all: Vec<Found> = (0..500_u32)
                .map(|n| found(u128::from(n % 400), i64::from(n % 400 * 7919 % 97)))
                .collect();
            let (mut from, mut all_found) = (Place::before(i64::MIN), Vec::new());
            loop {
                let mut gathering = Gathering::new(from, limit).of_whole_dates(whole_dates);
                for it in &all {
                    gathering.add(*it);
                }
                let band = gathering.finish();
                all_found.extend(band.foreign());
                match band.horizon() {
                    Some(horizon) => {
                        assert!(horizon > from);
                        from = horizon;
                    }
                    None => break,
                }
            }
            let dates: Vec<i64> = all_found.iter().map(|(_, _, date)| *date).collect();
            assert_eq!(dates.len(), 400, "limit {limit}");
            all_found.sort_unstable();
            all_found.dedup();
            assert_eq!(all_found.len(), 400, "limit {limit}");
        }
    }

    #[test]
    fn many_events_of_one_date_are_divided_by_their_ids() {
        let mut gathering = Gathering::new(Place::before(0), 10);
        for id in (0..1000).rev() {
            gathering.add(found(id, 5));
        }
        let mut band = gathering.finish();
        assert!(band.foreign().count() <= 10);
        let (first, last) = (found(0, 5), found(999, 5));
        let place = |it: Found| Place {
            date: it.date,
            id: it.id,
        };
        assert!(band.covers(place(first)) && !band.covers(place(last)));
        assert!(band.has(0, first.id));
        assert_eq!(band.horizon().map(|it| it.date), Some(5));
    }

    #[test]
    fn where_ids_have_another_order_the_events_of_one_date_are_in_one_band() {
        let mut gathering = Gathering::new(Place::before(0), 4).of_whole_dates(true);
        for id in 0..100 {
            gathering.add(found(id, 5));
        }
        let band = gathering.finish();
        assert_eq!((band.foreign().count(), band.horizon()), (100, None));
    }
}
