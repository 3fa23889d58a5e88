//! One instance of a pipeline at a time: the lock beside the database file.
//!
//! Rule: the operating system holds the lock as long as the file is open, so it ends with the process, however that ends. The
//! file is never removed: whoever removed it could leave two instances with a lock each.

use std::fs::{File, OpenOptions, TryLockError};
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::Settings;
use super::file::{FileId, canonical};
use crate::Error;

const PAUSE: Duration = Duration::from_millis(500);

pub(super) fn path(settings: &Settings) -> Result<PathBuf, Error> {
    let mut path = canonical(&settings.path)?.into_os_string();
    path.push(format!(".headwater-{}.lock", settings.name));
    Ok(path.into())
}

/// Waits until the lock is ours. It is, until the file is dropped.
pub(super) async fn take(path: &Path) -> Result<File, Error> {
    let mut told = false;
    loop {
        if let Some(file) = try_take(path)? {
            return Ok(file);
        }
        if !told {
            told = true;
            tracing::info!(lock = %path.display(), "another instance is at work; standing by");
        }
        tokio::time::sleep(PAUSE).await;
    }
}

fn try_take(path: &Path) -> Result<Option<File>, Error> {
    let unusable = |error: std::io::Error| {
        Error::fatal(
            format!("the lock file {} cannot be used ({error})", path.display()),
            "let the user that runs Headwater create and write files in the folder of the database",
        )
    };
    let file = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(path)
        .map_err(unusable)?;
    match file.try_lock() {
        // Between opening and locking, someone may have removed the file: then the next instance would make, and lock, another.
        Ok(()) => Ok(is_at(&file, path).then_some(file)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => Err(unusable(error)),
    }
}

/// Whether `file` is still the one that other instances would try to lock.
pub(super) fn is_at(file: &File, path: &Path) -> bool {
    let held = file.metadata().ok().map(|it| FileId::of(&it));
    held.is_some() && held == FileId::at(path)
}
