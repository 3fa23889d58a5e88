//! Where a setting was written, and what is wrong with it.
//!
//! Never: a secret. Texts made here name files, lines, keys and variables; values only where they cannot be secret.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Where a value came from. Ordered as problems are told: the file from its top, then the environment.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    Default,
    File { file: Arc<Path>, line: usize },
    Environment { variable: String },
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Default => f.write_str("(default)"),
            Self::File { file, line } => write!(f, "{}:{line}", file.display()),
            Self::Environment { variable } => f.write_str(variable),
        }
    }
}

/// A value that remembers its key and where it was written, for whoever finds something wrong with it later.
#[derive(Clone, Debug)]
pub struct Located<T> {
    key: String,
    place: Place,
    value: T,
}

impl<T> Located<T> {
    pub(super) fn new(key: impl Into<String>, place: Place, value: T) -> Self {
        Self {
            key: key.into(),
            place,
            value,
        }
    }

    pub fn value(&self) -> &T {
        &self.value
    }

    pub(super) fn into_value(self) -> T {
        self.value
    }

    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// Nobody wrote it.
    pub fn is_default(&self) -> bool {
        matches!(self.place, Place::Default)
    }

    /// The error that says what is wrong with this value, and where it stands.
    pub fn problem(&self, what: impl fmt::Display) -> ConfigError {
        ConfigError::from(Problem::new(&self.place, &self.key, what))
    }
}

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Problem {
    place: Option<Place>,
    key: Option<String>,
    what: String,
}

impl Problem {
    pub(super) fn new(place: &Place, key: &str, what: impl fmt::Display) -> Self {
        Self {
            place: Some(place.clone()),
            key: Some(key.to_owned()),
            what: what.to_string(),
        }
    }

    pub(super) fn is_about(&self, key: &str) -> bool {
        self.key.as_deref() == Some(key)
    }

    pub(super) fn without_key(place: Place, what: impl fmt::Display) -> Self {
        Self {
            place: Some(place),
            key: None,
            what: what.to_string(),
        }
    }

    pub(super) fn without_place(what: impl fmt::Display) -> Self {
        Self {
            place: None,
            key: None,
            what: what.to_string(),
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(place) = &self.place {
            write!(f, "{place}: ")?;
        }
        if let Some(key) = &self.key {
            write!(f, "{key}: ")?;
        }
        f.write_str(&self.what)
    }
}

/// Everything that is wrong with a configuration, one problem a line. Always fatal: exit code 2.
#[derive(Debug)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    pub(super) fn new(mut problems: Vec<Problem>) -> Self {
        problems.sort();
        Self { problems }
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self {
            problems: vec![problem],
        }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, problem) in self.problems.iter().enumerate() {
            if index > 0 {
                f.write_str("\n")?;
            }
            write!(f, "{problem}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConfigError {}
