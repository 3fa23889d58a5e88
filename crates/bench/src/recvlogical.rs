//! PostgreSQL's own reader: the yardstick.

use std::process::Command;

use headwater_testkit::unique;

use crate::backlog::postgres::Backlog;
use crate::yardstick::{self, Took};

/// Reads the whole backlog through a slot of its own.
pub async fn drain(backlog: &Backlog<'_>, options: &[&str]) -> Took {
    let slot = unique("bench");
    backlog.slot(&slot).await;
    let postgres = backlog.database.postgres();
    let mut command = Command::new(postgres.program("pg_recvlogical"));
    command
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
        .args(options);
    let took = yardstick::drain(command, backlog).await;
    backlog.drop_slot(&slot).await;
    took
}
