//! What one reading of the log leaves to the next one of the same process.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::position::Lsn;
use crate::Error;

#[derive(Default)]
pub(super) struct Learned {
    /// The last position that the server was told.
    told: AtomicU64,
    /// The table has a type that only has a text form, though the server finds that out too late to choose it by itself.
    only_as_text: AtomicBool,
}

impl Learned {
    pub(super) fn told(&self) -> Lsn {
        Lsn(self.told.load(Ordering::Relaxed))
    }

    pub(super) fn tell(&self, position: Lsn) {
        self.told.fetch_max(position.0, Ordering::Relaxed);
    }

    pub(super) fn binary(&self) -> bool {
        !self.only_as_text.load(Ordering::Relaxed)
    }

    /// An array of a type without a binary form ends the stream; as text it can be read.
    pub(super) fn learn(&self, error: &Error) {
        if error.to_string().contains("no binary output function") {
            self.only_as_text.store(true, Ordering::Relaxed);
        }
    }
}
