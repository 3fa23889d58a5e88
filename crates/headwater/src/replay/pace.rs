//! How many events a second a replay publishes at most.

use std::time::Duration;

use tokio::time::{Instant, sleep_until};

/// Timers are no finer than a millisecond, and a read may take a while: what was missed in so long a time is made up for.
const MADE_UP: Duration = Duration::from_millis(100);

#[derive(Debug)]
pub struct Pace {
    /// Between two events; none: as fast as it goes.
    each: Option<Duration>,
    next: Instant,
}

impl Pace {
    pub fn of(rate: Option<u32>) -> Pace {
        Pace {
            each: rate.and_then(|rate| Duration::from_secs(1).checked_div(rate)),
            next: Instant::now(),
        }
    }

    /// Until the next event may go. Cancel-safe.
    pub async fn wait(&self) {
        if self.each.is_some() && self.next > Instant::now() {
            sleep_until(self.next).await;
        }
    }

    /// One went.
    pub fn passed(&mut self) {
        if let Some(each) = self.each {
            let now = Instant::now();
            let earliest = now.checked_sub(MADE_UP).unwrap_or(now);
            self.next = self.next.max(earliest) + each;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn takes(pace: &mut Pace, events: u32) -> Duration {
        let begun = Instant::now();
        for _ in 0..events {
            pace.wait().await;
            pace.passed();
        }
        begun.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn so_many_events_take_a_second() {
        for rate in [1, 50, 7000] {
            let mut pace = Pace::of(Some(rate));
            let taken = takes(&mut pace, rate + 1).await.as_millis();
            assert!((995..=1005).contains(&taken), "{rate}: {taken} ms");
        }
        assert_eq!(takes(&mut Pace::of(None), 1000).await, Duration::ZERO);
    }

    #[tokio::test(start_paused = true)]
    async fn a_long_pause_is_not_made_up_for() {
        let mut pace = Pace::of(Some(10));
        takes(&mut pace, 5).await;
        tokio::time::advance(Duration::from_mins(1)).await;
        let taken = takes(&mut pace, 12).await.as_millis();
        assert!((995..=1005).contains(&taken), "{taken} ms");
    }
}
