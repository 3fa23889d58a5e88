//! The wall clock, read nowhere else.

use std::time::{SystemTime, UNIX_EPOCH};

use headwater_core::instant::Instant;

/// Now, in microseconds since 1970.
pub fn micros() -> i64 {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    i64::try_from(since.as_micros()).unwrap_or(i64::MAX)
}

pub fn now() -> Instant {
    Instant(micros())
}
