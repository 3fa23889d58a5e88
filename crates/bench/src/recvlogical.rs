//! PostgreSQL's own reader, to /dev/null: the yardstick.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::backlog::Backlog;
use crate::meter::{Meter, Used};

pub struct Took {
    pub time: Duration,
    pub reader: Used,
    pub walsender: Used,
}

/// Reads the whole backlog through a slot of its own.
pub async fn drain(backlog: &Backlog<'_>, publication: &str, binary: bool) -> Took {
    let slot = backlog.slot().await;
    let postgres = backlog.database.postgres();
    let begun = Instant::now();
    let mut reader = Command::new(postgres.program("pg_recvlogical"))
        .args([
            "--start",
            "--no-loop",
            "--file=/dev/null",
            "--fsync-interval=0",
        ])
        .args(["--host=127.0.0.1", "--username=postgres"])
        .arg(format!("--port={}", postgres.port()))
        .arg(format!("--dbname={}", backlog.database.name()))
        .arg(format!("--slot={slot}"))
        .arg(format!("--endpos={}", backlog.end))
        .args(["--option=proto_version=1", "--option=messages=true"])
        .arg(format!("--option=publication_names={publication}"))
        .arg(format!("--option=binary={binary}"))
        .stdin(Stdio::null())
        .spawn()
        .expect("pg_recvlogical starts");
    let used = Meter::begin(reader.id());
    let walsender = Meter::begin(backlog.walsender().await);
    let status = tokio::task::spawn_blocking(move || reader.wait()).await;
    let time = begun.elapsed();
    assert!(status.unwrap().unwrap().success(), "pg_recvlogical failed");
    let took = Took {
        time,
        reader: used.end(),
        walsender: walsender.end(),
    };
    backlog.drop_slot(&slot).await;
    took
}
