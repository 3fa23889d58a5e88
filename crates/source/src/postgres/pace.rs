//! When to read on: in gulps while rows keep coming, and not for ever from a server that has gone silent.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Error;

/// So many frames without a gap mean that the server sends as fast as it can.
const GULP: u32 = 24;
/// Letting the socket fill for a moment spares the server a wake-up of the reader for every row.
const REST: Duration = Duration::from_micros(500);

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

/// How long nothing was heard while somebody listened. Time in which nobody asked for the next frame does not count: the
/// server may have spoken, or been kept from it by us.
#[derive(Debug)]
pub(super) struct Silence {
    limit: Duration,
    waited: Duration,
}

impl Silence {
    pub(super) fn new(limit: Duration) -> Silence {
        Silence {
            limit,
            waited: Duration::ZERO,
        }
    }

    pub(super) fn broken(&mut self) {
        self.waited = Duration::ZERO;
    }

    /// Listens, until what it returns is dropped.
    pub(super) fn begin(&mut self) -> Waiting<'_> {
        Waiting {
            silence: self,
            since: Instant::now(),
        }
    }
}

pub(super) struct Waiting<'s> {
    silence: &'s mut Silence,
    since: Instant,
}

impl Waiting<'_> {
    pub(super) async fn too_long(&self) {
        sleep(self.silence.limit.saturating_sub(self.silence.waited)).await;
    }

    pub(super) fn error(&self) -> Error {
        Error::transient(format!(
            "nothing was heard from the server for {} s, not even a keepalive",
            self.silence.limit.as_secs()
        ))
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.silence.waited += self.since.elapsed();
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

    #[tokio::test(start_paused = true)]
    async fn silence_counts_only_while_somebody_listens() {
        let mut silence = Silence::new(Duration::from_secs(30));
        for _ in 0..2 {
            let waiting = silence.begin();
            sleep(Duration::from_secs(10)).await;
            drop(waiting);
            sleep(Duration::from_hours(1)).await;
        }
        let waiting = silence.begin();
        let before = Instant::now();
        waiting.too_long().await;
        assert!(before.elapsed() <= Duration::from_secs(11));
        drop(waiting);
        silence.broken();
        let waiting = silence.begin();
        let before = Instant::now();
        waiting.too_long().await;
        assert!(before.elapsed() >= Duration::from_secs(30));
    }
}
