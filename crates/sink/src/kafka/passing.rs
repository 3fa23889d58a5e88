//! Which refusals the caller goes on behind, and what one run leaves to the next about them.
//!
//! Rule: what is forgotten costs another run that ends, never a message.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_core::failure::Kind;
use headwater_core::message::{Id, Message};

/// How long a topic is not trusted with batches, after a second one was refused.
const WARY_FOR: Duration = Duration::from_mins(5);

/// How long a topic that we may not write to is not tried again.
const DENIED_FOR: Duration = Duration::from_secs(30);

/// So many suspects are remembered at most: more than are ever in flight.
const MOST: usize = 100_000;

/// Of more topics than these only those are remembered that still make a difference: rows may name any number of them.
const TOPICS: usize = 1000;

/// Batches are not made smaller than this without knowing what the topic takes.
const SMALLEST_BATCH: usize = 16 * 1024;

/// Shared by all sinks of one pipeline, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Passing {
    kinds: Vec<Kind>,
    /// The topic of dead letters: what is too large for it is cut, whatever becomes of other messages.
    letters: Option<Arc<str>>,
    /// Every message goes alone.
    one_by_one: bool,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// They were in batches that were refused: whose fault it was, only sending each alone tells. They stay suspects: their position may not be safe
    /// yet when the next batch is refused, and then they come again.
    suspects: HashSet<(Arc<str>, Id)>,
    /// When a batch for the topic was refused last.
    refused: HashMap<Arc<str>, Instant>,
    /// Topics that refused batches again and again, and since when: suspects that are added up one batch after the other would make a run of
    /// each.
    wary: HashMap<Arc<str>, Instant>,
    /// Messages behind which one of their key has been delivered.
    overtaken: HashSet<(Arc<str>, Id)>,
    /// Topics that refuse whatever we write, since when, and why.
    denied: HashMap<Arc<str>, (Instant, Arc<str>)>,
    /// Larger batches were refused.
    batch_size: Option<usize>,
}

impl Passing {
    /// The caller goes on behind refusals of these kinds.
    pub fn of(kinds: &[Kind]) -> Passing {
        Passing {
            kinds: kinds.to_vec(),
            letters: None,
            one_by_one: false,
            memory: Arc::default(),
        }
    }

    /// The same, and it makes smaller dead letters for this topic.
    #[must_use]
    pub fn cutting(mut self, letters: &str) -> Passing {
        self.letters = Some(letters.into());
        self
    }

    /// The same, and every message is a suspect.
    #[must_use]
    pub fn one_by_one(mut self) -> Passing {
        self.one_by_one = true;
        self
    }

    pub(super) fn lets_pass(&self, kind: Kind, topic: &str) -> bool {
        let is_cut = || kind == Kind::TooLarge && self.letters.as_deref() == Some(topic);
        self.kinds.contains(&kind) || is_cut()
    }

    pub(super) fn lets_any_pass(&self) -> bool {
        !self.kinds.is_empty()
    }

    pub(super) fn has_suspects(&self) -> bool {
        let mut memory = self.memory();
        memory.wary.retain(|_, since| since.elapsed() < WARY_FOR);
        self.one_by_one || !memory.suspects.is_empty() || !memory.wary.is_empty()
    }

    pub(super) fn suspects(&self, message: &Message) -> bool {
        let memory = self.memory();
        let is_wary = || {
            let since = memory.wary.get(&message.address.topic);
            since.is_some_and(|since| since.elapsed() < WARY_FOR)
        };
        self.one_by_one || memory.suspects.contains(&name(message)) || is_wary()
    }

    /// A batch for this topic was refused: the second one within some minutes puts the whole topic under suspicion. A topic that refuses
    /// whatever we write has no guilty members.
    pub(super) fn refuse_batch(&self, topic: &Arc<str>) {
        let mut memory = self.memory();
        if memory.denied.contains_key(topic) {
            return;
        }
        if memory.refused.len() >= TOPICS {
            memory.refused.retain(|_, last| last.elapsed() < WARY_FOR);
        }
        let last = memory.refused.insert(Arc::clone(topic), Instant::now());
        if last.is_some_and(|last| last.elapsed() < WARY_FOR) {
            memory.wary.insert(Arc::clone(topic), Instant::now());
        }
    }

    /// One of its messages was refused alone: there may be more.
    pub(super) fn stay_wary(&self, topic: &str) {
        if let Some(since) = self.memory().wary.get_mut(topic) {
            *since = Instant::now();
        }
    }

    /// Whether a message of its key behind it has been delivered.
    pub(super) fn is_overtaken(&self, message: &Message) -> bool {
        self.memory().overtaken.contains(&name(message))
    }

    pub(super) fn suspect(&self, topic: &Arc<str>, id: &Id) {
        note(&mut self.memory().suspects, topic, id);
    }

    pub(super) fn overtake(&self, topic: &Arc<str>, id: &Id) {
        note(&mut self.memory().overtaken, topic, id);
    }

    pub(super) fn deny(&self, topic: &Arc<str>, why: &Arc<str>) {
        let mut memory = self.memory();
        if memory.denied.len() >= TOPICS {
            memory
                .denied
                .retain(|_, (since, _)| since.elapsed() < DENIED_FOR);
        }
        let denied = (Instant::now(), Arc::clone(why));
        memory.denied.insert(Arc::clone(topic), denied);
    }

    /// Why nothing can be written to the topic, if that is known and not too long ago.
    pub(super) fn denied(&self, topic: &str) -> Option<Arc<str>> {
        let memory = self.memory();
        let (since, why) = memory.denied.get(topic)?;
        (since.elapsed() < DENIED_FOR).then(|| Arc::clone(why))
    }

    /// Whether nothing could be written to the topic when it was last tried.
    pub(super) fn was_denied(&self, topic: &str) -> bool {
        self.memory().denied.contains_key(topic)
    }

    pub(super) fn allow(&self, topic: &str) {
        self.memory().denied.remove(topic);
    }

    pub(super) fn batch_size(&self) -> Option<usize> {
        self.memory().batch_size
    }

    /// A batch of at most `size` was too large for a topic that takes so much, if that is known.
    pub(super) fn shrink(&self, size: usize, takes: Option<usize>) {
        let takes = takes.filter(|takes| *takes < size);
        let smaller = takes.unwrap_or_else(|| (size / 2).max(SMALLEST_BATCH));
        self.memory().batch_size = Some(smaller.min(size));
    }

    fn memory(&self) -> MutexGuard<'_, Memory> {
        self.memory.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn note(all: &mut HashSet<(Arc<str>, Id)>, topic: &Arc<str>, id: &Id) {
    if all.len() >= MOST {
        all.clear();
    }
    all.insert((Arc::clone(topic), id.clone()));
}

fn name(message: &Message) -> (Arc<str>, Id) {
    (Arc::clone(&message.address.topic), message.id.clone())
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use headwater_core::message::{Address, Content};

    use super::*;

    fn message(topic: &str, id: &str) -> Message {
        Message {
            id: id.into(),
            address: Address::of(topic),
            content: Content::Json,
            value: Bytes::new(),
        }
    }

    #[test]
    fn a_topic_that_refuses_batches_again_is_suspected_whole() {
        let passing = Passing::of(&Kind::ALL);
        let topic: Arc<str> = "shop".into();
        passing.refuse_batch(&topic);
        passing.suspect(&topic, &"1".into());
        let suspected = |topic, id| passing.suspects(&message(topic, id));
        assert!(suspected("shop", "1") && !suspected("shop", "2"));
        passing.refuse_batch(&topic);
        assert!(suspected("shop", "2") && !suspected("other", "2"));
        assert!(passing.has_suspects());
        // Until it has refused nothing for long enough.
        let long_ago = Instant::now().checked_sub(WARY_FOR);
        let refused = |at| passing.memory().wary.insert(Arc::clone(&topic), at);
        refused(long_ago.expect("an instant"));
        assert!(!suspected("shop", "2"));
        passing.stay_wary("shop");
        assert!(suspected("shop", "2"));
    }

    #[test]
    fn a_letter_that_is_too_large_is_gone_on_behind_though_a_message_is_not() {
        let passing = Passing::of(&[Kind::BadPayload]).cutting("shop.dead-letter");
        assert!(passing.lets_pass(Kind::TooLarge, "shop.dead-letter"));
        assert!(!passing.lets_pass(Kind::TooLarge, "shop"));
        assert!(!passing.lets_pass(Kind::Refused, "shop.dead-letter"));
        assert!(passing.lets_pass(Kind::BadPayload, "shop"));
    }
}
