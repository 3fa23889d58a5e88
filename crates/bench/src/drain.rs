//! `drain`: a backlog of half a million rows, by the server's own readers and by Headwater.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, KafkaOptions, Run};

use crate::Programs;
use crate::backlog::{Backlog, Host, Shape, Words};
use crate::figure::Figure;
use crate::meter::{Meter, Used};
use crate::page::Section;
use crate::pipeline::Pipeline;
use crate::topic::{self, Filled, PARTITIONS};
use crate::yardstick::Took;

const LIMIT: Duration = Duration::from_mins(5);

/// Those of Headwater that take part, in the order of their turns.
const HEADWATER: [(&str, Reader); 4] = [
    ("Headwater to a sink that counts, Avro", Reader::Counting),
    ("Headwater to Kafka, JSON", Reader::Kafka("json")),
    ("Headwater to Kafka, Avro", Reader::Kafka("avro")),
    ("Headwater to Kafka, Protobuf", Reader::Kafka("protobuf")),
];

#[derive(Clone, Copy)]
enum Reader {
    /// The server's, with these options.
    Own(&'static [&'static str]),
    Counting,
    Kafka(&'static str),
}

/// One that takes part.
struct Entrant {
    name: String,
    reader: Reader,
    routes: u32,
    figures: Figures,
}

#[derive(Default)]
struct Figures {
    rate: Figure,
    ratio: Figure,
    reader: Figure,
    sender: Figure,
    peak: Figure,
    first: Figure,
}

pub async fn measure(
    programs: &Programs,
    host: &impl Host,
    (rows, rounds): (u32, usize),
    routes: u32,
) -> Section {
    let kafka = Kafka::start_with(&KafkaOptions {
        fast: true,
        ..KafkaOptions::default()
    });
    let (version, words) = (host.version().await, host.words());
    let servers = format!("{version}, Apache Kafka with one broker, all on the same machine");
    let title = match routes {
        1 => words.title.to_owned(),
        _ => format!("{}, {routes} routes", words.title),
    };
    let mut section = Section::new(&title, &servers);
    section.line(&format!(
        "{rows} rows of about {} bytes wait in the log. Everyone reads all of them, in turns, {rounds} rounds; the middle one, and from where to \
         where they went. Rates count from the start of the process. Kafka: `acks=all`, `lz4`, {PARTITIONS} partitions.\n",
        words.row_bytes
    ));
    if routes > 1 {
        section.line(&format!(
            "Each row goes to one topic by one route, or to {routes} by as many.\n"
        ));
    }
    if !words.remark.is_empty() {
        section.line(&format!("{}\n", words.remark));
    }
    warm_up(programs, host, &kafka, rows).await;
    for (title, rows_a_transaction) in [
        ("a thousand rows a transaction", 1000),
        ("one row a transaction", 1),
    ] {
        let shape = Shape {
            rows,
            rows_a_transaction,
            sentinels: 0,
        };
        let backlog = host.backlog(programs, shape).await;
        let mut entrants = match routes {
            1 => entrants(&words),
            _ => by_routes(routes),
        };
        for _ in 0..rounds {
            round(programs, &backlog, &kafka, &mut entrants).await;
        }
        section.line(&format!(
            "### {}{}\n",
            title[..1].to_uppercase(),
            &title[1..]
        ));
        table(&mut section, &words, &entrants);
    }
    section
}

/// Java's compiler has then seen what is to come.
async fn warm_up(programs: &Programs, host: &impl Host, kafka: &Kafka, rows: u32) {
    let shape = Shape {
        rows: rows.min(100_000),
        rows_a_transaction: 1000,
        sentinels: 0,
    };
    let backlog = host.backlog(programs, shape).await;
    // After two of these a profile still showed it on a fifth of the machine.
    for _ in 0..6 {
        by_headwater(programs, &backlog, ("json", 1), Some(kafka)).await;
    }
}

fn entrants(words: &Words) -> Vec<Entrant> {
    let own = words.own.iter();
    let own = own.map(|it| (format!("{} to /dev/null", it.name), Reader::Own(it.options)));
    let headwater = HEADWATER.map(|(name, reader)| (name.to_owned(), reader));
    own.chain(headwater)
        .map(|(name, reader)| Entrant {
            name,
            reader,
            routes: 1,
            figures: Figures::default(),
        })
        .collect()
}

/// Headwater with one route, and with several: what each further message of an event costs.
fn by_routes(routes: u32) -> Vec<Entrant> {
    let entrant = |(name, reader): (&str, Reader), routes| Entrant {
        name: format!(
            "{name}, {routes} route{}",
            if routes == 1 { "" } else { "s" }
        ),
        reader,
        routes,
        figures: Figures::default(),
    };
    let headwater = HEADWATER.into_iter();
    headwater
        .flat_map(|it| [entrant(it, 1), entrant(it, routes)])
        .collect()
}

/// One turn of each; the first one is the yardstick.
async fn round(
    programs: &Programs,
    backlog: &impl Backlog,
    kafka: &Kafka,
    entrants: &mut [Entrant],
) {
    let mut yardstick = None;
    for Entrant {
        name,
        reader,
        routes,
        figures,
    } in entrants
    {
        let took = match reader {
            Reader::Own(options) => backlog.by_own(options).await,
            Reader::Counting => by_headwater(programs, backlog, ("avro", *routes), None).await,
            Reader::Kafka(format) => {
                by_headwater(programs, backlog, (format, *routes), Some(kafka)).await
            }
        };
        let events = f64::from(backlog.events());
        let rate = events / took.time.as_secs_f64();
        let ratio = rate / *yardstick.get_or_insert(rate);
        let micros = |used: Used| used.cpu.as_secs_f64() * 1e6 / events;
        let (own, sender) = (micros(took.reader), micros(took.sender));
        figures.rate.add(rate / 1000.0);
        figures.ratio.add(ratio);
        figures.reader.add(own);
        figures.sender.add(sender);
        figures.peak.add(f64::from(took.reader.peak_kb) / 1024.0);
        if let Some(first) = took.first {
            figures.first.add(first.as_secs_f64() * 1000.0);
        }
        eprintln!(
            "{name}: {rate:.0} rows/s, {ratio:.2} of the yardstick, {own:.1} + {sender:.1} µs"
        );
    }
}

/// To Kafka, or to the sink that counts.
async fn by_headwater(
    programs: &Programs,
    backlog: &impl Backlog,
    (format, routes): (&str, u32),
    kafka: Option<&Kafka>,
) -> Took {
    let name = headwater_testkit::unique("bench");
    let pipeline = Pipeline {
        name: &name,
        source: backlog.source(&name),
        snapshot: "never",
        format,
        routes,
        kafka,
    };
    let binary = if kafka.is_some() {
        &programs.headwater
    } else {
        &programs.counting
    };
    let headwater = pipeline.program(binary);
    backlog.begin(&pipeline, &headwater).await;
    if let Some(kafka) = kafka {
        for topic in pipeline.topics() {
            kafka.create_topic(&topic, PARTITIONS, 1, &[]).await;
        }
    }
    let begun = Instant::now();
    let mut run = headwater.spawn(&["run"]);
    let reader = Meter::begin(run.pid());
    let sender = backlog.sender().await;
    let (first, last) = match kafka {
        Some(kafka) => {
            let (brokers, topics, events) = (kafka.brokers(), pipeline.topics(), backlog.events());
            let filling = move || {
                let fill = |topic: &String| topic::fill(&brokers, topic, events.into(), LIMIT);
                topics.iter().map(fill).collect::<Vec<Filled>>()
            };
            let filled = tokio::task::spawn_blocking(filling).await.unwrap();
            let last = filled.iter().map(|it| it.last).max();
            (filled[0].first, last.unwrap())
        }
        None => (
            counted(&mut run, 1).await,
            counted(&mut run, backlog.events() * routes).await,
        ),
    };
    let (reader, sender) = (reader.end(), sender.end());
    let (code, _) = run.term_and_wait(LIMIT);
    assert_eq!(code, 0, "{}", run.log());
    if let Some(kafka) = kafka {
        for topic in pipeline.topics() {
            kafka.delete_topic(&topic).await;
        }
    }
    backlog.end(&name).await;
    Took {
        time: last - begun,
        first: Some(first - begun),
        reader,
        sender,
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

fn table(section: &mut Section, words: &Words, entrants: &[Entrant]) {
    let yardstick = match entrants.first() {
        Some(Entrant {
            name,
            reader: Reader::Own(_),
            ..
        }) => {
            format!("of {}", name.trim_end_matches(" to /dev/null"))
        }
        _ => "of the first".to_owned(),
    };
    let header = [
        "",
        &yardstick,
        "thousand rows/s",
        "its CPU, µs a row",
        &format!("{}'s CPU, µs a row", words.sender),
        "peak memory, MB",
        "first message, ms",
    ];
    let rows: Vec<Vec<String>> = entrants
        .iter()
        .map(
            |Entrant {
                 name, figures: it, ..
             }| {
                vec![
                    name.clone(),
                    it.ratio.shown(2).to_string(),
                    it.rate.shown(0).to_string(),
                    it.reader.shown(1).to_string(),
                    it.sender.shown(1).to_string(),
                    it.peak.shown(0).to_string(),
                    it.first.shown(0).to_string(),
                ]
            },
        )
        .collect();
    section.table(&header, &rows);
}
