//! How far a command has come: a line of the terminal that changes, if there is one; else the log is told now and then.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

use crate::compare::Count;
use crate::pipeline::Figures;

const SHOW_EVERY: Duration = Duration::from_millis(200);
const LOG_EVERY: Duration = Duration::from_secs(10);

fn is_seen() -> bool {
    std::io::stderr().is_terminal()
}

fn show(line: impl Display) {
    // To the line's beginning, and what was there before is cleared.
    eprint!("\r\x1b[2K{line}");
}

/// Of a snapshot, as long as there is one, or of what goes on like one; and of the topics that are read back for it.
pub fn of_snapshot(
    what: &'static str,
    mut board: watch::Receiver<Figures>,
    count: Option<Count>,
) -> JoinHandle<()> {
    tokio::spawn(async move {
        if !is_seen() {
            // The loop logs how far the snapshot has come.
            if let Some(count) = count {
                log_messages(&count).await;
            }
            return;
        }
        let mut shown = false;
        while board.changed().await.is_ok() {
            let part = board.borrow_and_update().snapshot;
            match (part, &count) {
                (Some(part), Some(count)) => {
                    let messages = count.load(Ordering::Relaxed);
                    show(format_args!("{what}: {part}, {messages} messages read"));
                }
                (Some(part), None) => show(format_args!("{what}: {part}")),
                (None, _) if shown => eprintln!(),
                (None, _) => {}
            }
            shown = part.is_some();
            sleep(SHOW_EVERY).await;
        }
    })
}

/// Of topics that are read back, until it is dropped: how many messages so far. While none is read it is silent.
pub struct OfMessages(JoinHandle<()>);

impl OfMessages {
    pub fn begin(count: &Count) -> OfMessages {
        let count = Arc::clone(count);
        OfMessages(tokio::spawn(async move {
            if is_seen() {
                let line = |(messages, rate)| {
                    show(format_args!("{messages} messages read, {rate} a second"));
                };
                each(&count, SHOW_EVERY, line).await;
            } else {
                log_messages(&count).await;
            }
        }))
    }
}

impl Drop for OfMessages {
    fn drop(&mut self) {
        self.0.abort();
        if is_seen() {
            show("");
        }
    }
}

async fn log_messages(count: &Count) {
    let line = |(messages, rate)| tracing::info!(messages, rate, "reading what is on the topics");
    each(count, LOG_EVERY, line).await;
}

/// Tells again and again how many there are, and how many a second come while any do.
async fn each(count: &Count, every: Duration, tell: impl Fn((u64, u64))) {
    let (mut told, mut reading) = (0, Duration::ZERO);
    loop {
        sleep(every).await;
        let messages = count.load(Ordering::Relaxed);
        if messages == told {
            continue;
        }
        reading += every;
        told = messages;
        let millis = u64::try_from(reading.as_millis()).unwrap_or(u64::MAX);
        tell((messages, messages.saturating_mul(1000) / millis));
    }
}

/// Of a table that is read through: how many rows so far.
pub struct OfRows {
    /// What is done to them.
    done: &'static str,
    is_seen: bool,
    /// With the first row: the server may have had to sort them.
    begun: Option<Instant>,
    last: Instant,
}

impl OfRows {
    pub fn begin(done: &'static str) -> OfRows {
        OfRows {
            done,
            is_seen: is_seen(),
            begun: None,
            last: Instant::now(),
        }
    }

    pub fn show(&mut self, rows: u64) {
        let begun = *self.begun.get_or_insert_with(Instant::now);
        let every = if self.is_seen { SHOW_EVERY } else { LOG_EVERY };
        // Looking at the clock for each row would be most of the work.
        if !rows.is_multiple_of(256) || self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let (done, rate) = (self.done, rows / begun.elapsed().as_secs().max(1));
        if self.is_seen {
            show(format_args!("{rows} rows {done}, {rate} a second"));
        } else {
            tracing::info!(rows, rate, "rows were {done}");
        }
    }

    pub fn end(&self) {
        if self.is_seen {
            show("");
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn messages_are_told_of_while_some_are_read() {
        let (count, told) = (Count::default(), Mutex::new(Vec::new()));
        let telling = each(&count, LOG_EVERY, |it| told.lock().unwrap().push(it));
        let reading = async {
            // Nothing for a while, then some, then nothing, then more.
            sleep(LOG_EVERY * 5 / 2).await;
            count.fetch_add(500, Ordering::Relaxed);
            sleep(LOG_EVERY * 3).await;
            count.fetch_add(1500, Ordering::Relaxed);
            sleep(LOG_EVERY).await;
        };
        tokio::select! {
            () = telling => unreachable!("it goes on for ever"),
            () = reading => {}
        }
        assert_eq!(*told.lock().unwrap(), [(500, 50), (2000, 100)]);
    }
}
