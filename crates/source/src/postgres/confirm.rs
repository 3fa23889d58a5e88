//! The end of a log's reading: what was confirmed has reached the server, and the slot is free for the next reader.

use std::time::Duration;

use tokio::time::{sleep, timeout};

use super::Settings;
use super::position::Lsn;
use super::session::Session;
use super::stream::Stream;

/// The server is waited for this long at each of the two steps, no longer.
const LIMIT: Duration = Duration::from_secs(3);
const ASK_EVERY: Duration = Duration::from_millis(20);

pub(super) async fn finish(
    stream: Stream,
    session: &Session,
    settings: &Settings,
    confirmed: Option<Lsn>,
) {
    if let Some(position) = confirmed {
        let _in_time = timeout(LIMIT, arrived(&stream, session, settings, position)).await;
    }
    let released = async {
        stream.close(LIMIT).await;
        let sql = "SELECT NOT active FROM pg_replication_slots WHERE slot_name = $1::text";
        until_true(session, sql, &settings.slot).await;
    };
    let _in_time = timeout(LIMIT, released).await;
}

/// Sent is not enough: closing a socket that still has rows to be read makes the server drop what we said last.
async fn arrived(stream: &Stream, session: &Session, settings: &Settings, position: Lsn) {
    while stream.told() < position {
        sleep(ASK_EVERY).await;
    }
    let sql = format!(
        "SELECT confirmed_flush_lsn >= '{position}'::pg_lsn FROM pg_replication_slots WHERE slot_name = $1::text"
    );
    until_true(session, &sql, &settings.slot).await;
}

/// Asks until the answer is yes, or cannot be had.
async fn until_true(session: &Session, sql: &str, slot: &String) {
    loop {
        match session.query_opt(sql, &[slot]).await {
            Ok(Some(row))
                if row
                    .try_get(0)
                    .is_ok_and(|yes: Option<bool>| yes == Some(false)) => {}
            _ => return,
        }
        sleep(ASK_EVERY).await;
    }
}
