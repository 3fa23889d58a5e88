//! A server's own reader, to /dev/null, and what a reading took, whoever read.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::backlog::Backlog;
use crate::meter::{Meter, Used};

/// What one reader did with a backlog.
pub struct Took {
    /// From the process's start to the last row.
    pub time: Duration,
    /// From the process's start to the first message, where it can be seen.
    pub first: Option<Duration>,
    pub reader: Used,
    pub sender: Used,
}

/// Runs a reader that ends with the backlog.
pub async fn drain(mut command: Command, backlog: &impl Backlog) -> Took {
    let program = command.get_program().display().to_string();
    let begun = Instant::now();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut reader = spawned.unwrap_or_else(|e| panic!("{program}: {e}"));
    let used = Meter::begin(reader.id());
    let sender = backlog.sender().await;
    let status = tokio::task::spawn_blocking(move || reader.wait()).await;
    let time = begun.elapsed();
    assert!(status.unwrap().unwrap().success(), "{program} failed");
    Took {
        time,
        first: None,
        reader: used.end(),
        sender: sender.end(),
    }
}
