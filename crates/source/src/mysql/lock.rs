//! One instance at a time: a lock of the server named after the pipeline, held by a session of its own.
//!
//! Who is paused or cut off loses it after thirty seconds: the server ends a session that has not been heard of for that
//! long, and the holder, who asks every ten seconds, notices before that. It also asks whether this server is still the
//! primary: in a planned switchover no session ends. Where it is the only one that is named it may be a replica, but not one
//! whose log has nothing of what it replicates.

use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tracing::info;

use super::answer::text;
use super::session::{self, Session};
use super::{Settings, literal};
use crate::Error;

/// Asking is better than waiting inside the server: one that is black-holed while it waits would be given the lock.
const ASK_EVERY: Duration = Duration::from_secs(1);
const PING_EVERY: Duration = Duration::from_secs(10);
const PING_LIMIT: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(30);

/// The lock's name, as a literal. It is the server's, whatever database a session is in.
fn name(settings: &Settings) -> String {
    literal(&format!("headwater:{}", settings.name))
}

/// Which session of the server holds the lock.
pub(super) async fn holder(session: &mut Session) -> Result<Option<u64>, Error> {
    let ask = format!("SELECT IS_USED_LOCK({})", name(session.settings()));
    let holder = session.rows(&ask).await?.first();
    Ok(holder.and_then(|id| id.parse().ok()))
}

/// The right to work. Dropping it gives it back.
pub(super) struct Lock {
    /// With the server that has it.
    settings: Settings,
    /// The session that holds it.
    id: u64,
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
        let mut session = Session::open_as(settings, &application, PATIENCE).await?;
        let ask = format!("SELECT GET_LOCK({}, 0)", name(settings));
        let mut told = false;
        while session.rows(&ask).await?.first().as_deref() != Some("1") {
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
        let several = settings.servers.len() > 1;
        let settings = session.settings().clone();
        let id = session.id();
        let (tell, lost) = watch::channel(false);
        let keeper = tokio::spawn(async move {
            keep(session, several).await;
            tell.send_replace(true);
        });
        Ok(Lock {
            settings,
            id,
            lost,
            keeper,
        })
    }

    pub(super) fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The session's number in the server's lists.
    pub(super) fn id(&self) -> u64 {
        self.id
    }

    /// Becomes true, or its sender vanishes, when the lock is ours no more.
    pub(super) fn lost(&self) -> watch::Receiver<bool> {
        self.lost.clone()
    }

    pub(super) fn is_lost(&self) -> bool {
        *self.lost.borrow()
    }
}

/// Returns when the session is gone, or may be, or is with a server that another one of several has replaced.
async fn keep(mut session: Session, several: bool) {
    loop {
        tokio::select! {
            () = session.ended() => return,
            () = sleep(PING_EVERY) => {}
        }
        match timeout(PING_LIMIT, is_held(&mut session, several)).await {
            Ok(Ok(true)) => {}
            _ => return,
        }
    }
}

async fn is_held(session: &mut Session, several: bool) -> Result<bool, Error> {
    if holder(session).await? != Some(session.id()) {
        return Ok(false);
    }
    Ok(session.is_primary().await? || !several && passes_on(session).await?)
}

/// Whether what the server replicates is in its own log.
async fn passes_on(session: &mut Session) -> Result<bool, Error> {
    // Each version knows one of the two names, or both.
    let ask =
        "SHOW GLOBAL VARIABLES WHERE Variable_name IN ('log_replica_updates', 'log_slave_updates')";
    let answer = session.rows(ask).await?;
    let is_on = |row| text(row, 1).is_some_and(|value| value == "ON" || value == "1");
    Ok(answer.rows.iter().any(is_on))
}

/// Returns when the lock, whose holder tells it here, is lost. Cancel-safe.
pub(super) async fn until_lost(lost: Option<&mut watch::Receiver<bool>>) -> Error {
    match lost {
        // An error means that the lock's holder is gone, and with it the lock.
        Some(lost) => drop(lost.wait_for(|lost| *lost).await),
        None => std::future::pending().await,
    }
    lock_lost()
}

/// Whether the lock, whose holder tells it here, is lost.
pub(super) fn is_lost(lost: &watch::Receiver<bool>) -> bool {
    lost.has_changed().unwrap_or(true) || *lost.borrow()
}

pub(super) fn lock_lost() -> Error {
    Error::transient(
        "the lock was lost: its session has ended, or the server is not the one to use any more",
    )
}
