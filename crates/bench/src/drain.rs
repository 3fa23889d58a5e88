//! `drain`: a backlog of half a million rows, by PostgreSQL's own reader and by Headwater.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, KafkaOptions, Run};

use crate::Programs;
use crate::backlog::{self, Backlog, Shape};
use crate::figure::Figure;
use crate::meter::{Meter, Used};
use crate::page::{Section, said_by};
use crate::pipeline::{Pipeline, command};
use crate::recvlogical;
use crate::topic::{self, PARTITIONS};

const LIMIT: Duration = Duration::from_mins(5);

/// Those that take part, in the order of their turns.
const READERS: [(&str, Reader); 5] = [
    ("`pg_recvlogical` to /dev/null", Reader::Yardstick),
    ("Headwater to a sink that counts, Avro", Reader::Counting),
    ("Headwater to Kafka, JSON", Reader::Kafka("json")),
    ("Headwater to Kafka, Avro", Reader::Kafka("avro")),
    ("Headwater to Kafka, Protobuf", Reader::Kafka("protobuf")),
];

#[derive(Clone, Copy)]
enum Reader {
    Yardstick,
    Counting,
    Kafka(&'static str),
}

/// What one reader did in one round.
struct Drained {
    /// From the process's start to the last message.
    time: Duration,
    /// From the process's start to the first message, where it can be seen.
    first: Option<Duration>,
    reader: Used,
    walsender: Used,
}

#[derive(Default)]
struct Figures {
    rate: Figure,
    ratio: Figure,
    reader: Figure,
    walsender: Figure,
    peak: Figure,
    first: Figure,
}

pub async fn measure(programs: &Programs, rows: u32, rounds: usize) -> Section {
    let postgres = backlog::server();
    let kafka = Kafka::start_with(&KafkaOptions {
        fast: true,
        ..KafkaOptions::default()
    });
    let version = said_by(
        &postgres.program("postgres").display().to_string(),
        &["--version"],
    );
    let servers = format!("{version}, Apache Kafka with one broker, all on the same machine");
    let mut section = Section::new("Drain", &servers);
    section.line(&format!(
        "{rows} rows of about 800 bytes wait in the log. Everyone reads all of them, in turns, {rounds} rounds; the middle one, and from where to \
         where they went. Rates count from the start of the process. Kafka: `acks=all`, `lz4`, {PARTITIONS} partitions.\n"
    ));
    warm_up(programs, &postgres, &kafka).await;
    for (title, rows_a_transaction) in [
        ("a thousand rows a transaction", 1000),
        ("one row a transaction", 1),
    ] {
        let shape = Shape {
            rows,
            rows_a_transaction,
            sentinels: 0,
        };
        let backlog = Backlog::write(&postgres, shape).await;
        let figures = rounds_of(programs, &backlog, &kafka, rounds).await;
        section.line(&format!(
            "### {}{}\n",
            title[..1].to_uppercase(),
            &title[1..]
        ));
        table(&mut section, &figures);
    }
    section
}

/// Java's compiler has then seen what is to come.
async fn warm_up(programs: &Programs, postgres: &headwater_testkit::Postgres, kafka: &Kafka) {
    let shape = Shape {
        rows: 100_000,
        rows_a_transaction: 1000,
        sentinels: 0,
    };
    let backlog = Backlog::write(postgres, shape).await;
    // After two of these a profile still showed it on a fifth of the machine.
    for _ in 0..6 {
        by_headwater(programs, &backlog, "json", Some(kafka)).await;
    }
}

async fn rounds_of(
    programs: &Programs,
    backlog: &Backlog<'_>,
    kafka: &Kafka,
    rounds: usize,
) -> Vec<Figures> {
    let mut figures: Vec<Figures> = READERS.iter().map(|_| Figures::default()).collect();
    for _ in 0..rounds {
        let mut yardstick = 0.0;
        for ((name, reader), figures) in READERS.iter().zip(&mut figures) {
            let drained = match reader {
                Reader::Yardstick => by_recvlogical(backlog).await,
                Reader::Counting => by_headwater(programs, backlog, "avro", None).await,
                Reader::Kafka(format) => by_headwater(programs, backlog, format, Some(kafka)).await,
            };
            let events = f64::from(backlog.events);
            let rate = events / drained.time.as_secs_f64();
            if matches!(reader, Reader::Yardstick) {
                yardstick = rate;
            }
            let micros = |used: Used| used.cpu.as_secs_f64() * 1e6 / events;
            figures.rate.add(rate / 1000.0);
            figures.ratio.add(rate / yardstick);
            figures.reader.add(micros(drained.reader));
            figures.walsender.add(micros(drained.walsender));
            figures.peak.add(f64::from(drained.reader.peak_kb) / 1024.0);
            if let Some(first) = drained.first {
                figures.first.add(first.as_secs_f64() * 1000.0);
            }
            eprintln!(
                "{name}: {:.0} rows/s, {:.2} of the yardstick, {:.1} + {:.1} µs",
                rate,
                rate / yardstick,
                micros(drained.reader),
                micros(drained.walsender)
            );
        }
    }
    figures
}

async fn by_recvlogical(backlog: &Backlog<'_>) -> Drained {
    let took = recvlogical::drain(backlog, "bench_filter", false).await;
    Drained {
        time: took.time,
        first: None,
        reader: took.reader,
        walsender: took.walsender,
    }
}

/// To Kafka, or to the sink that counts.
async fn by_headwater(
    programs: &Programs,
    backlog: &Backlog<'_>,
    format: &str,
    kafka: Option<&Kafka>,
) -> Drained {
    let slot = backlog.slot().await;
    let name = headwater_testkit::unique("bench");
    let pipeline = Pipeline {
        name: &name,
        url: backlog.database.url(),
        slot: &slot,
        publication: "bench_filter",
        format,
        kafka,
    };
    let binary = if kafka.is_some() {
        &programs.headwater
    } else {
        &programs.counting
    };
    let headwater = pipeline.program(binary);
    command(&headwater, "adopt");
    if let Some(kafka) = kafka {
        kafka
            .create_topic(&pipeline.topic(), PARTITIONS, 1, &[])
            .await;
    }
    let begun = Instant::now();
    let mut run = headwater.spawn(&["run"]);
    let reader = Meter::begin(run.pid());
    let walsender = Meter::begin(backlog.walsender().await);
    let (first, last) = match kafka {
        Some(kafka) => {
            let (brokers, topic, events) = (kafka.brokers(), pipeline.topic(), backlog.events);
            let filling = move || topic::fill(&brokers, &topic, events.into(), LIMIT);
            let filled = tokio::task::spawn_blocking(filling).await.unwrap();
            (filled.first, filled.last)
        }
        None => (
            counted(&mut run, 1).await,
            counted(&mut run, backlog.events).await,
        ),
    };
    let (reader, walsender) = (reader.end(), walsender.end());
    let (code, _) = run.term_and_wait(LIMIT);
    assert_eq!(code, 0, "{}", run.log());
    if let Some(kafka) = kafka {
        kafka.delete_topic(&pipeline.topic()).await;
    }
    backlog.drop_slot(&slot).await;
    Drained {
        time: last - begun,
        first: Some(first - begun),
        reader,
        walsender,
    }
}

/// When the sink that counts has told this number.
async fn counted(run: &mut Run, messages: u32) -> Instant {
    let told = run
        .wait_for_log(&format!("\"messages\":{messages}}}"), LIMIT)
        .await;
    assert!(told, "{messages} were not counted: {}", run.log());
    Instant::now()
}

fn table(section: &mut Section, figures: &[Figures]) {
    let header = [
        "",
        "of `pg_recvlogical`",
        "thousand rows/s",
        "its CPU, µs a row",
        "walsender's CPU, µs a row",
        "peak memory, MB",
        "first message, ms",
    ];
    let rows: Vec<Vec<String>> = READERS
        .iter()
        .zip(figures)
        .map(|((name, _), it)| {
            vec![
                (*name).to_owned(),
                it.ratio.shown(2).to_string(),
                it.rate.shown(0).to_string(),
                it.reader.shown(1).to_string(),
                it.walsender.shown(1).to_string(),
                it.peak.shown(0).to_string(),
                it.first.shown(0).to_string(),
            ]
        })
        .collect();
    section.table(&header, &rows);
}
