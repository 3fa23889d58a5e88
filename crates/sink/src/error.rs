//! What can go wrong with a sink or a place for positions, and whether trying again may help.
//!
//! Rule: after any error the sink and its positions are done with; the next try opens new ones.

use headwater_core::finding::Finding;
use headwater_core::trouble::{Severity, Trouble};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Trying again with a newly opened sink may help.
    #[error("{0}")]
    Transient(String),
    /// A person is needed.
    #[error("{what}: {advice}")]
    Fatal { what: String, advice: String },
}

impl Error {
    pub(crate) fn transient(what: impl Into<String>) -> Error {
        Error::Transient(what.into())
    }

    /// `advice` says exactly what to do, commands included.
    pub(crate) fn fatal(what: impl Into<String>, advice: impl Into<String>) -> Error {
        Error::Fatal {
            what: what.into(),
            advice: advice.into(),
        }
    }
}

impl Trouble for Error {
    fn severity(&self) -> Severity {
        match self {
            Error::Transient(_) => Severity::Transient,
            Error::Fatal { .. } => Severity::Fatal,
        }
    }
}

impl From<Error> for Finding {
    fn from(error: Error) -> Finding {
        match error {
            Error::Transient(what) => Finding::problem(what, "try again"),
            Error::Fatal { what, advice } => Finding::problem(what, advice),
        }
    }
}
