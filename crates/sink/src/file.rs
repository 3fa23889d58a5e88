//! A position in a file, for sinks without a broker: written beside, synced, renamed, and the folder synced.
//!
//! Rule: one instance at a time, by a lock on a second file that stays where it is while the first is replaced.

use std::fs::{self, File, TryLockError};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use headwater_core::positions::{Positions, Record};
use tokio::task::{JoinHandle, spawn_blocking};

use crate::Error;
use crate::record;

pub struct FilePositions {
    path: PathBuf,
    name: String,
    under_way: Option<JoinHandle<io::Result<()>>>,
    /// Held for as long as this lives.
    _lock: File,
}

impl FilePositions {
    /// For the pipeline `name`; the file need not exist, its folder must.
    pub fn open(path: impl Into<PathBuf>, name: &str) -> Result<FilePositions, Error> {
        let path = path.into();
        let lock = beside(&path, "lock");
        let held = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&lock)
            .map_err(|e| unusable(&lock, &e))?;
        match held.try_lock() {
            Ok(()) => Ok(FilePositions {
                path,
                name: name.to_owned(),
                under_way: None,
                _lock: held,
            }),
            Err(TryLockError::WouldBlock) => Err(Error::transient(format!(
                "another Headwater uses the position file {} (it holds {})",
                path.display(),
                lock.display()
            ))),
            Err(TryLockError::Error(error)) => Err(unusable(&lock, &error)),
        }
    }
}

/// A look at the record in a file, beside an instance that may be using it.
pub fn look(path: &Path, name: &str) -> Result<Option<Record>, Error> {
    let bytes = match fs::read(path) {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(unusable(path, &error)),
    };
    record::read(&bytes, name).map(Some).map_err(|why| {
        Error::fatal(
            format!("the position file {} cannot be used: {why}", path.display()),
            "bring back the right file, or move this one away and begin anew with `headwater init`",
        )
    })
}

/// The records in the files beside this one whose names go on so, such as those of its replays. What is no such record is left out.
pub fn beside_it(path: &Path, name: &str, with: &str) -> Vec<Record> {
    let folder = path.parent().filter(|it| !it.as_os_str().is_empty());
    let Ok(files) = fs::read_dir(folder.unwrap_or(Path::new("."))) else {
        return Vec::new();
    };
    let own = path.file_name().unwrap_or_default().to_string_lossy();
    let rest = files.flatten().filter_map(|file| {
        let there = file.file_name().to_string_lossy().into_owned();
        let rest = there.strip_prefix(&*own)?;
        rest.starts_with(with).then(|| rest.to_owned())
    });
    let mut rest: Vec<String> = rest.collect();
    rest.sort();
    let read = |rest: &String| {
        let mut file = path.as_os_str().to_owned();
        file.push(rest);
        look(Path::new(&file), &format!("{name}{rest}")).ok()?
    };
    rest.iter().filter_map(read).collect()
}

fn unusable(path: &Path, error: &io::Error) -> Error {
    Error::fatal(
        format!(
            "the position file cannot be used: {}: {error}",
            path.display()
        ),
        "let position.file name a file in a folder that exists and that this user may write to",
    )
}

/// `positions.json` -> `positions.json.lock`
fn beside(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".");
    name.push(ending);
    name.into()
}

impl Positions for FilePositions {
    type Error = Error;

    async fn read(&mut self) -> Result<Option<Record>, Error> {
        look(&self.path, &self.name)
    }

    fn write(&mut self, record: &Record) -> Result<(), Error> {
        let mut bytes = serde_json::to_vec(record)
            .map_err(|e| Error::transient(format!("a position cannot be written as JSON: {e}")))?;
        bytes.push(b'\n');
        let path = self.path.clone();
        self.under_way = Some(spawn_blocking(move || replace(&path, &bytes)));
        Ok(())
    }

    async fn written(&mut self) -> Result<(), Error> {
        let Some(under_way) = &mut self.under_way else {
            return std::future::pending().await;
        };
        let done = under_way.await;
        self.under_way = None;
        let failed = match done {
            Ok(Ok(())) => return Ok(()),
            Ok(Err(error)) => error.to_string(),
            Err(error) => error.to_string(),
        };
        let path = self.path.display();
        Err(Error::transient(format!(
            "the position file {path} cannot be written: {failed}"
        )))
    }
}

/// Whenever the machine stops, the old content or the new one is there.
fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let new = beside(path, "new");
    let mut file = File::create(&new)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(&new, path)?;
    // The name is safe only once the folder is.
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty());
    File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use headwater_core::positions::FORMAT;
    use headwater_core::trouble::Trouble;

    fn record(position: &str) -> Record {
        Record {
            format: FORMAT,
            name: "shop".into(),
            run: 2,
            source: serde_json::json!({"file": "outbox.db"}),
            position: position.into(),
            event_time: None,
            written_at: "2026-01-01T00:00:00Z".into(),
            headwater: "0.1.0".into(),
            blocked: None,
            snapshot: None,
        }
    }

    async fn write(positions: &mut FilePositions, position: &str) {
        positions.write(&record(position)).unwrap();
        positions.written().await.unwrap();
    }

    #[tokio::test]
    async fn a_file_that_does_not_exist_holds_no_position() {
        let folder = tempfile::tempdir().unwrap();
        let mut positions = FilePositions::open(folder.path().join("p.json"), "shop").unwrap();
        assert_eq!(positions.read().await.unwrap(), None);
    }

    #[tokio::test]
    async fn the_last_record_is_there_for_the_next_instance() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let mut positions = FilePositions::open(&path, "shop").unwrap();
        write(&mut positions, "1").await;
        write(&mut positions, "2").await;
        drop(positions);
        let mut positions = FilePositions::open(&path, "shop").unwrap();
        assert_eq!(positions.read().await.unwrap(), Some(record("2")));
    }

    #[tokio::test]
    async fn what_a_crash_left_beside_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let mut positions = FilePositions::open(&path, "shop").unwrap();
        write(&mut positions, "1").await;
        fs::write(beside(&path, "new"), "{\"format\":1,").unwrap();
        assert_eq!(positions.read().await.unwrap(), Some(record("1")));
        write(&mut positions, "2").await;
        assert_eq!(positions.read().await.unwrap(), Some(record("2")));
    }

    #[tokio::test]
    async fn a_second_instance_is_kept_out_until_the_first_has_gone() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let first = FilePositions::open(&path, "shop").unwrap();
        let error = FilePositions::open(&path, "shop").err().unwrap();
        assert!(
            !error.is_fatal() && error.to_string().contains("p.json.lock"),
            "{error}"
        );
        drop(first);
        FilePositions::open(&path, "shop").unwrap();
    }

    #[tokio::test]
    async fn a_file_of_another_pipeline_or_a_damaged_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        let mut positions = FilePositions::open(&path, "shop").unwrap();
        write(&mut positions, "1").await;
        drop(positions);
        let mut other = FilePositions::open(&path, "till").unwrap();
        let error = other.read().await.unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains("\"shop\""),
            "{error}"
        );
        fs::write(&path, "{\"format\":1").unwrap();
        let error = other.read().await.unwrap_err();
        assert!(
            error.is_fatal() && error.to_string().contains("not JSON"),
            "{error}"
        );
    }

    #[tokio::test]
    async fn records_beside_a_file_are_found_by_how_their_names_go_on() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("p.json");
        for (own, name) in [("", "shop"), (".b.2", "shop.b.2"), (".b.1", "shop.b.1")] {
            let file = folder.path().join(format!("p.json{own}"));
            let mut positions = FilePositions::open(file, name).unwrap();
            let record = Record {
                name: name.into(),
                ..record(own)
            };
            positions.write(&record).unwrap();
            positions.written().await.unwrap();
        }
        fs::write(folder.path().join("p.json.b.3"), "{").unwrap();
        let found = beside_it(&path, "shop", ".b.");
        let names: Vec<&str> = found.iter().map(|record| &*record.name).collect();
        assert_eq!(names, ["shop.b.1", "shop.b.2"]);
    }

    #[tokio::test]
    async fn nothing_under_way_is_waited_for_for_ever() {
        let folder = tempfile::tempdir().unwrap();
        let mut positions = FilePositions::open(folder.path().join("p.json"), "shop").unwrap();
        let wait = std::time::Duration::from_millis(20);
        assert!(
            tokio::time::timeout(wait, positions.written())
                .await
                .is_err()
        );
    }

    #[tokio::test]
    async fn a_folder_that_is_gone_is_told_with_the_file_and_loses_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let inner = folder.path().join("inner");
        let missing = FilePositions::open(inner.join("p.json"), "shop")
            .err()
            .unwrap();
        assert!(
            missing.is_fatal() && missing.to_string().contains("position.file"),
            "{missing}"
        );
        fs::create_dir(&inner).unwrap();
        let mut positions = FilePositions::open(inner.join("p.json"), "shop").unwrap();
        fs::remove_dir_all(&inner).unwrap();
        positions.write(&record("1")).unwrap();
        let error = positions.written().await.unwrap_err();
        assert!(error.to_string().contains("p.json"), "{error}");
    }
}
