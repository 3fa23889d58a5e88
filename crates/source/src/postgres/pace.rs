//! When to read on: in gulps while rows keep coming, and not for ever from a server that has gone silent.

use std::time::Duration;

use tokio::time::{Instant, sleep, sleep_until};

use crate::Error;

/// Frames in one gulp.
const GULP: u32 = 512;
/// Letting the socket fill for a moment spares the server a wake-up for every row.
const PAUSE: Duration = Duration::from_millis(1);
/// A longer wait than this means that the server has no more for now.
const GAP: Duration = Duration::from_millis(2);

/// A pause after every gulp; a quiet stream never pauses.
#[derive(Debug, Default)]
pub(super) struct Pace {
    frames: u32,
    /// Kept here, so that a dropped future does not begin the pause anew.
    until: Option<Instant>,
}

impl Pace {
    pub(super) async fn pause(&mut self) {
        if let Some(until) = self.until {
            sleep_until(until).await;
            self.until = None;
        }
    }

    pub(super) fn came_at_once(&mut self) {
        self.frames += 1;
        if self.frames >= GULP {
            self.frames = 0;
            self.until = Some(Instant::now() + PAUSE);
        }
    }

    pub(super) fn came_after(&mut self, waited: Duration) {
        if waited >= GAP {
            self.frames = 0;
        }
        self.came_at_once();
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
    pub(super) fn so_far(&self) -> Duration {
        self.since.elapsed()
    }

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

    #[tokio::test(start_paused = true)]
    async fn only_every_gulp_is_followed_by_a_pause() {
        let mut pace = Pace::default();
        for _ in 0..GULP - 1 {
            pace.came_at_once();
            let before = Instant::now();
            pace.pause().await;
            assert_eq!(before.elapsed(), Duration::ZERO);
        }
        pace.came_at_once();
        let before = Instant::now();
        pace.pause().await;
        assert!(before.elapsed() >= PAUSE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_quiet_stream_never_pauses() {
        let mut pace = Pace::default();
        for _ in 0..3 * GULP {
            pace.came_after(GAP);
            assert_eq!(pace.until, None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_that_was_dropped_goes_on_where_it_was() {
        let mut pace = Pace::default();
        for _ in 0..GULP {
            pace.came_at_once();
        }
        let until = pace.until;
        let dropped = tokio::time::timeout(Duration::ZERO, pace.pause()).await;
        assert!(dropped.is_err());
        assert_eq!(pace.until, until);
        pace.pause().await;
        assert_eq!(pace.until, None);
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
