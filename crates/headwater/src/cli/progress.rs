//! How far a command has come: a line of the terminal that changes, if there is one.

use std::fmt::Display;
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::sleep;

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

/// Of a snapshot, as long as there is one, or of what goes on like one.
pub fn of_snapshot(what: &'static str, mut board: watch::Receiver<Figures>) -> JoinHandle<()> {
    tokio::spawn(async move {
        if !is_seen() {
            return;
        }
        let mut shown = false;
        while board.changed().await.is_ok() {
            let part = board.borrow_and_update().snapshot;
            match part {
                Some(part) => show(format_args!("{what}: {part}")),
                None if shown => eprintln!(),
                None => {}
            }
            shown = part.is_some();
            sleep(SHOW_EVERY).await;
        }
    })
}

/// Of a table that is read through: how many rows so far. Without a terminal the log is told, now and then.
pub struct OfRows {
    /// What is done to them.
    done: &'static str,
    is_seen: bool,
    begun: Instant,
    last: Instant,
}

impl OfRows {
    pub fn begin(done: &'static str) -> OfRows {
        OfRows {
            done,
            is_seen: is_seen(),
            begun: Instant::now(),
            last: Instant::now(),
        }
    }

    pub fn show(&mut self, rows: u64) {
        let every = if self.is_seen { SHOW_EVERY } else { LOG_EVERY };
        // Looking at the clock for each row would be most of the work.
        if !rows.is_multiple_of(256) || self.last.elapsed() < every {
            return;
        }
        self.last = Instant::now();
        let (done, rate) = (self.done, rows / self.begun.elapsed().as_secs().max(1));
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
