//! Keeps the token of a login fresh, and hands each new one to the connection.
//!
//! Rule: the next one is asked for when four fifths of a token's life are over. While it lives it goes on being used, whatever
//! the endpoint says: that is told once, and asked again. Without a living token an endpoint that is away is waited for, and one
//! that refuses ends the run.

use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use headwater_bearer::{Bearer, NotTaken, hand_over};
use headwater_core::trouble::Trouble as _;
use rdkafka::ClientContext;
use rdkafka::client::Client;
use rdkafka::error::{KafkaError, KafkaResult, RDKafkaErrorCode as Code};
use tokio::sync::watch;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::{info, warn};

use super::client::Connection;
use super::endpoint;
use super::grant::Grant;
use super::token::Token;
use crate::Error;

const FIRST_PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(10);

/// A token, and until when it lives.
pub(super) struct Held {
    token: Token,
    extensions: Vec<(String, String)>,
    ends: Instant,
}

impl Held {
    fn new(token: Token, grant: &Grant) -> Held {
        Held {
            ends: Instant::now() + token.lifetime,
            extensions: grant.extensions.clone(),
            token,
        }
    }

    pub(super) fn principal(&self) -> &str {
        &self.token.principal
    }

    /// What is left of its life.
    pub(super) fn left(&self) -> Duration {
        self.ends.saturating_duration_since(Instant::now())
    }

    pub(super) fn hand_to<C: ClientContext>(&self, client: &Client<C>) -> KafkaResult<()> {
        let bearer = Bearer {
            token: &self.token.text,
            principal: &self.token.principal,
            extensions: &self.extensions,
        };
        hand_over(client, &bearer)
            .map_err(|NotTaken| KafkaError::Global(Code::SaslAuthenticationFailed))
    }
}

/// The tokens to come, for a client that lives longer than one.
pub(super) struct Pass(pub watch::Receiver<Option<Arc<Held>>>);

impl Pass {
    /// Hands over the newest, unless it has been.
    pub(super) fn renew<C: ClientContext>(&mut self, client: &Client<C>) -> KafkaResult<()> {
        if !self.0.has_changed().unwrap_or(false) {
            return Ok(());
        }
        let newest = self.0.borrow_and_update().clone();
        newest.map_or(Ok(()), |held| held.hand_to(client))
    }
}

/// Until the connection is dropped, or a person is needed.
pub(super) async fn keep(grant: Grant, connection: Weak<Connection>) {
    let mut trying = Trying::new();
    loop {
        let asked = ask(&grant).await;
        let Some(connection) = connection.upgrade() else {
            return;
        };
        let taken = asked.and_then(|token| take(token, &grant, &connection));
        let contact = connection.contact();
        let wait = match taken {
            Ok(held) => {
                let wait = due(held.token.lifetime);
                if trying.told {
                    info!(endpoint = %grant.endpoint, "there is a new token for Kafka");
                }
                trying = Trying::new();
                contact.hold(held);
                wait
            }
            Err(error) => {
                let left = contact.held().map_or(Duration::ZERO, |held| held.left());
                let Some(wait) = trying.again(&error, left) else {
                    contact.give_up(error);
                    return;
                };
                if !trying.told {
                    let reason = error.to_string();
                    warn!(endpoint = %grant.endpoint, reason, "waiting for a new token for Kafka");
                    trying.told = true;
                }
                contact.without_token(&error);
                wait
            }
        };
        drop(connection);
        sleep(wait).await;
    }
}

async fn ask(grant: &Grant) -> Result<Token, Error> {
    let read = Arc::clone(&grant.secret);
    let secret = spawn_blocking(move || read()).await.map_err(|error| {
        Error::transient(format!("reading the client's secret broke off: {error}"))
    })?;
    let secret = secret.map_err(|why| {
        Error::fatal(
            format!(
                "the secret of client {} cannot be had: {why}",
                grant.client_id
            ),
            "mend that, then start again",
        )
    })?;
    endpoint::ask(grant, &secret).await
}

fn take(token: Token, grant: &Grant, connection: &Connection) -> Result<Arc<Held>, Error> {
    let held = Arc::new(Held::new(token, grant));
    connection.log_in(&held).map_err(|_| {
        Error::fatal(
            format!("librdkafka cannot carry the token of {}", grant.endpoint),
            "let sink.sasl.extensions have letters only in their names and plain text in their values",
        )
    })?;
    Ok(held)
}

/// When the next one is asked for. A token of a second or two is not asked for in a circle.
fn due(lifetime: Duration) -> Duration {
    (lifetime * 4 / 5).max(Duration::from_secs(1))
}

/// How often the next token was asked for in vain.
struct Trying {
    pause: Duration,
    told: bool,
}

impl Trying {
    fn new() -> Trying {
        Trying {
            pause: FIRST_PAUSE,
            told: false,
        }
    }

    /// How long to wait before the next try; `None` if a person is needed first.
    fn again(&mut self, error: &Error, left: Duration) -> Option<Duration> {
        if error.is_fatal() && left.is_zero() {
            return None;
        }
        let pause = self.pause;
        self.pause = (pause * 2).min(LONGEST_PAUSE);
        // A person is told when the old token ends, not later.
        Some(if error.is_fatal() {
            pause.min(left)
        } else {
            pause
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn away() -> Error {
        Error::transient("away")
    }

    fn refused() -> Error {
        Error::fatal("refused", "mend it")
    }

    #[test]
    fn a_token_is_renewed_before_it_ends() {
        for (lifetime, wait) in [(3600, 2880), (10, 8), (1, 1)] {
            let due = due(Duration::from_secs(lifetime));
            assert_eq!(due, Duration::from_secs(wait));
        }
    }

    #[test]
    fn an_endpoint_that_is_away_is_asked_again_with_growing_pauses() {
        let mut trying = Trying::new();
        let mut pauses = Vec::new();
        for _ in 0..6 {
            pauses.push(trying.again(&away(), Duration::ZERO).unwrap().as_secs());
        }
        assert_eq!(pauses, [1, 2, 4, 8, 10, 10]);
    }

    #[test]
    fn a_refusal_is_believed_when_no_token_lives() {
        assert_eq!(Trying::new().again(&refused(), Duration::ZERO), None);
        let left = Duration::from_millis(300);
        assert_eq!(Trying::new().again(&refused(), left), Some(left));
        let left = Duration::from_mins(5);
        let wait = Trying::new().again(&refused(), left);
        assert_eq!(wait, Some(FIRST_PAUSE));
    }
}
