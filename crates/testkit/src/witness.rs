//! Looks again and again how many sessions read one outbox's log, from a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

const PAUSE: Duration = Duration::from_millis(20);

pub struct Witness {
    enough: Arc<AtomicBool>,
    most: JoinHandle<usize>,
}

impl Witness {
    /// `look` is called again and again, with what `open` opened once.
    pub(crate) fn start<C, O, L>(open: O, look: L) -> Self
    where
        O: AsyncFnOnce() -> C + Send + 'static,
        L: AsyncFn(&mut C) -> usize + Send + 'static,
    {
        let enough = Arc::new(AtomicBool::new(false));
        let seen = Arc::clone(&enough);
        let most = thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_all()
                .build()
                .unwrap();
            runtime.block_on(async {
                let mut connection = open().await;
                let mut most = 0;
                while !seen.load(Ordering::Relaxed) {
                    most = most.max(look(&mut connection).await);
                    tokio::time::sleep(PAUSE).await;
                }
                most
            })
        });
        Self { enough, most }
    }

    /// The most that were ever seen at the same time.
    pub fn most_at_work(self) -> usize {
        self.enough.store(true, Ordering::Relaxed);
        self.most.join().unwrap()
    }
}
