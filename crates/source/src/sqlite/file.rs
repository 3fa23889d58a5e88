//! Which file a path leads to.

use std::fs::Metadata;
use std::io;
use std::path::{Path, PathBuf};

use crate::Error;

/// Tells two files apart while both exist. It says nothing about their content, so it is never remembered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FileId(u64, u64);

impl FileId {
    #[cfg(unix)]
    pub fn of(metadata: &Metadata) -> FileId {
        use std::os::unix::fs::MetadataExt;
        FileId(metadata.dev(), metadata.ino())
    }

    /// Elsewhere an open file can be neither removed nor replaced.
    #[cfg(not(unix))]
    pub fn of(_: &Metadata) -> FileId {
        FileId(0, 0)
    }

    /// `None` if nothing is there.
    pub fn at(path: &Path) -> Option<FileId> {
        // Never by opening it: closing any handle of a file drops all locks that this process has on it, SQLite's included.
        std::fs::metadata(path).ok().map(|it| FileId::of(&it))
    }
}

/// The path without links and dots, so that one file has one name.
pub(super) fn canonical(path: &Path) -> Result<PathBuf, Error> {
    path.canonicalize().map_err(|error| {
        let path = path.display();
        if error.kind() == io::ErrorKind::NotFound {
            Error::fatal(
                format!("there is no SQLite file {path}"),
                "start the application that makes it, or correct source.url",
            )
        } else {
            Error::fatal(
                format!("the SQLite file {path} cannot be reached ({error})"),
                "let the user that runs Headwater enter its folder and read it, or correct source.url",
            )
        }
    })
}
