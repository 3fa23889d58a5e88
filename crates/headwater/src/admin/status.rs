//! A pipeline's figures as JSON, for `/status` and `headwater status`.

use headwater_core::disposition::Skip;
use headwater_core::failure::Kind;
use serde_json::{Map, Value, json};

use crate::metrics::lag_seconds;
use crate::pipeline::{Cause, Figures};

/// `now` is in microseconds since 1970.
pub fn json(pipeline: &str, figures: &Figures, now: i64) -> Value {
    let tally = &figures.tally;
    json!({
        "pipeline": pipeline,
        "version": env!("CARGO_PKG_VERSION"),
        "ready": figures.is_ready(),
        "waiting_for": figures.waiting_for(),
        "run": figures.run,
        "snapshot": figures.snapshot.map(|part| json!({
            "rows": part.rows, "expected": part.expected, "rows_per_second": part.rate, "seconds_left": part.rest(),
        })),
        "snapshot_again": tally.again,
        "rows": tally.rows,
        "published": tally.delivered,
        "skipped": named(Skip::ALL.map(Skip::name), tally.skipped),
        "filtered": tally.filtered().map(|(rule, count)| (rule.to_string(), count.into())).collect::<Map<String, Value>>(),
        "failed": named(Kind::ALL.map(Kind::name), tally.failed),
        "dead_letters": named(Kind::ALL.map(Kind::name), tally.dead_letters),
        "holding": figures.is_holding(),
        "unknown_members": tally.unknown_members,
        "in_flight": { "messages": figures.in_flight_messages, "bytes": figures.in_flight_bytes },
        "client_queue": figures.queued,
        "lag": { "seconds": lag_seconds(figures, now), "bytes": figures.lag_bytes },
        "delivery": { "messages": tally.latency.count(), "micros": tally.latency.sum_micros },
        "confirmed": figures.confirmed,
        "reconnects": named(Cause::ALL.map(Cause::name), tally.reconnects),
    })
}

fn named<const N: usize>(names: [&'static str; N], counts: [u64; N]) -> Map<String, Value> {
    let counts = counts.map(Value::from);
    names.map(str::to_owned).into_iter().zip(counts).collect()
}
