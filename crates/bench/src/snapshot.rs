//! `snapshot`: a million rows that are in the table already, by the server's own client and by Headwater; and how long it takes to
//! compare them with their topic.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, KafkaOptions, unique};

use crate::Programs;
use crate::figure::Figure;
use crate::meter::{Meter, Used};
use crate::page::Section;
use crate::pipeline::{Pipeline, command};
use crate::stock::{self, Stock, Store, Words};
use crate::topic::PARTITIONS;

const LIMIT: Duration = Duration::from_mins(10);

#[derive(Default)]
struct Figures {
    rate: Figure,
    ratio: Figure,
    cpu: Figure,
    peak: Figure,
}

/// What one reading took.
struct Took {
    time: Duration,
    used: Used,
}

pub async fn measure(programs: &Programs, store: &impl Store, rows: u32, rounds: usize) -> Section {
    let (version, words) = (store.version().await, store.words());
    let servers = format!("{version}, on the same machine");
    let mut section = Section::new(words.title, &servers);
    section.line(&format!(
        "{rows} rows of about 800 bytes are in the table. The server's own client writes all of them to /dev/null, in the order of a snapshot; Headwater \
         (`snapshot = \"only\"`, Avro) encodes each and hands it to a sink that counts. In turns, {rounds} rounds; the middle one, and from where to where \
         they went. Rates are of the whole process, from its start to its end.\n"
    ));
    let stock = store.stock(rows).await;
    let titles = ["Sorted by the server", "With an index on (event_date, id)"];
    for (title, indexed) in titles.into_iter().zip([false, true]) {
        if indexed {
            stock::index(&stock).await;
        }
        // The files are then in the system's cache for both.
        by_own(stock.own()).await;
        let mut figures = [Figures::default(), Figures::default()];
        for _ in 0..rounds {
            round(programs, &stock, rows, &mut figures).await;
        }
        section.line(&format!("### {title}\n"));
        table(&mut section, &words, &figures);
    }
    audit(&mut section, programs, &stock, rows).await;
    section
}

/// Once: what it costs is told in seconds, and no yardstick does the same.
async fn audit(section: &mut Section, programs: &Programs, stock: &impl Stock, rows: u32) {
    let kafka = Kafka::start_with(&KafkaOptions {
        fast: true,
        ..KafkaOptions::default()
    });
    let took = by_audit(programs, stock, &kafka, rows).await;
    let (seconds, peak) = (
        took.time.as_secs_f64(),
        f64::from(took.used.peak_kb) / 1024.0,
    );
    section.line(&format!(
        "`headwater audit` then compared these {rows} rows with their topic on Apache Kafka ({PARTITIONS} partitions) in {seconds:.1} s, with \
         {:.1} s of its CPU and {peak:.0} MB of memory at most.\n",
        took.used.cpu.as_secs_f64()
    ));
}

async fn by_audit(programs: &Programs, stock: &impl Stock, kafka: &Kafka, rows: u32) -> Took {
    let name = unique("bench");
    let pipeline = Pipeline {
        name: &name,
        source: stock.source(),
        snapshot: "only",
        format: "avro",
        kafka: Some(kafka),
        routes: 1,
    };
    kafka
        .create_topic(&pipeline.topic(), PARTITIONS, 1, &[])
        .await;
    let headwater = pipeline.program(&programs.headwater);
    command(&headwater, "init");
    let mut run = headwater.spawn(&["run"]);
    assert_eq!(run.wait(LIMIT), Some(0), "{}", run.log());
    let begun = Instant::now();
    let mut audit = headwater.spawn(&["audit"]);
    let used = Meter::begin(audit.pid());
    let code = audit.wait(LIMIT);
    let time = begun.elapsed();
    assert_eq!(code, Some(0), "{}{}", audit.stdout(), audit.log());
    let all = format!("{rows:>12} on the topics");
    assert!(audit.stdout().contains(&all), "{}", audit.stdout());
    stock.end(&name).await;
    Took {
        time,
        used: used.end(),
    }
}

/// One turn of each.
async fn round(programs: &Programs, stock: &impl Stock, rows: u32, figures: &mut [Figures; 2]) {
    let took = [
        by_own(stock.own()).await,
        by_headwater(programs, stock, rows).await,
    ];
    let rate = |took: &Took| f64::from(rows) / took.time.as_secs_f64();
    let yardstick = rate(&took[0]);
    for (took, figures) in took.iter().zip(figures) {
        let micros = took.used.cpu.as_secs_f64() * 1e6 / f64::from(rows);
        let peak = f64::from(took.used.peak_kb) / 1024.0;
        figures.rate.add(rate(took) / 1000.0);
        figures.ratio.add(rate(took) / yardstick);
        figures.cpu.add(micros);
        figures.peak.add(peak);
        eprintln!(
            "{:.0} rows/s, {:.2} of the yardstick, {micros:.1} µs, {peak:.0} MB",
            rate(took),
            rate(took) / yardstick
        );
    }
}

async fn by_own(mut command: Command) -> Took {
    let program = command.get_program().display().to_string();
    let begun = Instant::now();
    let spawned = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn();
    let mut reader = spawned.unwrap_or_else(|e| panic!("{program}: {e}"));
    let used = Meter::begin(reader.id());
    let status = tokio::task::spawn_blocking(move || reader.wait()).await;
    let time = begun.elapsed();
    assert!(status.unwrap().unwrap().success(), "{program} failed");
    Took {
        time,
        used: used.end(),
    }
}

async fn by_headwater(programs: &Programs, stock: &impl Stock, rows: u32) -> Took {
    let name = unique("bench");
    let pipeline = Pipeline {
        name: &name,
        source: stock.source(),
        snapshot: "only",
        format: "avro",
        routes: 1,
        kafka: None,
    };
    let headwater = pipeline.program(&programs.counting);
    command(&headwater, "init");
    let begun = Instant::now();
    let mut run = headwater.spawn(&["run"]);
    let used = Meter::begin(run.pid());
    let code = run.wait(LIMIT);
    let time = begun.elapsed();
    assert_eq!(code, Some(0), "{}", run.log());
    let all = format!("\"messages\":{rows}}}");
    assert!(run.log().contains(&all), "not all: {}", run.log());
    stock.end(&name).await;
    Took {
        time,
        used: used.end(),
    }
}

fn table(section: &mut Section, words: &Words, figures: &[Figures; 2]) {
    let header = [
        "",
        "of the client",
        "thousand rows/s",
        "its CPU, µs a row",
        "peak memory, MB",
    ];
    let names = [
        format!("{} to /dev/null", words.own),
        "Headwater to a sink that counts, Avro".to_owned(),
    ];
    let rows: Vec<Vec<String>> = names
        .into_iter()
        .zip(figures)
        .map(|(name, it)| {
            vec![
                name,
                it.ratio.shown(2).to_string(),
                it.rate.shown(0).to_string(),
                it.cpu.shown(1).to_string(),
                it.peak.shown(0).to_string(),
            ]
        })
        .collect();
    section.table(&header, &rows);
}
