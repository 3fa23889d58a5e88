//! Which letters are open, as the topic is read from its beginning; pure.
//!
//! Rule: a mark counts only in its own partition, where it stands behind its letter; so partitions may be read in any order.

use std::collections::{BTreeMap, HashMap};

use headwater_core::dead_letter::{Entry, Letter, Mark};
use headwater_core::event::Role;

/// So much of an error's text is kept.
const TOLD: usize = 80;

/// A letter, as far as a list tells of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Stand {
    pub id: String,
    pub event_id: String,
    pub kind: String,
    pub time: String,
    pub event_type: Option<String>,
    /// That failed, counted from 1; none: the row as a whole.
    pub route: Option<usize>,
    pub topic: Option<String>,
    /// Its beginning.
    pub error: String,
    pub out_of_order: bool,
    /// Where it stands, in each partition that has it: usually one. After a change of keys or partitions it may be others.
    pub places: BTreeMap<i32, i64>,
    /// Of its value.
    pub bytes: usize,
    pub is_cut: bool,
    /// When it was published after all.
    pub replayed: Option<String>,
}

/// The letters of one pipeline.
#[derive(Debug, Default)]
pub struct Letters {
    pipeline: String,
    asked: Vec<String>,
    open: HashMap<String, Stand>,
    /// Of those that were asked for by their id.
    closed: HashMap<String, Stand>,
    /// How many were published after all.
    pub replayed: u64,
    /// Messages that are no letters.
    pub strange: u64,
    /// Letters of other pipelines.
    pub others: u64,
}

impl Letters {
    pub fn of(pipeline: &str, asked: &[String]) -> Letters {
        Letters {
            pipeline: pipeline.to_owned(),
            asked: asked.to_vec(),
            ..Letters::default()
        }
    }

    pub fn take(&mut self, place: (i32, i64), entry: Entry, bytes: usize) {
        match entry {
            Entry::Letter(letter) if letter.name == self.pipeline => {
                self.letter(place, *letter, bytes);
            }
            Entry::Mark(mark) if mark.name == self.pipeline => self.mark(place, mark),
            Entry::Letter(_) => self.others += 1,
            Entry::Mark(_) => {}
        }
    }

    fn letter(&mut self, (partition, offset): (i32, i64), letter: Letter, bytes: usize) {
        let mut places = match self.open.remove(&letter.id) {
            Some(known) => known.places,
            None => BTreeMap::new(),
        };
        places.insert(partition, offset);
        let event_type = letter.column(Role::EventType.name()).map(str::to_owned);
        let stand = Stand {
            event_type,
            error: letter.error.chars().take(TOLD).collect(),
            is_cut: !letter.cut.is_empty(),
            id: letter.id,
            event_id: letter.event_id,
            kind: letter.kind,
            time: letter.time,
            route: letter.route,
            topic: letter.topic,
            out_of_order: letter.out_of_order,
            places,
            bytes,
            replayed: None,
        };
        self.closed.remove(&stand.id);
        self.open.insert(stand.id.clone(), stand);
    }

    fn mark(&mut self, (partition, offset): (i32, i64), mark: Mark) {
        let Some(stand) = self.open.get_mut(&mark.letter) else {
            return;
        };
        if stand.places.len() > 1 {
            stand.places.remove(&partition);
            return;
        }
        if stand.places.get(&partition).is_none_or(|at| *at >= offset) {
            return;
        }
        self.replayed += 1;
        let Some(mut stand) = self.open.remove(&mark.letter) else {
            return;
        };
        if self.asked.contains(&stand.id) || self.asked.contains(&stand.event_id) {
            stand.replayed = Some(mark.time);
            self.closed.insert(mark.letter, stand);
        }
    }

    pub fn open(&self) -> impl Iterator<Item = &Stand> {
        self.open.values()
    }

    /// Those that are open, in the order of the topic.
    pub fn into_open(self) -> Vec<Stand> {
        let mut open: Vec<Stand> = self.open.into_values().collect();
        open.sort_unstable_by(|a, b| a.places.iter().cmp(b.places.iter()));
        open
    }

    /// Those of this id, or of an event with this id, open or not, by their ids.
    pub fn named(&self, id: &str) -> Vec<&Stand> {
        let all = self.open.values().chain(self.closed.values());
        let mut named: Vec<&Stand> = all
            .filter(|stand| stand.id == id || stand.event_id == id)
            .collect();
        named.sort_unstable_by(|a, b| a.id.cmp(&b.id));
        named
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn letter(id: &str, name: &str) -> Entry {
        Entry::Letter(Box::new(Letter {
            id: id.into(),
            event_id: id.split('/').next().unwrap_or_default().into(),
            name: name.into(),
            ..Letter::default()
        }))
    }

    fn mark(id: &str, name: &str) -> Entry {
        Entry::Mark(Mark {
            letter: id.into(),
            name: name.into(),
            time: "now".into(),
        })
    }

    fn open(entries: Vec<((i32, i64), Entry)>) -> Vec<String> {
        let mut letters = Letters::of("shop", &["c".into()]);
        for (place, entry) in entries {
            letters.take(place, entry, 0);
        }
        let open = letters.into_open().into_iter();
        open.map(|stand| stand.id).collect()
    }

    #[test]
    fn a_letter_is_open_until_its_mark_stands_behind_it() {
        let entries = vec![
            ((1, 0), letter("a/1", "shop")),
            ((0, 0), mark("b/1", "shop")),
            ((0, 1), letter("b/1", "shop")),
            ((1, 1), letter("a/2", "shop")),
            ((1, 2), mark("a/1", "shop")),
        ];
        assert_eq!(open(entries), ["b/1", "a/2"]);
    }

    #[test]
    fn a_letter_that_comes_again_behind_its_mark_is_open_again() {
        let entries = vec![
            ((0, 0), letter("a", "shop")),
            ((0, 1), letter("a", "shop")),
            ((0, 2), mark("a", "shop")),
            ((0, 3), letter("a", "shop")),
        ];
        assert_eq!(open(entries), ["a"]);
    }

    #[test]
    fn marks_count_in_their_own_partition_whatever_order_they_are_read_in() {
        let first = vec![((0, 5), letter("a", "shop")), ((0, 6), mark("a", "shop"))];
        let second = vec![((1, 0), letter("a", "shop")), ((1, 9), mark("a", "shop"))];
        let all = [first.clone(), second.clone()].concat();
        assert!(open(all).is_empty());
        assert!(open([second.clone(), first.clone()].concat()).is_empty());
        let zipped = first.iter().zip(&second).flat_map(|(a, b)| [a, b]);
        assert!(open(zipped.cloned().collect()).is_empty());
        assert_eq!(open([first, second[..1].to_vec()].concat()), ["a"]);
    }

    #[test]
    fn the_letters_of_other_pipelines_are_not_looked_at() {
        let entries = vec![
            ((0, 0), letter("a", "shop")),
            ((0, 1), mark("a", "other")),
            ((0, 2), letter("b", "other")),
        ];
        assert_eq!(open(entries), ["a"]);
    }

    #[test]
    fn what_was_asked_for_is_known_also_once_it_is_closed() {
        let mut letters = Letters::of("shop", &["a".into(), "b/2".into()]);
        for (at, id) in [(0, "a/1"), (1, "b/1"), (2, "b/2"), (3, "c")] {
            letters.take((0, at), letter(id, "shop"), 0);
            letters.take((0, at + 10), mark(id, "shop"), 0);
        }
        let named = |id| {
            let named = letters.named(id).into_iter();
            named.map(|it| it.id.clone()).collect::<Vec<_>>()
        };
        assert_eq!(named("a"), ["a/1"]);
        assert_eq!(named("b"), ["b/2"]);
        assert!(named("c").is_empty());
        assert_eq!(letters.replayed, 4);
        assert_eq!(letters.named("a")[0].replayed.as_deref(), Some("now"));
    }
}
