//! Whether the log can still be read from a position that nobody reads from yet: a server removes its logs when their time is over, whoever
//! will want them.

use std::time::Duration;

use headwater_core::instant::Instant;

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;
use tracing::{debug, warn};

use super::facts::{self, Facts};
use super::position::{Identity, Position};
use super::session::Session;
use super::{keeping, resume};
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
    /// `since` is when the position was taken, by the server's clock.
    pub(super) fn begin(
        session: Session,
        identity: Identity,
        position: Position,
        since: Option<Instant>,
    ) -> Watch {
        let (tell, found) = watch::channel(None);
        let watcher = tokio::spawn(async move {
            let error = until_trouble(session, &identity, &position, since).await;
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

async fn until_trouble(
    mut session: Session,
    identity: &Identity,
    position: &Position,
    since: Option<Instant>,
) -> Error {
    let mut told = false;
    loop {
        sleep(LOOK_EVERY).await;
        let seen = match look(&mut session).await {
            Ok(seen) => seen,
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
        let (facts, now) = seen;
        if let Err(error) = resume::start(identity, position, &facts, session.settings()) {
            return error;
        }
        #[expect(clippy::cast_precision_loss, reason = "seconds, for a sentence")]
        let age = since.map_or(0.0, |since| (now.0.saturating_sub(since.0)) as f64 / 1e6);
        match keeping::danger(position, age, &facts.server, &facts.log) {
            Some((what, mend)) if !told => {
                told = true;
                warn!(what, mend, "the server may remove its log too soon");
            }
            Some(_) => {}
            // The server was told to keep it for longer.
            None => told = false,
        }
    }
}

/// With the server's own time.
async fn look(session: &mut Session) -> Result<(Facts, Instant), Error> {
    let facts = Facts::read(session).await?;
    let now = facts::now(session).await?;
    let now = now
        .parse()
        .map_err(|_| Error::transient("the server does not tell the time"))?;
    Ok((facts, now))
}
