//! When the loop looks at the clock: often while something is under way, seldom while nothing is.
//!
//! An idle pipeline is woken by nothing else, so this is what it costs.

use std::time::Duration;

use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

const OFTEN: Duration = Duration::from_millis(50);
/// Still often enough that the figures of an idle pipeline are not called stale.
const SELDOM: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub struct Ticks {
    clock: Interval,
    resting: bool,
}

impl Ticks {
    pub fn begin() -> Ticks {
        let mut clock = interval(OFTEN);
        clock.set_missed_tick_behavior(MissedTickBehavior::Delay);
        Ticks {
            clock,
            resting: false,
        }
    }

    /// Cancel-safe.
    pub async fn next(&mut self) -> Instant {
        self.clock.tick().await
    }

    /// Something is under way from now on.
    pub fn rouse(&mut self) {
        if std::mem::take(&mut self.resting) {
            self.clock.reset_after(OFTEN);
        }
    }

    /// Nothing is under way: the next tick can wait, unless `rouse` comes before it.
    pub fn rest(&mut self) {
        self.resting = true;
        self.clock.reset_after(SELDOM);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn pause(ticks: &mut Ticks) -> Duration {
        let before = Instant::now();
        ticks.next().await - before
    }

    #[tokio::test(start_paused = true)]
    async fn it_ticks_seldom_while_it_rests_and_often_once_it_is_roused() {
        let mut ticks = Ticks::begin();
        ticks.next().await;
        assert_eq!(pause(&mut ticks).await, OFTEN);
        ticks.rest();
        assert_eq!(pause(&mut ticks).await, SELDOM);
        ticks.rest();
        ticks.rouse();
        assert_eq!(pause(&mut ticks).await, OFTEN);
        assert_eq!(pause(&mut ticks).await, OFTEN);
    }
}
