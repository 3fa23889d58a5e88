//! From a file to batches of rows: a thread of its own waits for commits and for the writer's locks, so that nobody else has to.
//!
//! Rule: a read transaction ends before its rows are handed over; a slow broker never holds up the application. A lock of the
//! writer is waited for, however long; it is no error.

use std::path::Path;
use std::sync::mpsc as std_mpsc;
use std::thread;
use std::time::{Duration, Instant};

use rusqlite::{Connection, ErrorCode, OpenFlags};
use tokio::sync::mpsc;

use super::Settings;
use super::file::{FileId, canonical};
use super::position::Position;
use super::rows::{Batch, Layout};
use crate::Error;

/// How long to wait before looking again: from the first, after a commit, to the last, when the table is quiet.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
pub(super) const LAST_PAUSE: Duration = Duration::from_millis(100);
/// How long SQLite waits for a lock by itself. The thread cannot be told to end meanwhile.
const BUSY_TIMEOUT: Duration = Duration::from_millis(250);
/// A lock that is held for so long is worth a word.
const LONG_LOCK: Duration = Duration::from_secs(10);

/// Why a read did not come about.
#[derive(Debug)]
pub(super) enum Setback {
    Sqlite(rusqlite::Error),
    Told(Error),
}

impl From<rusqlite::Error> for Setback {
    fn from(error: rusqlite::Error) -> Setback {
        Setback::Sqlite(error)
    }
}

impl From<Error> for Setback {
    fn from(error: Error) -> Setback {
        Setback::Told(error)
    }
}

impl Setback {
    /// The writer has the file to itself for a while.
    pub(super) fn is_lock(&self) -> bool {
        let Setback::Sqlite(error) = self else {
            return false;
        };
        matches!(
            error.sqlite_error_code(),
            Some(
                ErrorCode::DatabaseBusy
                    | ErrorCode::DatabaseLocked
                    | ErrorCode::FileLockingProtocolFailed
            )
        )
    }

    pub(super) fn into_error(self, path: &Path) -> Error {
        match self {
            Setback::Told(error) => error,
            Setback::Sqlite(error) => explain(&error, path),
        }
    }
}

fn explain(error: &rusqlite::Error, path: &Path) -> Error {
    let path = path.display();
    let what = format!("the SQLite file {path} cannot be read ({error})");
    match error.sqlite_error_code() {
        Some(
            ErrorCode::DatabaseBusy
            | ErrorCode::DatabaseLocked
            | ErrorCode::FileLockingProtocolFailed
            | ErrorCode::SystemIoFailure
            | ErrorCode::OutOfMemory
            | ErrorCode::SchemaChanged,
        ) => Error::transient(what),
        // A writer died in the middle of a transaction, and only one that may write can clear up after it.
        Some(ErrorCode::ReadOnly) => Error::transient(format!(
            "{what}: a transaction was broken off, and the application that writes to the file has to open it first"
        )),
        Some(ErrorCode::CannotOpen | ErrorCode::PermissionDenied) => Error::fatal(
            what,
            "let the user that runs Headwater read the file and, in WAL mode, write in its folder (SQLite keeps -wal and -shm files there)",
        ),
        Some(ErrorCode::NotADatabase) => {
            Error::fatal(what, "correct source.url: this is no SQLite database")
        }
        Some(ErrorCode::DatabaseCorrupt) => Error::fatal(
            what,
            format!("see what is wrong with: sqlite3 '{path}' 'PRAGMA integrity_check'"),
        ),
        _ => Error::fatal(
            what,
            format!("see whether it can be read with: sqlite3 '{path}'"),
        ),
    }
}

/// Opens the file for reading only.
pub(super) fn connect(path: &Path) -> Result<Connection, Setback> {
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = Connection::open_with_flags(canonical(path)?, flags)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    Ok(connection)
}

/// Does `work`, which may wait for a file, where waiting is allowed; again as long as the writer's locks prevent it.
pub(super) async fn patiently<T: Send + 'static>(
    path: &Path,
    work: impl Fn() -> Result<T, Setback> + Clone + Send + 'static,
) -> Result<T, Error> {
    let mut wait = LockWait::default();
    loop {
        let done = tokio::task::spawn_blocking(work.clone()).await;
        match done.map_err(|error| Error::transient(format!("a reader broke off ({error})")))? {
            Ok(it) => return Ok(it),
            Err(setback) if setback.is_lock() => wait.note(path),
            Err(setback) => return Err(setback.into_error(path)),
        }
        tokio::time::sleep(LAST_PAUSE).await;
    }
}

/// Tells of a lock once, and only if it lasts.
#[derive(Debug, Default)]
struct LockWait {
    since: Option<Instant>,
    told: bool,
}

impl LockWait {
    fn note(&mut self, path: &Path) {
        let since = *self.since.get_or_insert_with(Instant::now);
        if !self.told && since.elapsed() > LONG_LOCK {
            self.told = true;
            tracing::warn!(path = %path.display(), "the writer keeps the SQLite file locked; waiting");
        }
    }
}

/// Batches, as they are committed.
#[derive(Debug)]
pub(super) struct Stream {
    batches: mpsc::Receiver<Result<Batch, Error>>,
    /// Nothing is ever sent: the thread ends when this is dropped.
    stop: std_mpsc::Sender<()>,
}

impl Stream {
    pub async fn open(settings: Settings, position: Position) -> Result<Stream, Error> {
        let path = settings.path.clone();
        let begin = move || Follower::begin(settings.clone(), position.clone());
        let follower = patiently(&path, begin).await?;
        // One batch waits while another is handed out and the next one is read: that is all that is ever in memory.
        let (sender, batches) = mpsc::channel(1);
        let (stop, stopped) = std_mpsc::channel();
        thread::Builder::new()
            .name("sqlite".into())
            .spawn(move || follow(follower, &sender, &stopped))
            .map_err(|error| Error::transient(format!("no thread could be started ({error})")))?;
        Ok(Stream { batches, stop })
    }

    /// Cancel-safe.
    pub async fn next(&mut self) -> Result<Batch, Error> {
        self.batches
            .recv()
            .await
            .unwrap_or_else(|| Err(Error::transient("the reader of the SQLite file has ended")))
    }

    /// Returns when the file is closed.
    pub async fn close(mut self) {
        drop(self.stop);
        self.batches.close();
        while self.batches.recv().await.is_some() {}
    }
}

fn follow(
    mut follower: Follower,
    batches: &mpsc::Sender<Result<Batch, Error>>,
    stopped: &std_mpsc::Receiver<()>,
) {
    let mut pause = FIRST_PAUSE;
    let mut wait = LockWait::default();
    loop {
        match follower.read() {
            Ok(Some(batch)) => {
                wait = LockWait::default();
                pause = if batch.full {
                    Duration::ZERO
                } else {
                    FIRST_PAUSE
                };
                if batches.blocking_send(Ok(batch)).is_err() {
                    return;
                }
            }
            Ok(None) => {
                wait = LockWait::default();
                pause = (pause * 2).clamp(FIRST_PAUSE, LAST_PAUSE);
            }
            Err(setback) if setback.is_lock() => wait.note(&follower.settings.path),
            Err(setback) => {
                let error = setback.into_error(&follower.settings.path);
                // If nobody listens any more, nobody has to know.
                let _ = batches.blocking_send(Err(error));
                return;
            }
        }
        if stopped.recv_timeout(pause) != Err(std_mpsc::RecvTimeoutError::Timeout) {
            return;
        }
    }
}

/// A connection and how far it has read.
#[derive(Debug)]
struct Follower {
    settings: Settings,
    connection: Connection,
    file: Option<FileId>,
    layout: Option<Layout>,
    position: Position,
    /// The state of the database in which there was nothing left to read.
    exhausted: Option<i64>,
    told_missing: bool,
}

impl Follower {
    /// Refuses unless the table can be resumed at `position`.
    fn begin(settings: Settings, position: Position) -> Result<Follower, Setback> {
        let file = FileId::at(&settings.path);
        let mut connection = connect(&settings.path)?;
        let transaction = connection.transaction()?;
        let layout = Layout::read(&transaction, &settings.table)?;
        layout.verify(&transaction, &position)?;
        drop(transaction);
        Ok(Follower {
            settings,
            connection,
            file,
            layout: Some(layout),
            position,
            exhausted: None,
            told_missing: false,
        })
    }

    /// The next rows, if there are any.
    fn read(&mut self) -> Result<Option<Batch>, Setback> {
        self.still_there()?;
        let transaction = self.connection.transaction()?;
        // Differs whenever another connection has committed (sqlite.org/pragma.html#pragma_data_version). Asked inside the
        // transaction, it is the version of what the transaction sees.
        let version = transaction.query_row("PRAGMA data_version", [], |row| row.get(0))?;
        if self.exhausted == Some(version) {
            return Ok(None);
        }
        let layout = Layout::read(&transaction, &self.settings.table)?;
        let layout = layout.settle_on(self.layout.as_ref());
        // Again with every batch: a file can be restored under a running reader.
        layout.verify(&transaction, &self.position)?;
        let batch = layout.batch(&transaction, &self.position)?;
        drop(transaction);
        self.exhausted = (!batch.full).then_some(version);
        self.layout = Some(layout);
        self.tell_missing(&batch);
        self.position = batch.end.clone();
        Ok((!batch.rows.is_empty()).then_some(batch))
    }

    /// Once: a table with a row deleted too early is likely to have many.
    fn tell_missing(&mut self, batch: &Batch) {
        let rows = i64::try_from(batch.rows.len()).unwrap_or(i64::MAX);
        let numbers = batch.end.seq.saturating_sub(self.position.seq);
        if numbers > rows && !self.told_missing {
            self.told_missing = true;
            tracing::warn!(
                after = self.position.seq,
                up_to = batch.end.seq,
                missing = numbers - rows,
                "numbers without a row: it was deleted before it was read, or an insert took a number and failed"
            );
        }
    }

    /// An open file that was moved away would stay quiet for ever.
    fn still_there(&self) -> Result<(), Setback> {
        if FileId::at(&self.settings.path) == self.file {
            Ok(())
        } else {
            Err(Setback::Told(Error::transient(format!(
                "the SQLite file {} was moved away or replaced",
                self.settings.path.display()
            ))))
        }
    }
}
