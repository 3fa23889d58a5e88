//! One instance at a time: an advisory lock named after the pipeline, held by a session of its own.
//!
//! Who is paused or cut off loses it after thirty seconds: the server ends a session that has not been heard of for that
//! long, and the holder, who asks every ten seconds, notices before that.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::Settings;
use super::session::{self, Session};
use crate::Error;

/// Asking is better than waiting inside the server: a waiting statement holds a snapshot, and with it back vacuum.
const ASK_EVERY: Duration = Duration::from_secs(1);
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_LIMIT: Duration = Duration::from_secs(10);

/// The key, from the pipeline's name.
pub(super) const KEY: &str = "hashtextextended('headwater:' || $1::text, 0)";

/// The right to work. Dropping it gives it back.
pub(super) struct Lock {
    /// With the server that has it.
    settings: Settings,
    lost: watch::Receiver<bool>,
    keeper: JoinHandle<()>,
}

impl Drop for Lock {
    fn drop(&mut self) {
        self.keeper.abort();
    }
}

impl Lock {
    /// Waits until it is ours.
    pub(super) async fn take(settings: &Settings) -> Result<Lock, Error> {
        let application = format!("{} lock", session::application(settings));
        let options = [
            ("idle_session_timeout", "30s"),
            ("statement_timeout", "15s"),
        ];
        let session = Session::open_as(settings, &application, &options).await?;
        let ask = format!("SELECT pg_try_advisory_lock({KEY})");
        let mut told = false;
        loop {
            match session.row(&ask, &[&settings.name]).await? {
                Some(row) if session::cell(&row, 0)? => break,
                _ => {}
            }
            if !told {
                info!(
                    pipeline = settings.name,
                    "another instance is at work; standing by"
                );
                told = true;
            }
            sleep(ASK_EVERY).await;
        }
        if told {
            info!(
                pipeline = settings.name,
                "the other instance is gone; taking over"
            );
        }
        let settings = session.settings().clone();
        let (tell, lost) = watch::channel(false);
        let keeper = tokio::spawn(async move {
            keep(session).await;
            tell.send_replace(true);
        });
        Ok(Lock {
            settings,
            lost,
            keeper,
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Becomes true, or its sender vanishes, when the lock is ours no more.
    pub(super) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }
}

/// Returns when the session is gone, or may be.
async fn keep(mut session: Session) {
    loop {
        tokio::select! {
            () = session.ended() => return,
            () = sleep(PING_EVERY) => {}
        }
        match timeout(PING_LIMIT, session.simple_query("")).await {
            Ok(Ok(_)) => {}
            Ok(Err(_)) | Err(_) => return,
        }
    }
}

/// Whether the lock, whose holder tells it here, is lost.
pub(super) fn is_lost(lost: &watch::Receiver<bool>) -> bool {
    lost.has_changed().unwrap_or(true) || *lost.borrow()
}

pub(super) fn lock_lost() -> Error {
    Error::transient("the lock was lost: its session with the server has ended")
}
