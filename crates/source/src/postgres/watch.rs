//! Whether the table, the publication and the slot are still those that the run began with: the log itself does not say so when one of
//! them is taken away or replaced, it only falls silent.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::facts::Facts;
use super::lock::lock_lost;
use super::position::{Identity, Lsn};
use super::session::Session;
use super::strain::Strain;
use super::{Settings, resume};
use crate::Error;

const LOOK_EVERY: Duration = Duration::from_secs(5);

/// Somebody who looks now and then. Dropping it ends that.
pub(super) struct Watch {
    found: watch::Receiver<Option<Error>>,
    watcher: JoinHandle<()>,
    end: Arc<AtomicU64>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Watch {
    pub(super) fn begin(session: Arc<Session>, settings: Settings, identity: Identity) -> Watch {
        let (tell, found) = watch::channel(None);
        let end = Arc::new(AtomicU64::new(0));
        let seen = Arc::clone(&end);
        let watcher = tokio::spawn(async move {
            let error = until_trouble(&session, &settings, &identity, &seen).await;
            tell.send_replace(Some(error));
        });
        Watch {
            found,
            watcher,
            end,
        }
    }

    /// Where the server's log ended when it was last looked at. The stream tells only how far it has been decoded.
    pub(super) fn end(&self) -> Lsn {
        Lsn(self.end.load(Ordering::Relaxed))
    }

    /// What was found so far.
    pub(super) fn found(&self) -> Option<Error> {
        self.found.borrow().clone()
    }

    /// Cancel-safe.
    pub(super) async fn until_found(&mut self) -> Error {
        let found = match self.found.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        found.unwrap_or_else(|| Error::transient("nobody watches table and publication any more"))
    }
}

/// The lock is lost, or what is read has been replaced. Cancel-safe.
pub(super) async fn until_lost(
    lost: Option<&mut watch::Receiver<bool>>,
    watcher: Option<&mut Watch>,
) -> Error {
    let lock = async {
        match lost {
            // An error means that the lock's holder is gone, and with it the lock.
            Some(lost) => drop(lost.wait_for(|lost| *lost).await),
            None => std::future::pending().await,
        }
    };
    let replaced = async {
        match watcher {
            Some(watch) => watch.until_found().await,
            None => std::future::pending().await,
        }
    };
    tokio::select! {
        biased;
        () = lock => lock_lost(),
        error = replaced => error,
    }
}

async fn until_trouble(
    session: &Session,
    settings: &Settings,
    identity: &Identity,
    end: &AtomicU64,
) -> Error {
    let mut told = Strain::None;
    loop {
        sleep(LOOK_EVERY).await;
        match look(session, settings, identity, end).await {
            Ok(facts) => told = tell(&facts, settings, told),
            // Somebody's long lock on the table keeps the catalog from answering: that says nothing about the log.
            Err(Error::Transient(why)) if !session.is_closed() => {
                debug!(why, "table and publication could not be looked at");
            }
            Err(error) => return error,
        }
    }
}

/// Says how hard the slot presses on the server, once for each step that it gets worse; again only if it was well meanwhile.
fn tell(facts: &Facts, settings: &Settings, told: Strain) -> Strain {
    let Some(slot) = &facts.slot else {
        return told;
    };
    let strain = Strain::of(slot, &facts.server);
    if strain > told
        && let Some((what, mend)) = strain.told(slot, &facts.server, settings)
    {
        warn!(what, mend, "the server's log is held back");
    }
    if strain == Strain::None {
        Strain::None
    } else {
        strain.max(told)
    }
}

async fn look(
    session: &Session,
    settings: &Settings,
    identity: &Identity,
    end: &AtomicU64,
) -> Result<Facts, Error> {
    let facts = Facts::read(session, settings).await?;
    if let Some(seen) = facts.server.end {
        end.store(seen.0, Ordering::Relaxed);
    }
    if facts.table.is_some() && facts.publication.is_some() {
        resume::same_objects(identity, &facts, settings)?;
    }
    resume::fit(&facts, settings)?;
    Ok(facts)
}
