//! The wish to stop: told once, heard by everyone who waits.

use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;

/// How long a stop may take before Headwater ends all the same.
const PATIENCE: Duration = Duration::from_secs(25);

#[derive(Debug, Clone)]
pub struct Stop {
    asked_at: watch::Receiver<Option<Instant>>,
}

/// The other end: whoever holds it can ask.
#[derive(Debug)]
pub struct Ask(watch::Sender<Option<Instant>>);

impl Ask {
    pub fn stop(&self) {
        self.0
            .send_if_modified(|at| at.is_none() && at.replace(Instant::now()).is_none());
    }
}

impl Stop {
    pub fn channel() -> (Ask, Stop) {
        let (sender, asked_at) = watch::channel(None);
        (Ask(sender), Stop { asked_at })
    }

    pub fn is_asked(&self) -> bool {
        self.asked_at.borrow().is_some()
    }

    /// Returns once it was asked for; waits for ever if nobody can ask any more. Cancel-safe.
    pub async fn asked(&mut self) {
        if self.asked_at.wait_for(Option::is_some).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    /// Returns when a stop has taken too long.
    pub async fn overdue(&mut self) {
        self.asked().await;
        let asked_at = *self.asked_at.borrow();
        if let Some(at) = asked_at {
            tokio::time::sleep_until(at + PATIENCE).await;
        }
    }

    /// The next turn of a stop: that it is asked for or, once it has been, that it is overdue.
    pub async fn turn(&mut self, asked: bool) {
        if asked {
            self.overdue().await;
        } else {
            self.asked().await;
        }
    }

    /// Waits for `work`, or says `None` when a stop was asked for first.
    pub async fn or<T>(&mut self, work: impl Future<Output = T>) -> Option<T> {
        tokio::select! {
            biased;
            () = self.asked() => None,
            done = work => Some(done),
        }
    }
}
