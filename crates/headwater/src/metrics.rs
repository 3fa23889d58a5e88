//! What is measured: every name once, with its meaning, and as text for Prometheus.
//!
//! In: one look at a pipeline. Out: the exposition format, version 0.0.4; docs/metrics.md is made of the same table.

use std::fmt::Write as _;

use headwater_core::disposition::Skip;
use headwater_core::failure::Kind;

use crate::pipeline::{Cause, Figures, Lag, Latency};

/// The type of what [`text`] gives.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// One measure. All of them have the label `pipeline`.
struct Metric {
    name: &'static str,
    kind: &'static str,
    /// A further label, and the values that it can have.
    label: Option<(&'static str, Values)>,
    meaning: &'static str,
    read: Read,
}

type Values = fn() -> Vec<&'static str>;

/// How a measure is read. What is not known is left out.
enum Read {
    One(fn(&Figures, i64) -> Option<f64>),
    /// One for each of the label's values.
    Each(fn(&Figures) -> Vec<u64>),
    /// One for each rule of the filter that has skipped a row.
    Filtered,
    Latency,
}

#[expect(
    clippy::cast_precision_loss,
    reason = "exact up to 2^53, which no count here reaches"
)]
fn number(count: u64) -> f64 {
    count as f64
}

#[expect(
    clippy::unnecessary_wraps,
    reason = "the table's other readers may know nothing"
)]
fn known(count: u64) -> Option<f64> {
    Some(number(count))
}

fn size(count: usize) -> Option<f64> {
    u64::try_from(count).ok().map(number)
}

/// How long the oldest undelivered event has been waiting, in seconds.
pub fn lag_seconds(figures: &Figures, now: i64) -> Option<f64> {
    match figures.lag {
        Lag::Unknown => None,
        Lag::Nothing => Some(0.0),
        Lag::Since(since) => {
            let micros = u64::try_from(now.saturating_sub(since)).unwrap_or(0);
            Some(number(micros) / 1e6)
        }
    }
}

fn reasons() -> Vec<&'static str> {
    Skip::ALL.map(Skip::name).to_vec()
}

fn kinds() -> Vec<&'static str> {
    Kind::ALL.map(Kind::name).to_vec()
}

fn causes() -> Vec<&'static str> {
    Cause::ALL.map(Cause::name).to_vec()
}

// One measure a paragraph: a table is looked through, not read.
#[rustfmt::skip]
const METRICS: &[Metric] = &[
    Metric {
        name: "headwater_info", kind: "gauge", label: Some(("version", || vec![env!("CARGO_PKG_VERSION")])),
        meaning: "Always 1; the label says which version runs.",
        read: Read::Each(|_| vec![1]),
    },
    Metric {
        name: "headwater_ready", kind: "gauge", label: None,
        meaning: "1 while events are being delivered, or would be if there were any; else 0, and `/ready` says why.",
        read: Read::One(|it, _| known(u64::from(it.is_ready()))),
    },
    Metric {
        name: "headwater_rows_total", kind: "counter", label: None,
        meaning: "Rows that were read from the log, published or not. A row that is read again counts again, here and below.",
        read: Read::One(|it, _| known(it.tally.rows)),
    },
    Metric {
        name: "headwater_published_total", kind: "counter", label: None,
        meaning: "Messages that the broker acked.",
        read: Read::One(|it, _| known(it.tally.delivered)),
    },
    Metric {
        name: "headwater_skipped_total", kind: "counter", label: Some(("reason", reasons)),
        meaning: "Rows that are not to be published, by rule.",
        read: Read::Each(|it| it.tally.skipped.to_vec()),
    },
    Metric {
        name: "headwater_filtered_total", kind: "counter", label: Some(("rule", || vec!["skip[1]", "only"])),
        meaning: "Rows that a rule of `[filter]` skipped, for each rule that skipped any; their sum is in \
                  `headwater_skipped_total` too.",
        read: Read::Filtered,
    },
    Metric {
        name: "headwater_failed_total", kind: "counter", label: Some(("kind", kinds)),
        meaning: "Rows that cannot be published, and messages that the broker refused. Where `[failure]` says `stop` the first one \
                  ends the process with exit code 3 (or it holds), so look at that rather than at this.",
        read: Read::Each(|it| it.tally.failed.to_vec()),
    },
    Metric {
        name: "headwater_dead_letters_total", kind: "counter", label: Some(("kind", kinds)),
        meaning: "Dead letters that the broker has, by what was wrong with the row or its message.",
        read: Read::Each(|it| it.tally.dead_letters.to_vec()),
    },
    Metric {
        name: "headwater_holding", kind: "gauge", label: None,
        meaning: "1 while a row that cannot be published is waited for to be mended (`failure.when_stopped = \"hold\"`); else 0.",
        read: Read::One(|it, _| known(u64::from(it.is_holding()))),
    },
    Metric {
        name: "headwater_unknown_members_total", kind: "counter", label: None,
        meaning: "Members of payloads that were dropped because their schema does not have them.",
        read: Read::One(|it, _| known(it.tally.unknown_members)),
    },
    Metric {
        name: "headwater_snapshot_rows", kind: "gauge", label: None,
        meaning: "While the rows that were there before are being published: how many of them are.",
        read: Read::One(|it, _| it.snapshot.map(|part| number(part.rows))),
    },
    Metric {
        name: "headwater_snapshot_rows_expected", kind: "gauge", label: None,
        meaning: "The same: about how many there were when that began. Absent if the database could not tell.",
        read: Read::One(|it, _| it.snapshot.and_then(|part| part.expected).map(number)),
    },
    Metric {
        name: "headwater_snapshot_rows_per_second", kind: "gauge", label: None,
        meaning: "The same: how fast that goes, since this process began with it.",
        read: Read::One(|it, _| it.snapshot.map(|part| number(part.rate))),
    },
    Metric {
        name: "headwater_snapshot_seconds_left", kind: "gauge", label: None,
        meaning: "The same: about how long it takes from now on. Absent if that cannot be told.",
        read: Read::One(|it, _| it.snapshot.and_then(|part| part.rest()).map(number)),
    },
    Metric {
        name: "headwater_snapshot_again_total", kind: "counter", label: None,
        meaning: "Events that a snapshot published after an interruption, and that are younger than its beginning: they come \
                  from the log too.",
        read: Read::One(|it, _| known(it.tally.again)),
    },
    Metric {
        name: "headwater_in_flight_messages", kind: "gauge", label: None,
        meaning: "Messages that were handed to the broker's client and are not acked; at most `sink.max_in_flight.messages`.",
        read: Read::One(|it, _| size(it.in_flight_messages)),
    },
    Metric {
        name: "headwater_in_flight_bytes", kind: "gauge", label: None,
        meaning: "The bytes of those messages; at most `sink.max_in_flight.bytes`, or one larger message.",
        read: Read::One(|it, _| size(it.in_flight_bytes)),
    },
    Metric {
        name: "headwater_client_queue", kind: "gauge", label: None,
        meaning: "What librdkafka holds: messages, position records and reports that wait to be taken. Only with Kafka, while \
                  a log is read.",
        read: Read::One(|it, _| it.queued.and_then(size)),
    },
    Metric {
        name: "headwater_delivery_seconds", kind: "histogram", label: None,
        meaning: "From a transaction's commit, by the database's clock, to the broker's ack, by Headwater's. Only where the \
                  log tells the commit's time: PostgreSQL, MySQL, and MariaDB (in whole seconds).",
        read: Read::Latency,
    },
    Metric {
        name: "headwater_lag_seconds", kind: "gauge", label: None,
        meaning: "How long ago the oldest event that is not delivered was committed; 0 with nothing to do. While the log cannot \
                  be read: at least the time since. What the server has not sent yet cannot be dated: see the bytes. Absent \
                  before the first run, and where the log does not tell the commit's time.",
        read: Read::One(lag_seconds),
    },
    Metric {
        name: "headwater_lag_bytes", kind: "gauge", label: None,
        meaning: "The database's log between the confirmed position and its end, all tables included. The end is looked at \
                  every 5 s; while the log is not read this stays as it was. A quiet pipeline confirms every 10 s. PostgreSQL \
                  only.",
        read: Read::One(|it, _| it.lag_bytes.map(number)),
    },
    Metric {
        name: "headwater_confirmed_position", kind: "gauge", label: None,
        meaning: "The last position that the database was told, in bytes of its log (an LSN as a number). PostgreSQL only.",
        read: Read::One(|it, _| it.confirmed_bytes.map(number)),
    },
    Metric {
        name: "headwater_reconnects_total", kind: "counter", label: Some(("cause", causes)),
        meaning: "How often everything was opened again, or that was tried. `source`: trouble with the database or the lock. \
                  `sink`: trouble with the broker's client. `unanswered`: the broker did not answer for 10 s, and the log was \
                  given up until it did.",
        read: Read::Each(|it| it.tally.reconnects.to_vec()),
    },
];

/// The figures of a pipeline as Prometheus reads them; `now` is in microseconds since 1970.
pub fn text(pipeline: &str, figures: &Figures, now: i64) -> String {
    let mut page = Page {
        text: String::with_capacity(8192),
        pipeline,
    };
    for metric in METRICS {
        page.metric(metric, figures, now);
    }
    page.text
}

struct Page<'a> {
    text: String,
    pipeline: &'a str,
}

impl Page<'_> {
    fn metric(&mut self, metric: &Metric, figures: &Figures, now: i64) {
        let Metric {
            name,
            kind,
            meaning,
            ..
        } = metric;
        self.line(format_args!("# HELP {name} {meaning}"));
        self.line(format_args!("# TYPE {name} {kind}"));
        match metric.read {
            Read::One(read) => {
                if let Some(value) = read(figures, now) {
                    self.sample(name, "", value);
                }
            }
            Read::Each(read) => {
                let Some((label, values)) = metric.label else {
                    return;
                };
                for (value, count) in values().into_iter().zip(read(figures)) {
                    self.sample(name, &format!(",{label}=\"{value}\""), number(count));
                }
            }
            Read::Filtered => {
                for (rule, count) in figures.tally.filtered() {
                    self.sample(name, &format!(",rule=\"{rule}\""), number(count));
                }
            }
            Read::Latency => self.histogram(name, &figures.tally.latency),
        }
    }

    fn histogram(&mut self, name: &str, latency: &Latency) {
        let mut sum = 0;
        let bounds = Latency::BOUNDS.map(|bound| (number(bound) / 1e6).to_string());
        let bounds = bounds.into_iter().chain(["+Inf".to_owned()]);
        for (bound, count) in bounds.zip(latency.counts) {
            sum += count;
            let label = format!(",le=\"{bound}\"");
            self.sample(&format!("{name}_bucket"), &label, number(sum));
        }
        let seconds = number(latency.sum_micros) / 1e6;
        self.sample(&format!("{name}_sum"), "", seconds);
        self.sample(&format!("{name}_count"), "", number(sum));
    }

    fn sample(&mut self, name: &str, labels: &str, value: f64) {
        // A pipeline's name and the labels' values are plain: nothing needs a backslash.
        let pipeline = self.pipeline;
        self.line(format_args!(
            "{name}{{pipeline=\"{pipeline}\"{labels}}} {value}"
        ));
    }

    fn line(&mut self, line: std::fmt::Arguments<'_>) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{line}");
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use headwater_core::filter::Rule;

    use super::*;
    use crate::pipeline::Board;

    fn figures() -> Figures {
        let board = Board::default();
        board.show(|it| {
            it.tally.rows = 12;
            it.tally.skipped[Skip::Update as usize] = 2;
            it.tally.filtered[Rule::Skip(1).index()] = 3;
            it.tally.reconnects[Cause::Unanswered as usize] = 1;
            it.tally.latency.add(1_500);
            it.tally.latency.add(3_000_000);
            it.lag = Lag::Since(1_000_000);
            it.confirmed_bytes = Some(0x16_B374_D848);
        });
        board.watch().borrow().clone()
    }

    #[test]
    fn the_text_is_prometheus() {
        let text = text("shop", &figures(), 3_500_000);
        for line in [
            "# TYPE headwater_rows_total counter",
            "headwater_rows_total{pipeline=\"shop\"} 12",
            "headwater_ready{pipeline=\"shop\"} 0",
            "headwater_skipped_total{pipeline=\"shop\",reason=\"update\"} 2",
            "headwater_skipped_total{pipeline=\"shop\",reason=\"sentinel\"} 0",
            "headwater_filtered_total{pipeline=\"shop\",rule=\"skip[2]\"} 3",
            "headwater_failed_total{pipeline=\"shop\",kind=\"too_large\"} 0",
            "headwater_reconnects_total{pipeline=\"shop\",cause=\"unanswered\"} 1",
            "headwater_delivery_seconds_bucket{pipeline=\"shop\",le=\"0.001\"} 0",
            "headwater_delivery_seconds_bucket{pipeline=\"shop\",le=\"0.0025\"} 1",
            "headwater_delivery_seconds_bucket{pipeline=\"shop\",le=\"2.5\"} 1",
            "headwater_delivery_seconds_bucket{pipeline=\"shop\",le=\"5\"} 2",
            "headwater_delivery_seconds_bucket{pipeline=\"shop\",le=\"+Inf\"} 2",
            "headwater_delivery_seconds_sum{pipeline=\"shop\"} 3.0015",
            "headwater_delivery_seconds_count{pipeline=\"shop\"} 2",
            "headwater_lag_seconds{pipeline=\"shop\"} 2.5",
            "headwater_confirmed_position{pipeline=\"shop\"} 97500059720",
        ] {
            assert!(text.lines().any(|it| it == line), "{line}\n{text}");
        }
        assert!(text.ends_with('\n') && !text.contains("\n\n"));
    }

    #[test]
    fn what_is_not_known_is_left_out() {
        let unknown = Board::default().watch().borrow().clone();
        let text = text("shop", &unknown, 0);
        for name in ["lag_seconds", "lag_bytes", "client_queue"] {
            assert!(!text.contains(&format!("\nheadwater_{name}{{")), "{text}");
        }
    }

    #[test]
    fn every_name_is_there_once_and_as_its_kind_wants_it() {
        let mut seen = BTreeSet::new();
        for metric in METRICS {
            assert!(seen.insert(metric.name), "{} twice", metric.name);
            let is_total = metric.name.ends_with("_total");
            assert_eq!(is_total, metric.kind == "counter", "{}", metric.name);
            assert!(!metric.meaning.contains('\n'), "{}", metric.name);
        }
    }

    const BEGINNING: &str = "# Metrics\n\n\
        Made from the program's own table; do not edit. `HEADWATER_BLESS=1 cargo test -p headwater` writes it anew.\n\n\
        `GET /metrics` at `admin.listen` gives these, for Prometheus. Each has the label `pipeline`, the pipeline's name. Counters \
        begin at 0 with the process. What is not known is left out. [Operations](operations.md#what-to-watch) says what to watch.\n\n\
        | name | kind | further label | meaning |\n|---|---|---|---|\n";

    fn markdown() -> String {
        let mut page = BEGINNING.to_owned();
        for metric in METRICS {
            let label = metric.label.map_or(String::new(), |(label, values)| {
                if label == "version" {
                    return format!("`{label}`");
                }
                format!("`{label}`: {}", values().join(", "))
            });
            let (name, kind, meaning) = (metric.name, metric.kind, metric.meaning);
            writeln!(page, "| `{name}` | {kind} | {label} | {meaning} |").unwrap();
        }
        let bounds = Latency::BOUNDS.map(|bound| (number(bound) / 1e6).to_string());
        writeln!(
            page,
            "\nThe histogram's buckets end at {} s.",
            bounds.join(", ")
        )
        .unwrap();
        page
    }

    #[test]
    fn the_page_lists_every_metric_as_the_program_exports_it() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/metrics.md");
        if std::env::var_os("HEADWATER_BLESS").is_some() {
            std::fs::write(path, markdown()).unwrap();
        }
        let page = std::fs::read_to_string(path).unwrap_or_default();
        assert!(
            page == markdown(),
            "docs/metrics.md differs from the table; write it anew with `HEADWATER_BLESS=1 cargo test -p headwater`"
        );
    }
}
