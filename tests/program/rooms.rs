//! A word has one room: what may be named where (docs/ARCHITECTURE.md, "How a line knows its room").

use std::path::{Path, PathBuf};

/// A word, and the places (beginnings of paths below `crates/`) that may say it outside tests.
const ROOMS: &[(&str, &[&str])] = &[
    ("rdkafka::", &["sink/src/kafka", "bearer/src/lib.rs"]),
    ("unsafe", &["bearer/src/lib.rs"]),
    ("pgwire_replication", &["source/src/postgres/stream.rs"]),
    ("mysql_common", &["source/src/mysql/login.rs"]),
    ("mysql_async", &[]),
    (
        "rusqlite",
        &[
            "source/src/sqlite",
            "headwater/src/demo/",
            "headwater/src/cli/demo.rs",
        ],
    ),
    (
        "rustls",
        &[
            "source/src/tls.rs",
            "source/src/wire.rs",
            "sink/src/kafka/endpoint.rs",
        ],
    ),
    ("apache_avro", &[]),
    ("prost", &["encode/src/protobuf"]),
    ("protox", &["encode/src/protobuf"]),
    ("glob::", &["headwater/src/config"]),
    ("std::env", &["headwater/src/config"]),
    ("SystemTime::now", &["headwater/src/clock.rs"]),
    ("println!", &["headwater/src/cli"]),
    (".confirm(", &["headwater/src/pipeline/run"]),
    ("tokio", &["source/", "sink/", "headwater/"]),
    ("tracing::", &["source/", "sink/", "headwater/"]),
    (
        "hyper",
        &[
            "headwater/src/admin",
            "headwater/src/cli/status.rs",
            "sink/src/kafka/endpoint.rs",
        ],
    ),
    // The end of every counter's name: what is measured is named in one table.
    ("_total", &["headwater/src/metrics.rs"]),
    ("CREATE PUBLICATION", &["source/src/postgres/setup"]),
];

#[test]
fn every_word_stays_in_its_rooms() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut strays = Vec::new();
    for file in rust_files(&crates) {
        let place = file.strip_prefix(&crates).expect("below crates/");
        let place = place.to_str().expect("a plain name").to_owned();
        // What is never part of the program may say what it needs.
        let beside = place.starts_with("testkit") || place.starts_with("bench");
        if beside || !place.contains("/src/") || place.contains("test") {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a readable file");
        for (word, rooms) in ROOMS {
            let at_home = rooms.iter().any(|room| place.starts_with(room));
            if !at_home && said_outside_tests_and_comments(&text, word) {
                strays.push(format!("{place} says {word}"));
            }
        }
    }
    assert!(strays.is_empty(), "{}", strays.join("\n"));
}

fn said_outside_tests_and_comments(text: &str, word: &str) -> bool {
    let code = text
        .split("#[cfg(test)]\nmod tests {")
        .next()
        .unwrap_or_default();
    code.lines()
        .map(|line| line.split("//").next().unwrap_or_default())
        .any(|line| line.contains(word))
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).expect("a readable folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            files.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
    files
}

#[test]
fn the_siblings_do_not_know_each_other() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for (package, may_use) in [
        ("core", &[][..]),
        ("encode", &["core"]),
        ("source", &["core"]),
        ("bearer", &[]),
        ("sink", &["core", "bearer"]),
        ("headwater", &["core", "encode", "source", "sink"]),
    ] {
        let manifest =
            std::fs::read_to_string(crates.join(package).join("Cargo.toml")).expect("a manifest");
        let dependencies = manifest
            .split("[dependencies]")
            .nth(1)
            .and_then(|rest| rest.split("[dev-dependencies]").next())
            .unwrap_or_default();
        for sibling in ["core", "encode", "source", "sink", "bearer", "testkit"] {
            let named = dependencies.contains(&format!("headwater-{sibling}"));
            assert!(
                !named || may_use.contains(&sibling),
                "{package} depends on {sibling}"
            );
        }
    }
}
