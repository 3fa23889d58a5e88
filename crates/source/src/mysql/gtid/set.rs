//! MySQL's: a set of transactions, as intervals of each source's numbers.
//!
//! One mark a transaction carries a set, and hardly any differs from the one before it by more than its last number: the
//! intervals are shared, and the one that grows is kept beside them.

use std::borrow::Cow;
use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

use super::NotAGtid;

/// Who numbered a transaction: a server (or a group of them), and a tag that a session may have chosen.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Sid {
    pub uuid: [u8; 16],
    pub tag: Option<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MySqlGtid {
    pub sid: Sid,
    pub number: u64,
}

/// Both ends belong to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Interval {
    first: u64,
    last: u64,
}

type Intervals = BTreeMap<Sid, Vec<Interval>>;

#[derive(Debug, Clone, Default)]
pub struct GtidSet {
    /// In order, with a gap between any two.
    base: Arc<Intervals>,
    /// Not in the base, and perhaps its neighbour.
    tip: Option<(Sid, Interval)>,
}

impl GtidSet {
    pub fn add(&mut self, gtid: &MySqlGtid) {
        if let Some((sid, tip)) = &mut self.tip
            && tip.last.checked_add(1) == Some(gtid.number)
            && *sid == gtid.sid
            && !held(&self.base, gtid)
        {
            tip.last = gtid.number;
            return;
        }
        if self.contains(gtid) {
            return;
        }
        if let Some((sid, tip)) = self.tip.take() {
            insert(Arc::make_mut(&mut self.base), sid, tip);
        }
        let only = Interval {
            first: gtid.number,
            last: gtid.number,
        };
        self.tip = Some((gtid.sid.clone(), only));
    }

    pub fn contains(&self, gtid: &MySqlGtid) -> bool {
        let in_tip = self.tip.as_ref().is_some_and(|(sid, tip)| {
            (tip.first..=tip.last).contains(&gtid.number) && *sid == gtid.sid
        });
        in_tip || held(&self.base, gtid)
    }

    pub fn is_empty(&self) -> bool {
        self.base.is_empty() && self.tip.is_none()
    }

    pub fn has_tags(&self) -> bool {
        let tagged = |sid: &Sid| sid.tag.is_some();
        self.base.keys().any(tagged) || self.tip.as_ref().is_some_and(|(sid, _)| tagged(sid))
    }

    /// Each source with its intervals, both ends belonging to them.
    pub fn intervals(&self) -> Vec<(Sid, Vec<(u64, u64)>)> {
        let ends = |interval: &Interval| (interval.first, interval.last);
        self.whole()
            .iter()
            .map(|(sid, intervals)| (sid.clone(), intervals.iter().map(ends).collect()))
            .collect()
    }

    #[must_use]
    pub fn union(&self, other: &GtidSet) -> GtidSet {
        let mut all = self.whole().into_owned();
        for (sid, intervals) in other.whole().iter() {
            for interval in intervals {
                insert(&mut all, sid.clone(), *interval);
            }
        }
        GtidSet::from(all)
    }

    /// What is here and not in the other.
    #[must_use]
    pub fn subtract(&self, other: &GtidSet) -> GtidSet {
        let other = other.whole();
        let mut left = Intervals::new();
        for (sid, intervals) in self.whole().iter() {
            let holes = other.get(sid).map_or(&[][..], Vec::as_slice);
            let rest: Vec<Interval> = intervals
                .iter()
                .flat_map(|interval| without(*interval, holes))
                .collect();
            if !rest.is_empty() {
                left.insert(sid.clone(), rest);
            }
        }
        GtidSet::from(left)
    }

    #[must_use]
    pub fn without(&self, gtid: &MySqlGtid) -> GtidSet {
        let mut one = GtidSet::default();
        one.add(gtid);
        self.subtract(&one)
    }

    pub fn includes(&self, other: &GtidSet) -> bool {
        let all = self.whole();
        other.whole().iter().all(|(sid, intervals)| {
            let around = all.get(sid).map_or(&[][..], Vec::as_slice);
            intervals
                .iter()
                .all(|interval| without(*interval, around).is_empty())
        })
    }

    /// Base and tip together.
    fn whole(&self) -> Cow<'_, Intervals> {
        match &self.tip {
            None => Cow::Borrowed(&*self.base),
            Some((sid, tip)) => {
                let mut all = Intervals::clone(&self.base);
                insert(&mut all, sid.clone(), *tip);
                Cow::Owned(all)
            }
        }
    }
}

impl From<Intervals> for GtidSet {
    fn from(intervals: Intervals) -> GtidSet {
        GtidSet {
            base: Arc::new(intervals),
            tip: None,
        }
    }
}

fn held(base: &Intervals, gtid: &MySqlGtid) -> bool {
    let Some(intervals) = base.get(&gtid.sid) else {
        return false;
    };
    let before = intervals.partition_point(|interval| interval.last < gtid.number);
    intervals
        .get(before)
        .is_some_and(|interval| interval.first <= gtid.number)
}

/// Puts an interval among others, and joins those that touch it.
fn insert(all: &mut Intervals, sid: Sid, mut new: Interval) {
    let intervals = all.entry(sid).or_default();
    let touches_from = intervals.partition_point(|i| i.last.saturating_add(1) < new.first);
    let touches_to = intervals.partition_point(|i| i.first <= new.last.saturating_add(1));
    let touched = touches_from..touches_to.max(touches_from);
    for interval in intervals.get(touched.clone()).unwrap_or_default() {
        new.first = new.first.min(interval.first);
        new.last = new.last.max(interval.last);
    }
    intervals.splice(touched, [new]);
}

/// An interval without its part in the holes, which are in order.
fn without(interval: Interval, holes: &[Interval]) -> Vec<Interval> {
    let mut rest = Vec::new();
    let mut from = Some(interval.first);
    let first = holes.partition_point(|hole| hole.last < interval.first);
    for hole in holes.get(first..).unwrap_or_default() {
        let Some(start) = from else { break };
        if hole.first > interval.last {
            break;
        }
        if hole.first > start {
            rest.push(Interval {
                first: start,
                last: hole.first.saturating_sub(1),
            });
        }
        from = hole.last.checked_add(1);
    }
    if let Some(first) = from.filter(|first| *first <= interval.last) {
        rest.push(Interval {
            first,
            last: interval.last,
        });
    }
    rest
}

/// The order of two sets, by which of them is within the other.
pub(super) fn by_inclusion(one_in_two: bool, two_in_one: bool) -> Option<Ordering> {
    match (one_in_two, two_in_one) {
        (true, true) => Some(Ordering::Equal),
        (true, false) => Some(Ordering::Less),
        (false, true) => Some(Ordering::Greater),
        (false, false) => None,
    }
}

impl PartialEq for GtidSet {
    fn eq(&self, other: &GtidSet) -> bool {
        (Arc::ptr_eq(&self.base, &other.base) && self.tip == other.tip)
            || self.whole() == other.whole()
    }
}

impl PartialOrd for GtidSet {
    fn partial_cmp(&self, other: &GtidSet) -> Option<Ordering> {
        by_inclusion(other.includes(self), self.includes(other))
    }
}

impl fmt::Display for Sid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.uuid_text(f)?;
        match &self.tag {
            Some(tag) => write!(f, ":{tag}"),
            None => Ok(()),
        }
    }
}

impl Sid {
    fn uuid_text(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, byte) in self.uuid.iter().enumerate() {
            let hyphen = if matches!(place, 4 | 6 | 8 | 10) {
                "-"
            } else {
                ""
            };
            write!(f, "{hyphen}{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Display for MySqlGtid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.sid, self.number)
    }
}

/// As in `@@gtid_executed`: a source's uuid once, its tags behind its own numbers.
impl fmt::Display for GtidSet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before: Option<[u8; 16]> = None;
        for (sid, intervals) in self.whole().iter() {
            if before != Some(sid.uuid) {
                f.write_str(if before.is_some() { "," } else { "" })?;
                sid.uuid_text(f)?;
                before = Some(sid.uuid);
            }
            if let Some(tag) = &sid.tag {
                write!(f, ":{tag}")?;
            }
            for Interval { first, last } in intervals {
                if first == last {
                    write!(f, ":{first}")?;
                } else {
                    write!(f, ":{first}-{last}")?;
                }
            }
        }
        Ok(())
    }
}

impl FromStr for MySqlGtid {
    type Err = NotAGtid;

    fn from_str(text: &str) -> Result<MySqlGtid, NotAGtid> {
        let set: GtidSet = text.parse()?;
        let mut all = set.intervals().into_iter();
        match (all.next(), all.next()) {
            (Some((sid, intervals)), None) => match *intervals {
                [(first, last)] if first == last => Ok(MySqlGtid { sid, number: first }),
                _ => Err(NotAGtid(text.to_owned())),
            },
            _ => Err(NotAGtid(text.to_owned())),
        }
    }
}

impl FromStr for GtidSet {
    type Err = NotAGtid;

    /// White space may stand anywhere between: the server breaks lines after commas.
    fn from_str(text: &str) -> Result<GtidSet, NotAGtid> {
        let mut all = Intervals::new();
        for part in text
            .split(',')
            .map(str::trim)
            .filter(|part| !part.is_empty())
        {
            let mut pieces = part.split(':').map(str::trim);
            let uuid = pieces.next().and_then(uuid);
            let mut sid = Sid {
                uuid: uuid.ok_or_else(|| NotAGtid(part.to_owned()))?,
                tag: None,
            };
            let mut numbers = 0;
            for piece in pieces {
                if let Some(interval) = interval(piece) {
                    insert(&mut all, sid.clone(), interval);
                    numbers += 1;
                } else {
                    let tag = tag(piece).ok_or_else(|| NotAGtid(part.to_owned()))?;
                    sid.tag = Some(tag);
                    numbers = 0;
                }
            }
            if numbers == 0 {
                return Err(NotAGtid(part.to_owned()));
            }
        }
        Ok(GtidSet::from(all))
    }
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let digits: String = text.split('-').collect();
    let hyphens = text.bytes().filter(|byte| *byte == b'-').count();
    if digits.len() != 32 || !matches!(hyphens, 0 | 4) {
        return None;
    }
    // Parsing a number would take a sign for a digit.
    let all = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
    let number = u128::from_str_radix(&digits, 16).ok()?;
    all.then(|| number.to_be_bytes())
}

fn interval(text: &str) -> Option<Interval> {
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let number = |text: &str| {
        let text = text.trim();
        let all = text.bytes().all(|byte| byte.is_ascii_digit());
        text.parse::<u64>().ok().filter(|_| all)
    };
    let interval = Interval {
        first: number(first)?,
        last: number(last)?,
    };
    (interval.first > 0 && interval.first <= interval.last).then_some(interval)
}

/// At most 32 letters, digits and underscores, not beginning with a digit; capitals are small ones.
fn tag(text: &str) -> Option<Arc<str>> {
    let begins = text
        .bytes()
        .next()
        .is_some_and(|b| b.is_ascii_alphabetic() || b == b'_');
    let all = text.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_');
    (begins && all && text.len() <= 32).then(|| text.to_ascii_lowercase().into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const ONE: &str = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    const TWO: &str = "896e7882-18fe-11ef-ab88-22222d34d411";

    fn set(text: &str) -> GtidSet {
        text.parse().expect("a set")
    }

    #[test]
    fn a_set_is_told_as_the_server_does_and_comes_back() {
        for text in [
            String::new(),
            format!("{ONE}:1-5"),
            format!("{ONE}:1-5:7:9-11"),
            format!("{ONE}:1-4:aaaa:1:abc:1-3,{TWO}:x:2"),
            format!("{ONE}:1-9223372036854775806"),
        ] {
            assert_eq!(set(&text).to_string(), text);
        }
        let messy = format!(" {} : 5 - 7 : 1-2:3 ,\n{ONE}:Shop:4", ONE.to_uppercase());
        assert_eq!(set(&messy).to_string(), format!("{ONE}:1-3:5-7:shop:4"));
    }

    #[test]
    fn what_is_no_set_is_refused() {
        for text in [
            "1-5".to_owned(),
            ONE.to_owned(),
            format!("{ONE}:"),
            format!("{ONE}:0"),
            format!("{ONE}:5-4"),
            format!("{ONE}:tag"),
            format!("{ONE}:1:ta-g:1"),
            format!("{ONE}:+1"),
            format!("{}:1", ONE.replace('-', "_")),
            format!("{}:1", &ONE[1..]),
        ] {
            assert!(text.parse::<GtidSet>().is_err(), "{text}");
        }
    }

    #[test]
    fn the_next_transaction_shares_all_that_was_before() {
        let mut set = set(&format!("{ONE}:1-5,{TWO}:1-3"));
        for number in [6, 7, 8] {
            let gtid = format!("{ONE}:{number}").parse().expect("a gtid");
            set.add(&gtid);
        }
        let before = set.clone();
        set.add(&format!("{ONE}:9").parse().expect("a gtid"));
        assert!(Arc::ptr_eq(&before.base, &set.base));
        assert!(before < set);
        assert_eq!(set.to_string(), format!("{ONE}:1-9,{TWO}:1-3"));
    }

    /// The slow statement: every transaction for itself.
    type Slow = BTreeSet<(u8, bool, u64)>;

    fn gtid((source, tagged, number): (u8, bool, u64)) -> MySqlGtid {
        let tag = tagged.then(|| "tag".into());
        MySqlGtid {
            sid: Sid {
                uuid: [source; 16],
                tag,
            },
            number,
        }
    }

    fn made(slow: impl IntoIterator<Item = (u8, bool, u64)>) -> GtidSet {
        let mut set = GtidSet::default();
        for one in slow {
            set.add(&gtid(one));
        }
        set
    }

    fn some() -> impl Strategy<Value = Vec<(u8, bool, u64)>> {
        prop::collection::vec((0..3_u8, any::<bool>(), 1..12_u64), 0..40)
    }

    proptest! {
        #[test]
        fn sets_are_what_sets_of_single_transactions_are(one in some(), two in some()) {
            let (slow_one, slow_two): (Slow, Slow) = (one.iter().copied().collect(), two.iter().copied().collect());
            let (one, two) = (made(one), made(two));
            for any in slow_one.union(&slow_two) {
                prop_assert_eq!(one.contains(&gtid(*any)), slow_one.contains(any));
            }
            prop_assert_eq!(one.union(&two), made(slow_one.union(&slow_two).copied()));
            prop_assert_eq!(one.subtract(&two), made(slow_one.difference(&slow_two).copied()));
            prop_assert_eq!(one.includes(&two), slow_one.is_superset(&slow_two));
            prop_assert_eq!(one == two, slow_one == slow_two);
            let order = by_inclusion(slow_one.is_subset(&slow_two), slow_two.is_subset(&slow_one));
            prop_assert_eq!(one.partial_cmp(&two), order);
            prop_assert_eq!(&set(&one.to_string()), &one);
            let count: u64 = one.intervals().iter().flat_map(|(_, all)| all).map(|(a, b)| b - a + 1).sum();
            prop_assert_eq!(count, slow_one.len() as u64);
        }

        #[test]
        fn any_text_is_survived(text in "[0-9a-f:,\\- ]{0,60}") {
            let _ = text.parse::<GtidSet>();
        }
    }
}
