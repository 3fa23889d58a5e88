//! What one reading of the log leaves to the next one of the same process.

use std::collections::VecDeque;
use std::sync::Mutex;

use crate::Error;

/// So often an event may come broken before it is believed to be so in the log.
const TRIES: u32 = 3;
/// So many names are kept.
const NAMES: usize = 1000;

#[derive(Default)]
pub(super) struct Learned {
    /// Where an event could not be read, and how often.
    unread: Mutex<Option<(String, u32)>>,
    /// XA transactions that were too large to be held, and whose end was read: they were committed.
    committed: Mutex<VecDeque<String>>,
}

impl Learned {
    pub(super) fn commit(&self, transaction: String) {
        if let Ok(mut committed) = self.committed.lock() {
            committed.push_back(transaction);
            let surplus = committed.len().saturating_sub(NAMES);
            committed.drain(..surplus);
        }
    }

    pub(super) fn is_committed(&self, transaction: &str) -> bool {
        let committed = self.committed.lock();
        committed.is_ok_and(|committed| committed.iter().any(|name| name == transaction))
    }

    /// An event that cannot be read may have been broken on its way: it is asked for again, but not for ever.
    pub(super) fn unread(&self, place: &str, error: Error) -> Error {
        let Ok(mut unread) = self.unread.lock() else {
            return error;
        };
        let tries = match unread.take() {
            Some((at, tries)) if at == place => tries + 1,
            _ => 1,
        };
        *unread = Some((place.to_owned(), tries));
        match error {
            Error::Fatal { what, .. } if tries < TRIES => Error::transient(what),
            error => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_given_up_when_it_comes_broken_three_times_at_one_place() {
        let learned = Learned::default();
        let broken = || Error::fatal("broken", "look");
        assert_eq!(learned.unread("a:4", broken()), Error::transient("broken"));
        assert_eq!(learned.unread("a:4", broken()), Error::transient("broken"));
        assert_eq!(learned.unread("a:9", broken()), Error::transient("broken"));
        assert_eq!(learned.unread("a:9", broken()), Error::transient("broken"));
        assert_eq!(learned.unread("a:9", broken()), broken());
    }
}
