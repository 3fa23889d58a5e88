//! What is wrong with a schema file. Found at start, never while a row is encoded.

use std::fmt;
use std::path::PathBuf;

/// A schema file cannot be used: the whole sentence names the file, the line where there is one, and what to do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SchemaError {
    pub file: PathBuf,
    pub line: Option<usize>,
    pub what: String,
}

impl SchemaError {
    pub fn new(file: impl Into<PathBuf>, what: impl Into<String>) -> SchemaError {
        SchemaError {
            file: file.into(),
            line: None,
            what: what.into(),
        }
    }

    pub fn at_line(file: impl Into<PathBuf>, line: usize, what: impl Into<String>) -> SchemaError {
        SchemaError {
            line: Some(line),
            ..SchemaError::new(file, what)
        }
    }
}

impl fmt::Display for SchemaError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.file.display(), self.what),
            None => write!(f, "{}: {}", self.file.display(), self.what),
        }
    }
}

impl std::error::Error for SchemaError {}
