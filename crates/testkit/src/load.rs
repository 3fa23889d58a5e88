//! Writers that fill the outbox as a busy application does, and remember what they really committed.
//!
//! Rule: each key belongs to one writer, which works on one transaction at a time, so a key's `seq` grows in commit order.
//! Never: an event is remembered as committed on a guess; an interrupted COMMIT is looked up (see `writer.rs`).

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use tokio::sync::oneshot;
use uuid::Uuid;

mod client;
mod mysql;
mod postgres;
mod row;
mod writer;

pub use mysql::mysql_bulk_rows;
pub use postgres::bulk_rows;
use writer::Writer;

/// An event that is in the table for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Committed {
    pub id: Uuid,
    /// The row's `model_id`, which is the message's key.
    pub key: String,
    /// Grows within a key in commit order; gaps are where transactions were rolled back.
    pub seq: i64,
}

/// What became of everything that was written.
#[derive(Debug, Default, Clone)]
pub struct Written {
    pub committed: Vec<Committed>,
    pub rolled_back: HashSet<Uuid>,
    /// Committed rows that are no events.
    pub sentinels: HashSet<Uuid>,
}

impl Written {
    pub fn add(&mut self, other: Written) {
        self.committed.extend(other.committed);
        self.rolled_back.extend(other.rolled_back);
        self.sentinels.extend(other.sentinels);
    }
}

/// How much is to be written, and how wildly.
#[derive(Debug, Clone)]
pub struct Load {
    /// Of every row; the topic is `ekbatan.<namespace>`.
    pub namespace: String,
    pub writers: u32,
    pub keys_per_writer: u32,
    /// A transaction has 1 to this many rows in each of its parts.
    pub rows: u32,
    /// Added to each payload.
    pub padding: usize,
    /// Per writer; `None`: until [`Writing::stop`].
    pub transactions: Option<u64>,
    /// Transactions a second, of all writers together.
    pub rate: Option<u32>,
    /// Rollbacks, savepoints, another way to insert, sentinels and updates among the plain transactions.
    pub mixed: bool,
    pub seed: u64,
}

impl Load {
    /// Four writers with ten keys each, up to five rows at a time, mixed, until stopped.
    pub fn new(namespace: &str, seed: u64) -> Self {
        Self {
            namespace: namespace.to_owned(),
            writers: 4,
            keys_per_writer: 10,
            rows: 5,
            padding: 0,
            transactions: None,
            rate: None,
            mixed: true,
            seed,
        }
    }

    /// Begins to write, in a thread of its own: a test that blocks does not hold the writers up. `url` is the
    /// application's, of a [`crate::Database`] or a [`crate::MysqlDatabase`].
    pub fn start(self, url: &str) -> Writing {
        let stop = Arc::new(AtomicBool::new(false));
        let events = Arc::new(AtomicU64::new(0));
        let writers: Vec<Writer> = (0..self.writers)
            .map(|number| Writer::new(&self, number, url, &stop, &events))
            .collect();
        let (done, written) = oneshot::channel();
        thread::spawn(move || {
            // Nobody listens if the test is over already.
            let _ = done.send(write(writers));
        });
        Writing {
            written,
            halt: Halt(stop),
            events,
        }
    }
}

fn write(writers: Vec<Writer>) -> Written {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let tasks: Vec<_> = writers
            .into_iter()
            .map(|writer| tokio::spawn(writer.work()))
            .collect();
        let mut all = Written::default();
        for task in tasks {
            all.add(task.await.expect("a writer panicked"));
        }
        all
    })
}

/// Writers at work. Dropped: they stop, and what they wrote is not told.
pub struct Writing {
    written: oneshot::Receiver<Written>,
    halt: Halt,
    events: Arc<AtomicU64>,
}

/// Tells the writers to stop when it goes.
struct Halt(Arc<AtomicBool>);

impl Drop for Halt {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

impl Writing {
    /// How many events were committed so far.
    pub fn events(&self) -> u64 {
        self.events.load(Ordering::Relaxed)
    }

    /// Waits until at least this many events were committed.
    pub async fn wait_for(&self, events: u64, limit: Duration) {
        let end = Instant::now() + limit;
        while self.events() < events {
            assert!(
                Instant::now() < end,
                "only {} of {events} events committed within {limit:?}",
                self.events()
            );
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }

    /// Lets each writer end the transaction it is in.
    pub async fn stop(self) -> Written {
        let Self { written, halt, .. } = self;
        drop(halt);
        written.await.expect("a writer panicked")
    }

    /// Waits until the writers have done all their transactions.
    pub async fn finish(self) -> Written {
        self.written.await.expect("a writer panicked")
    }
}
