//! Which refusals the caller goes on behind, and what one run leaves to the next about them.
//!
//! Rule: what is forgotten costs another run that ends, never a message.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use headwater_core::failure::Kind;
use headwater_core::message::{Id, Message};

/// How long a topic that we may not write to is not tried again.
pub(super) const DENIED_FOR: Duration = Duration::from_secs(30);

/// So many suspects are remembered at most: more than are ever in flight.
const MOST: usize = 100_000;

/// Batches are not made smaller than this without knowing what the topic takes.
const SMALLEST_BATCH: usize = 16 * 1024;

/// Shared by all sinks of one pipeline, one after the other.
#[derive(Debug, Clone, Default)]
pub struct Passing {
    kinds: Vec<Kind>,
    /// Every message goes alone.
    one_by_one: bool,
    memory: Arc<Mutex<Memory>>,
}

#[derive(Debug, Default)]
struct Memory {
    /// They were in batches that were refused: whose fault it was, only sending each alone tells. They stay suspects: their position may not be safe
    /// yet when the next batch is refused, and then they come again.
    suspects: HashSet<(Arc<str>, Id)>,
    /// Messages behind which a message of the same topic has been delivered.
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
            one_by_one: false,
            memory: Arc::default(),
        }
    }

    /// The same, and every message is a suspect.
    #[must_use]
    pub fn one_by_one(mut self) -> Passing {
        self.one_by_one = true;
        self
    }

    pub(super) fn lets_pass(&self, kind: Kind) -> bool {
        self.kinds.contains(&kind)
    }

    pub(super) fn has_suspects(&self) -> bool {
        self.one_by_one || !self.memory().suspects.is_empty()
    }

    pub(super) fn suspects(&self, message: &Message) -> bool {
        self.one_by_one || self.memory().suspects.contains(&name(message))
    }

    /// Whether a message behind it has been delivered.
    pub(super) fn is_overtaken(&self, message: &Message) -> bool {
        self.memory().overtaken.contains(&name(message))
    }

    pub(super) fn suspect(&self, topic: &Arc<str>, id: &Id) {
        let mut memory = self.memory();
        if memory.suspects.len() >= MOST {
            memory.suspects.clear();
        }
        memory.suspects.insert((Arc::clone(topic), id.clone()));
    }

    pub(super) fn overtake(&self, topic: &Arc<str>, id: &Id) {
        let mut memory = self.memory();
        if memory.overtaken.len() >= MOST {
            memory.overtaken.clear();
        }
        memory.overtaken.insert((Arc::clone(topic), id.clone()));
    }

    pub(super) fn deny(&self, topic: &Arc<str>, why: &Arc<str>) {
        let denied = (Instant::now(), Arc::clone(why));
        self.memory().denied.insert(Arc::clone(topic), denied);
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

fn name(message: &Message) -> (Arc<str>, Id) {
    (Arc::clone(&message.address.topic), message.id.clone())
}
