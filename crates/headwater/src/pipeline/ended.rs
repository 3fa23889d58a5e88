//! Why a run ended, and what that asks for.

use std::fmt;

use headwater_core::failure::Failure;
use headwater_core::positions::{Blocked, Record};
use headwater_core::trouble::{Severity, Trouble};
use serde::de::DeserializeOwned;

use super::prepare::Misfit;
use crate::clock;

/// Why a run ended.
#[derive(Debug)]
pub enum Ended {
    /// It was asked to, and all that was read is confirmed.
    Asked,
    /// It was asked to, and it took too long: so many events were read and not remembered as done.
    Overdue {
        again: u64,
    },
    /// A snapshot has handed over all its rows.
    Complete,
    /// The broker does not answer.
    Unanswered,
    /// A row cannot be published.
    Failed(Failed),
    /// The broker refused a message of a row.
    Refused(Failed),
    Source(Box<dyn Trouble>),
    Sink(Box<dyn Trouble>),
}

/// So many characters of a row's id are told, and of its failure remembered.
const SHOWN: usize = 1000;

fn cut(text: &str) -> String {
    text.chars().take(SHOWN).collect()
}

/// A row that cannot be published stopped the run.
#[derive(Debug)]
pub struct Failed {
    pub id: String,
    /// The last position before its transaction.
    pub after: String,
    pub failure: Failure,
}

impl Failed {
    /// As the position record remembers it; cut, because a record that is too large could not be written.
    pub fn blocked(&self, since: String) -> Blocked {
        Blocked {
            id: cut(&self.id),
            after: self.after.clone(),
            kind: self.failure.kind.name().into(),
            detail: cut(&self.failure.detail),
            since,
        }
    }
}

impl fmt::Display for Failed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "the row with id {} (in the transaction after {}) cannot be published: {}. Nothing was passed over: the next \
             start stands before the same row. Mend what it complains of, then start again",
            cut(&self.id),
            self.after,
            self.failure
        )
    }
}

impl std::error::Error for Failed {}

impl Trouble for Failed {
    fn severity(&self) -> Severity {
        Severity::Fatal
    }
}

/// The table cannot be read as an outbox, or not as the routes want it.
#[derive(Debug)]
pub struct NotAnOutbox(pub Misfit);

impl fmt::Display for NotAnOutbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl std::error::Error for NotAnOutbox {}

impl Trouble for NotAnOutbox {
    fn severity(&self) -> Severity {
        Severity::Fatal
    }
}

/// The log is lost, and this is how much of it.
#[derive(Debug)]
pub struct LogLost {
    trouble: Box<dyn Trouble>,
    extent: String,
}

impl LogLost {
    /// Any other trouble stays as it is. `P`: how the log tells its positions.
    pub fn behind<P: DeserializeOwned + fmt::Display>(
        record: &Record,
        trouble: Box<dyn Trouble>,
    ) -> Box<dyn Trouble> {
        if !trouble.is_lost() {
            return trouble;
        }
        let position = P::deserialize(&record.position);
        let position = position.map_or_else(|_| record.position.to_string(), |it| it.to_string());
        let event = record.event_time.as_ref();
        let event = event.map_or_else(String::new, |of| format!(", its last event of {of}"));
        let extent = format!(
            "what was committed between {position} (remembered {}{event}) and {} may not be published",
            record.written_at,
            clock::now()
        );
        Box::new(LogLost { trouble, extent })
    }
}

impl fmt::Display for LogLost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}. {}", self.trouble, self.extent)
    }
}

impl std::error::Error for LogLost {}

impl Trouble for LogLost {
    fn severity(&self) -> Severity {
        Severity::Fatal
    }

    fn is_lost(&self) -> bool {
        true
    }
}

/// The log ended the run.
pub fn lost(trouble: impl Trouble) -> Ended {
    Ended::Source(Box::new(trouble))
}

/// The sink, or the memory of positions beside it, ended the run.
pub fn broken(trouble: impl Trouble) -> Ended {
    Ended::Sink(Box::new(trouble))
}
