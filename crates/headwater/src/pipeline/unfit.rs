//! Events that cannot be encoded today, on their way to where they are compared with the topics: they may be there since they could be.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use headwater_core::failure::Failure;
use headwater_core::message::Message;

/// Whoever prepares rows puts them in, and hands over messages without a value; whoever compares takes them out.
#[derive(Debug, Clone, Default)]
pub struct Unfit(Arc<Mutex<HashMap<String, Held>>>);

#[derive(Debug)]
struct Held {
    date: i64,
    failure: Failure,
    /// So many messages of it are still to be compared.
    messages: usize,
}

impl Unfit {
    /// An event of this id and date, why it cannot be encoded, and how many messages it leads to.
    pub fn put(&self, id: &str, date: i64, (failure, messages): (Failure, usize)) {
        let mut all = self.held();
        // Another row may have the same id.
        let held = all.entry(id.to_owned()).or_insert(Held {
            date,
            failure,
            messages: 0,
        });
        held.messages += messages;
    }

    /// The event's date, if the message is of one of them.
    pub fn date_of(&self, message: &Message) -> Option<i64> {
        if !message.value.is_empty() {
            return None;
        }
        self.held().get(&*message.id).map(|held| held.date)
    }

    /// A message is done with: why it cannot be sent, if it cannot.
    pub fn take(&self, message: &Message) -> Option<Failure> {
        if !message.value.is_empty() {
            return None;
        }
        let mut all = self.held();
        let held = all.get_mut(&*message.id)?;
        held.messages = held.messages.saturating_sub(1);
        if held.messages > 0 {
            return Some(held.failure.clone());
        }
        all.remove(&*message.id).map(|held| held.failure)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.held().is_empty()
    }

    fn held(&self) -> MutexGuard<'_, HashMap<String, Held>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
