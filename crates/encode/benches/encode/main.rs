//! What encoding one row costs, beside the libraries' generic paths, over the same rows in one run (`scripts/bench encode`).

// What goes wrong here is a mistake in the benchmark.
#![allow(clippy::expect_used)]

mod rows;

use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::time::Duration;

use apache_avro::Schema;
use apache_avro::writer::datum::GenericDatumWriter;
use criterion::Criterion;
use headwater_encode::{Avro, Encoder, Json, JsonStyle, Protobuf, UnknownMembers};
use prost_reflect::prost::Message as _;
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};

/// What is promised of one measurement: at most so many nanoseconds, and so many times as fast as the other way.
struct Goal {
    what: &'static str,
    nanoseconds: Option<f64>,
    other: Option<(&'static str, f64)>,
}

const GOALS: [Goal; 7] = [
    Goal {
        what: "envelope/avro",
        nanoseconds: Some(150.0),
        other: Some(("envelope/apache-avro", 5.0)),
    },
    Goal {
        what: "envelope/protobuf",
        nanoseconds: Some(150.0),
        other: Some(("envelope/prost-reflect", 2.0)),
    },
    Goal {
        what: "payload/avro",
        nanoseconds: Some(1500.0),
        other: Some(("payload/apache-avro", 5.0)),
    },
    Goal {
        what: "payload/protobuf",
        nanoseconds: Some(2500.0),
        other: Some(("payload/prost-reflect", 2.0)),
    },
    Goal {
        what: "payload with dates and money/avro",
        nanoseconds: Some(1500.0),
        other: None,
    },
    Goal {
        what: "payload with dates and money/protobuf",
        nanoseconds: Some(2500.0),
        other: None,
    },
    Goal {
        what: "row/json",
        nanoseconds: None,
        other: None,
    },
];

fn avro(schema: &str) -> Avro {
    let texts = [(Path::new("bench.avsc"), schema)];
    Avro::from_texts(&texts, UnknownMembers::Fail).expect("a schema")
}

fn protobuf(schema: &str) -> Protobuf {
    let texts = [(Path::new("bench.proto"), schema)];
    Protobuf::from_texts(&texts, UnknownMembers::Fail).expect("a schema")
}

fn main() {
    // What an earlier run measured is not to stand beside this one's figures.
    let _ = std::fs::remove_dir_all(figures());
    let mut criterion = Criterion::default()
        .configure_from_args()
        .warm_up_time(Duration::from_secs(1))
        .measurement_time(Duration::from_secs(3));
    envelopes(&mut criterion);
    payloads(&mut criterion);
    dates_and_money(&mut criterion);
    let mut json = Encoder::Json(Json::new(JsonStyle::Embedded));
    measure(&mut criterion, "row/json", || {
        black_box(json.encode(&rows::event(rows::PLAIN))).is_ok()
    });
    criterion.final_summary();
    report();
    allocations();
}

/// A round that fails would be quick: it says whether it went well.
fn measure(criterion: &mut Criterion, what: &str, mut round: impl FnMut() -> bool) {
    assert!(round(), "{what} fails");
    criterion.bench_function(what, |bencher| bencher.iter(|| black_box(round())));
}

/// The envelope alone: an event whose payload is the empty object of a type without fields.
fn envelopes(criterion: &mut Criterion) {
    let event = rows::event("{}");
    let mut own = Encoder::Avro(avro(rows::EMPTY_AVRO));
    measure(criterion, "envelope/avro", || {
        black_box(own.encode(&event)).is_ok()
    });
    let schema = Schema::parse_str(rows::AVRO_ENVELOPE).expect("the envelope");
    let writer = writer(&schema);
    measure(criterion, "envelope/apache-avro", || {
        let written = writer.write_value_to_vec(rows::avro_envelope(&event));
        black_box(written).is_ok()
    });
    let mut own = Encoder::Protobuf(protobuf(rows::EMPTY_PROTOBUF));
    measure(criterion, "envelope/protobuf", || {
        black_box(own.encode(&event)).is_ok()
    });
    let message = descriptor(rows::PROTOBUF_ENVELOPE, rows::ENVELOPE_NAME);
    measure(criterion, "envelope/prost-reflect", || {
        let written = rows::protobuf_envelope(&message, &event).encode_to_vec();
        !black_box(written).is_empty()
    });
}

fn payloads(criterion: &mut Criterion) {
    let event = rows::event(rows::PLAIN);
    let mut own = avro(rows::PLAIN_AVRO);
    measure(criterion, "payload/avro", || {
        black_box(own.payload(&event)).is_ok()
    });
    let schema = Schema::parse_str(rows::PLAIN_AVRO).expect("a schema");
    let writer = writer(&schema);
    measure(criterion, "payload/apache-avro", || {
        let json = serde_json::from_str(&event.payload).expect("is JSON");
        let value = rows::avro_value(json).resolve(&schema).expect("fits");
        black_box(writer.write_value_to_vec(value)).is_ok()
    });
    let mut own = protobuf(rows::PLAIN_PROTOBUF);
    measure(criterion, "payload/protobuf", || {
        black_box(own.payload(&event)).is_ok()
    });
    let message = descriptor(rows::PLAIN_PROTOBUF, rows::NAME_PROTOBUF);
    measure(criterion, "payload/prost-reflect", || {
        let mut json = serde_json::Deserializer::from_str(&event.payload);
        let read = DynamicMessage::deserialize(message.clone(), &mut json);
        !black_box(read.expect("fits").encode_to_vec()).is_empty()
    });
}

/// What the generic Avro path cannot do by itself, so without another beside it.
fn dates_and_money(criterion: &mut Criterion) {
    let event = rows::event(rows::RICH);
    let mut own = avro(rows::RICH_AVRO);
    measure(criterion, "payload with dates and money/avro", || {
        black_box(own.payload(&event)).is_ok()
    });
    let mut own = protobuf(rows::RICH_PROTOBUF);
    measure(criterion, "payload with dates and money/protobuf", || {
        black_box(own.payload(&event)).is_ok()
    });
}

fn writer(schema: &Schema) -> GenericDatumWriter<'_> {
    let writer = GenericDatumWriter::builder(schema).build();
    writer.expect("a writer")
}

fn descriptor(schema: &str, name: &str) -> MessageDescriptor {
    let folder = tempfile::tempdir().expect("a folder");
    let file = folder.path().join("bench.proto");
    std::fs::write(&file, schema).expect("a file");
    let files = protox::compile([&file], [folder.path()]).expect("compiles");
    let pool = DescriptorPool::from_file_descriptor_set(files).expect("a set");
    pool.get_message_by_name(name).expect("the message")
}

/// The medians that criterion has just measured, against the goals and as ratios.
fn report() {
    println!("\n{:40} {:>10} {:>10}   beside", "", "median", "goal");
    for goal in &GOALS {
        let Some(own) = median(goal.what) else {
            continue;
        };
        let (goal_told, within) = match goal.nanoseconds {
            Some(most) if own > most => (format!("{most:.0} ns"), "  MISSED"),
            Some(most) => (format!("{most:.0} ns"), ""),
            None => (String::new(), ""),
        };
        let beside = goal.other.and_then(|(other, aim)| {
            let ratio = median(other)? / own;
            let missed = if ratio < aim { ", MISSED" } else { "" };
            Some(format!(
                "{ratio:.1} times as fast as {other} (aim {aim}{missed})"
            ))
        });
        println!(
            "{:40} {own:>7.0} ns {goal_told:>10}{within}   {}",
            goal.what,
            beside.unwrap_or_default()
        );
    }
}

fn median(of: &str) -> Option<f64> {
    let file = figures().join(of.replace('/', "_"));
    let text = std::fs::read_to_string(file.join("new/estimates.json")).ok()?;
    let estimates: serde_json::Value = serde_json::from_str(&text).ok()?;
    estimates["median"]["point_estimate"].as_f64()
}

/// Where criterion puts them.
fn figures() -> PathBuf {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or("../../target".into());
    PathBuf::from(target).join("criterion")
}

/// After the buffers have grown, a row allocates nothing.
fn allocations() {
    println!("\nallocations in 1000 rows");
    let mut encoders = [
        ("avro", Encoder::Avro(avro(rows::PLAIN_AVRO)), rows::PLAIN),
        (
            "avro, dates and money",
            Encoder::Avro(avro(rows::RICH_AVRO)),
            rows::RICH,
        ),
        (
            "protobuf",
            Encoder::Protobuf(protobuf(rows::PLAIN_PROTOBUF)),
            rows::PLAIN,
        ),
        (
            "protobuf, dates and money",
            Encoder::Protobuf(protobuf(rows::RICH_PROTOBUF)),
            rows::RICH,
        ),
        (
            "json",
            Encoder::Json(Json::new(JsonStyle::Embedded)),
            rows::PLAIN,
        ),
    ];
    for (what, encoder, payload) in &mut encoders {
        let event = rows::event(payload);
        assert!(encoder.encode(&event).is_ok(), "{what}");
        let counted = allocation_counter::measure(|| {
            for _ in 0..1000 {
                let _ = black_box(encoder.encode(&event));
            }
        });
        println!("{what:40} {:>10}", counted.count_total);
        assert_eq!(counted.count_total, 0, "{what}: a row allocates");
    }
}
