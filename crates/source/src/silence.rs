//! How long a silence of the server is too long.

use std::time::Duration;

use tokio::time::{Instant, sleep};

use crate::Error;

/// How long nothing was heard while somebody listened. Time in which nobody asked for the next frame does not count: the
/// server may have spoken, or been kept from it by us.
#[derive(Debug)]
pub(crate) struct Silence {
    limit: Duration,
    waited: Duration,
}

impl Silence {
    pub(crate) fn new(limit: Duration) -> Silence {
        Silence {
            limit,
            waited: Duration::ZERO,
        }
    }

    pub(crate) fn broken(&mut self) {
        self.waited = Duration::ZERO;
    }

    /// Listens, until what it returns is dropped.
    pub(crate) fn begin(&mut self) -> Waiting<'_> {
        Waiting {
            silence: self,
            since: Instant::now(),
        }
    }
}

pub(crate) struct Waiting<'s> {
    silence: &'s mut Silence,
    since: Instant,
}

impl Waiting<'_> {
    pub(crate) async fn too_long(&self) {
        sleep(self.silence.limit.saturating_sub(self.silence.waited)).await;
    }

    pub(crate) fn error(&self) -> Error {
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
