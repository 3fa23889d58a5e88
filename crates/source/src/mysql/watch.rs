//! Whether the log can still be read from a position that nobody reads from yet: a server removes its logs when their time is over, whoever
//! will want them.

use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::facts::Facts;
use super::position::{Identity, Position};
use super::resume;
use super::session::Session;
use crate::Error;

const LOOK_EVERY: Duration = Duration::from_secs(20);

/// Somebody who looks now and then. Dropping it ends that.
pub(super) struct Watch {
    found: watch::Receiver<Option<Error>>,
    watcher: JoinHandle<()>,
}

impl Drop for Watch {
    fn drop(&mut self) {
        self.watcher.abort();
    }
}

impl Watch {
    pub(super) fn begin(session: Session, identity: Identity, position: Position) -> Watch {
        let (tell, found) = watch::channel(None);
        let watcher = tokio::spawn(async move {
            let error = until_trouble(session, &identity, &position).await;
            tell.send_replace(Some(error));
        });
        Watch { found, watcher }
    }

    /// Cancel-safe.
    pub(super) async fn until_found(&mut self) -> Error {
        let found = match self.found.wait_for(Option::is_some).await {
            Ok(found) => found.clone(),
            Err(_) => None,
        };
        found.unwrap_or_else(|| Error::transient("nobody watches the log any more"))
    }
}

async fn until_trouble(mut session: Session, identity: &Identity, position: &Position) -> Error {
    let begun = Instant::now();
    let mut told = false;
    loop {
        sleep(LOOK_EVERY).await;
        let facts = match Facts::read(&mut session).await {
            Ok(facts) => facts,
            Err(Error::Transient(why)) => {
                debug!(why, "the log could not be looked at");
                let settings = session.settings().clone();
                match Session::open(&settings).await {
                    Ok(new) => session = new,
                    Err(error) => return error,
                }
                continue;
            }
            Err(error) => return error,
        };
        if let Err(error) = resume::start(identity, position, &facts, session.settings()) {
            return error;
        }
        let keeps = facts.server.amount("binlog_expire_logs_seconds");
        let keeps = keeps.filter(|seconds| *seconds > 0.0);
        if !told && keeps.is_some_and(|seconds| begun.elapsed().as_secs_f64() > seconds / 2.0) {
            told = true;
            warn!(
                binlog_expire_logs_seconds = keeps,
                "half of the time is over for which the server keeps its log: what it removes before it was read is lost. SET GLOBAL \
                 binlog_expire_logs_seconds to more"
            );
        }
    }
}
