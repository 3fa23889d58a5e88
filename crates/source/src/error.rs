//! What can go wrong with a log, and whether trying again may help.

use headwater_core::trouble::{Severity, Trouble};

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Trying again may help: the connection was lost, the server is restarting, it fell silent.
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

    /// `advice` says exactly what to do, SQL included.
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
