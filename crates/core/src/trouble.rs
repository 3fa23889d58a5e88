//! What an error asks for: another try, or a person.

use std::fmt;

use crate::finding::Finding;

/// What must be done about an error.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Severity {
    /// Trying again may help.
    Transient,
    /// A person is needed; the error's text says what for.
    Fatal,
}

/// An error that knows what it asks for.
pub trait Trouble: std::error::Error + Send + Sync + 'static {
    fn severity(&self) -> Severity;

    fn is_fatal(&self) -> bool {
        self.severity() == Severity::Fatal
    }

    /// Whether the log is lost: a fatal trouble from which the table can help out.
    fn is_lost(&self) -> bool {
        false
    }
}

/// Trouble of a source or a sink.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// Trying again may help: a connection was lost, a server is restarting, it fell silent.
    Transient(String),
    /// A person is needed; `advice` says exactly what to do, SQL or command included.
    Fatal { what: String, advice: String },
    /// The same, because what lies behind the position is not in the log, or not for sure: only the table can tell it.
    Lost { what: String, advice: String },
}

impl Error {
    pub fn transient(what: impl Into<String>) -> Error {
        Error::Transient(what.into())
    }

    pub fn fatal(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Fatal {
            what: what.into(),
            advice: advice.into(),
        }
    }

    pub fn lost(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Lost {
            what: what.into(),
            advice: advice.into(),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Transient(what) => f.write_str(what),
            Error::Fatal { what, advice } | Error::Lost { what, advice } => {
                write!(f, "{what}: {advice}")
            }
        }
    }
}

impl std::error::Error for Error {}

impl Trouble for Error {
    fn severity(&self) -> Severity {
        match self {
            Error::Transient(_) => Severity::Transient,
            Error::Fatal { .. } | Error::Lost { .. } => Severity::Fatal,
        }
    }

    fn is_lost(&self) -> bool {
        matches!(self, Error::Lost { .. })
    }
}

impl From<Error> for Finding {
    fn from(error: Error) -> Finding {
        match error {
            Error::Transient(what) => Finding::problem(what, "try again in a moment"),
            Error::Fatal { what, advice } | Error::Lost { what, advice } => {
                Finding::problem(what, advice)
            }
        }
    }
}
