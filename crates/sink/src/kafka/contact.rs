//! What librdkafka's threads tell: deliveries, and whether Kafka answers.
//!
//! Rule: that Kafka is away is said once, and once that it answers again.

use std::ops::Deref;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use bytes::Bytes;
use headwater_core::failure::Kind;
use headwater_core::message::Address;
use headwater_core::trouble::Severity;
use rdkafka::ClientContext;
use rdkafka::config::RDKafkaLogLevel;
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{BorrowedMessage, DeliveryResult, Headers, Message as _};
use rdkafka::producer::ProducerContext;
use tokio::sync::mpsc::UnboundedSender;
use tokio::sync::watch;
use tracing::{debug, info, warn};

use super::login::{Held, Pass};
use super::tools::Tools;
use super::verdict::{self, Doing, Verdict};
use crate::Error;

/// Set in the number of a position's record; the numbers of messages never reach it.
const POSITION: usize = 1 << (usize::BITS - 1);

/// How long a login that worked before may be refused: brokers that restart do so for a moment.
const REFUSED_FOR_GOOD: Duration = Duration::from_secs(30);

/// What became of the message with a number.
#[derive(Debug)]
pub(super) enum Outcome {
    Delivered(usize),
    Refused(usize, Box<Returned>),
    Failed(usize, Code, Arc<str>),
    /// [`Contact::trouble`] has something, or the producer has a fatal error.
    Trouble,
}

/// A message that the broker will not take, as librdkafka still has it.
#[derive(Debug)]
pub(super) struct Returned {
    pub kind: Kind,
    pub code: Code,
    pub address: Address,
    pub value: Bytes,
}

/// The last position's record that came back.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Written {
    pub number: usize,
    pub failed: Option<Code>,
}

pub(super) struct Contact {
    tools: Tools,
    outcomes: UnboundedSender<Outcome>,
    written: watch::Sender<Written>,
    positions: AtomicUsize,
    /// Kafka answered last, and there is nothing to take back: looked at for every delivery, so it is no lock.
    calm: AtomicBool,
    said: Mutex<Said>,
    trouble: OnceLock<Error>,
    /// The token that was handed over last.
    token: watch::Sender<Option<Arc<Held>>>,
}

#[derive(Default)]
struct Said {
    away: bool,
    answered_once: bool,
    /// The last reason that librdkafka gave for a lost connection.
    reason: String,
    refused_since: Option<Instant>,
}

impl Contact {
    pub(super) fn new(tools: Tools, outcomes: UnboundedSender<Outcome>) -> Contact {
        Contact {
            tools,
            outcomes,
            written: watch::Sender::default(),
            positions: AtomicUsize::new(POSITION),
            calm: AtomicBool::new(false),
            said: Mutex::default(),
            trouble: OnceLock::new(),
            token: watch::Sender::default(),
        }
    }

    pub(super) fn tools(&self) -> &Tools {
        &self.tools
    }

    /// A number for one position's record, larger than all before it.
    pub(super) fn number_position(&self) -> usize {
        self.positions.fetch_add(1, Ordering::Relaxed) + 1
    }

    pub(super) fn watch_positions(&self) -> watch::Receiver<Written> {
        self.written.subscribe()
    }

    /// What no waiting will mend.
    pub(super) fn trouble(&self) -> Option<&Error> {
        self.trouble.get()
    }

    /// The first one counts, for everyone who shares the connection.
    pub(super) fn fail(&self, error: Error) -> Error {
        self.trouble.get_or_init(|| error).clone()
    }

    /// The same, and whoever waits for reports is woken.
    pub(super) fn give_up(&self, error: Error) {
        self.fail(error);
        self.tell(Outcome::Trouble);
    }

    pub(super) fn hold(&self, held: Arc<Held>) {
        self.tools.name_user(held.principal());
        self.said().reason.clear();
        self.token.send_replace(Some(held));
    }

    /// The token, if it lives.
    pub(super) fn held(&self) -> Option<Arc<Held>> {
        let held = self.token.borrow().clone();
        held.filter(|held| !held.left().is_zero())
    }

    pub(super) fn pass(&self) -> Pass {
        Pass(self.token.subscribe())
    }

    /// The brokers will refuse us until there is one.
    pub(super) fn lacks_token(&self) -> bool {
        self.tools.by_token() && self.held().is_none()
    }

    pub(super) fn without_token(&self, why: &Error) {
        if self.lacks_token() {
            self.said().reason = format!("no token: {why}");
        }
    }

    /// The reason for which Kafka does not answer, as far as it is known.
    pub(super) fn reason(&self) -> String {
        self.said().reason.clone()
    }

    pub(super) fn answered(&self) {
        if self.calm.load(Ordering::Relaxed) {
            return;
        }
        let mut said = self.said();
        if said.away {
            info!(brokers = self.tools.brokers, "Kafka answers");
        }
        *said = Said {
            answered_once: true,
            ..Said::default()
        };
        self.calm.store(true, Ordering::Relaxed);
    }

    pub(super) fn lost(&self, error: &str) {
        let mut said = self.said();
        self.calm.store(false, Ordering::Relaxed);
        if said.away || self.trouble.get().is_some() {
            return;
        }
        said.away = true;
        let reason = if said.reason.is_empty() {
            error
        } else {
            &said.reason
        };
        warn!(brokers = self.tools.brokers, reason, "waiting for Kafka");
    }

    fn said(&self) -> MutexGuard<'_, Said> {
        self.said.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether a refused login is to be believed: at once if none ever worked.
    fn refused_for_good(&self) -> bool {
        let mut said = self.said();
        self.calm.store(false, Ordering::Relaxed);
        let since = *said.refused_since.get_or_insert_with(Instant::now);
        !said.answered_once || since.elapsed() >= REFUSED_FOR_GOOD
    }

    fn tell(&self, outcome: Outcome) {
        // Nobody listens any more when the sink is being dropped, and nobody needs to.
        let _ = self.outcomes.send(outcome);
    }

    fn came_back(&self, number: usize, code: Code, message: &BorrowedMessage<'_>) {
        match verdict::blamed(code) {
            Some(kind) => {
                let returned = Returned {
                    kind,
                    code,
                    address: address(message),
                    value: Bytes::copy_from_slice(message.payload().unwrap_or_default()),
                };
                self.tell(Outcome::Refused(number, Box::new(returned)));
            }
            None => self.tell(Outcome::Failed(number, code, message.topic().into())),
        }
    }

    fn position_came_back(&self, number: usize, failed: Option<Code>) {
        self.written.send_if_modified(|written| {
            let newer = number > written.number;
            if newer {
                *written = Written { number, failed };
            }
            newer
        });
    }
}

fn address(message: &BorrowedMessage<'_>) -> Address {
    let headers = message.headers().map_or_else(Vec::new, |headers| {
        let all = headers.iter();
        all.map(|h| {
            (
                h.key.into(),
                Bytes::copy_from_slice(h.value.unwrap_or_default()),
            )
        })
        .collect()
    });
    Address {
        topic: message.topic().into(),
        key: message.key().map(Bytes::copy_from_slice),
        // Of no use to whoever is told of a refusal.
        partition: None,
        timestamp: None,
        headers,
    }
}

/// What each producer of the connection tells the one contact.
#[derive(Clone)]
pub(super) struct Ear(pub Arc<Contact>);

impl Deref for Ear {
    type Target = Contact;

    fn deref(&self) -> &Contact {
        &self.0
    }
}

impl ClientContext for Ear {
    fn log(&self, _: RDKafkaLogLevel, facility: &str, line: &str) {
        debug!(facility, line, "librdkafka");
        // Some lost connections are told in the log alone, as "[thread]: reason".
        if facility == "FAIL" {
            let reason = line.split_once("]: ").map_or(line, |(_, reason)| reason);
            reason.clone_into(&mut self.said().reason);
        }
    }

    fn error(&self, error: KafkaError, reason: &str) {
        let Some(code) = verdict::code(&error) else {
            return;
        };
        debug!(?code, reason, "librdkafka error");
        let code = verdict::cause(code, reason);
        match verdict::connection(code) {
            // The login says itself whether a person is needed.
            Verdict::EndRun(Severity::Fatal) if verdict::login(code) && self.lacks_token() => {}
            Verdict::EndRun(Severity::Fatal) => {
                if self.refused_for_good() {
                    self.give_up(verdict::error(code, Doing::Connecting, &self.tools, reason));
                }
            }
            _ if code == Code::Fatal => self.tell(Outcome::Trouble),
            _ if code == Code::AllBrokersDown => self.lost(reason),
            _ => reason.clone_into(&mut self.said().reason),
        }
    }
}

impl ProducerContext for Ear {
    type DeliveryOpaque = usize;

    fn delivery(&self, result: &DeliveryResult<'_>, number: usize) {
        let failed = match result {
            Ok(_) => {
                self.answered();
                None
            }
            Err((error, message)) => Some((verdict::code(error).unwrap_or(Code::Unknown), message)),
        };
        match failed {
            failed if number >= POSITION => {
                self.position_came_back(number, failed.map(|(code, _)| code));
            }
            None => self.tell(Outcome::Delivered(number)),
            Some((code, message)) => self.came_back(number, code, message),
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::mpsc::unbounded_channel;

    use super::*;

    fn refuse_login(contact: &Ear) {
        contact.error(KafkaError::Global(Code::Authentication), "no such user");
    }

    #[test]
    fn a_login_that_never_worked_is_refused_for_good_at_once() {
        let (tell, mut told) = unbounded_channel();
        let contact = Ear(Arc::new(Contact::new(Tools::for_tests(), tell)));
        refuse_login(&contact);
        assert!(
            contact
                .trouble()
                .unwrap()
                .to_string()
                .contains("no such user")
        );
        assert!(matches!(told.try_recv(), Ok(Outcome::Trouble)));
    }

    #[test]
    fn a_login_that_worked_before_is_given_time() {
        let (tell, mut told) = unbounded_channel();
        let contact = Ear(Arc::new(Contact::new(Tools::for_tests(), tell)));
        contact.answered();
        refuse_login(&contact);
        assert!(contact.trouble().is_none() && told.try_recv().is_err());
        let long_ago = Instant::now().checked_sub(REFUSED_FOR_GOOD);
        contact.said().refused_since = long_ago;
        contact.answered();
        refuse_login(&contact);
        assert!(contact.trouble().is_none(), "it had worked in between");
        contact.said().refused_since = long_ago;
        refuse_login(&contact);
        assert!(contact.trouble().is_some());
    }

    #[test]
    fn a_late_position_does_not_hide_a_newer_one() {
        let (tell, _told) = unbounded_channel();
        let contact = Ear(Arc::new(Contact::new(Tools::for_tests(), tell)));
        let seen = contact.watch_positions();
        let (first, second) = (contact.number_position(), contact.number_position());
        contact.position_came_back(second, None);
        contact.position_came_back(first, Some(Code::PurgeQueue));
        assert_eq!(seen.borrow().number, second);
        assert!(seen.borrow().failed.is_none());
    }
}
