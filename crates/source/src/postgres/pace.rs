//! When to read on: in gulps while rows keep coming.

use std::time::Duration;

/// So many frames without a gap mean that the server sends as fast as it can.
const GULP: u32 = 64;
/// Letting the socket fill for a moment spares the server a wake-up of the reader for every row.
const REST: Duration = Duration::from_millis(2);

/// A rest after every gulp; a quiet stream never rests.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// That came without a gap.
    frames: u32,
}

impl Pace {
    pub(super) fn came(&mut self) {
        self.frames = self.frames.saturating_add(1);
    }

    /// Nothing more is there. Whether the server was busy, and it was worth a rest.
    ///
    /// It is the thread that rests: the client reads the socket in a task of its own on it, and would be woken by every row.
    pub(super) fn rest(&mut self) -> bool {
        let busy = std::mem::take(&mut self.frames) >= GULP;
        if busy {
            std::thread::sleep(REST);
        }
        busy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_gulp_is_followed_by_a_rest() {
        let mut pace = Pace::default();
        for _ in 0..GULP {
            pace.came();
        }
        let before = std::time::Instant::now();
        assert!(pace.rest());
        assert!(before.elapsed() >= REST);
        assert!(!pace.rest(), "nothing came since");
    }

    #[test]
    fn a_quiet_stream_never_rests() {
        let mut pace = Pace::default();
        for _ in 0..3 * GULP {
            pace.came();
            assert!(!pace.rest());
        }
    }
}
