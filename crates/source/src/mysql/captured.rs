//! What real servers wrote (`tests/fixtures/binlog`), for tests.

use std::path::PathBuf;

use bytes::Bytes;
use serde_json::Value;

use super::flavor::Flavor;
use super::position::{Layout, LayoutColumn};

pub(super) const SERVERS: [&str; 3] = ["mysql", "mariadb1011", "mariadb118"];

/// One captured file.
pub(super) struct Capture {
    pub server: &'static str,
    pub case: String,
    /// As a server sends them.
    pub events: Vec<Bytes>,
    /// What the server itself said about it.
    pub truth: Vec<Value>,
}

impl Capture {
    pub fn flavor(&self) -> Flavor {
        flavor(self.server)
    }

    /// The table that the case is about.
    pub fn table(&self) -> &'static str {
        match self.case.as_str() {
            "charsets" => "sets",
            "dates" => "dates",
            "wide" => "wide",
            case if case.starts_with("types") => "every",
            "json" | "json_huge" | "json_large" => "docs",
            _ => "events",
        }
    }
}

pub(super) fn flavor(server: &str) -> Flavor {
    if server == "mysql" {
        Flavor::MySql
    } else {
        Flavor::MariaDb
    }
}

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/binlog")
}

pub(super) fn all() -> Vec<Capture> {
    let mut all: Vec<Capture> = Vec::new();
    for server in SERVERS {
        let mut cases: Vec<String> = std::fs::read_dir(folder().join(server))
            .expect("the fixtures")
            .filter_map(|entry| {
                let name = entry.expect("a file").file_name().into_string().ok()?;
                name.strip_suffix(".binlog").map(str::to_owned)
            })
            .collect();
        cases.sort();
        all.extend(cases.into_iter().map(|case| one(server, &case)));
    }
    assert!(all.len() > 80, "{} captures", all.len());
    all
}

pub(super) fn one(server: &'static str, case: &str) -> Capture {
    let place = folder().join(server);
    let file = std::fs::read(place.join(format!("{case}.binlog"))).expect("a capture");
    let truth = std::fs::read_to_string(place.join(format!("{case}.jsonl"))).expect("its truth");
    let parse = |line: &str| serde_json::from_str(line).expect("JSON");
    Capture {
        server,
        case: case.to_owned(),
        events: events(&file),
        truth: truth.lines().map(parse).collect(),
    }
}

/// What the server's own program prints about a case.
pub(super) fn printed(server: &str, case: &str) -> Vec<u8> {
    std::fs::read(folder().join(server).join(format!("{case}.txt"))).expect("what was printed")
}

fn events(file: &[u8]) -> Vec<Bytes> {
    let mut rest = file.strip_prefix(b"\xfebin").expect("a binlog");
    let mut events = Vec::new();
    while !rest.is_empty() {
        let size = u32::from_le_bytes(rest[9..13].try_into().expect("four")) as usize;
        events.push(Bytes::copy_from_slice(&rest[..size]));
        rest = &rest[size..];
    }
    events
}

/// What `information_schema.columns` has about the table of a case, out of its CREATE TABLE.
pub(super) fn layout(server: &str, case: &str) -> Layout {
    let (file, table) = if case.starts_with("types") {
        (folder().join(format!("cases/{case}.sql")), "every")
    } else {
        let name = if server == "mysql" {
            "mysql"
        } else {
            "mariadb"
        };
        let schemas = "../../../schemas/outbox";
        (folder().join(format!("{schemas}/{name}.sql")), "events")
    };
    let text = std::fs::read_to_string(file).expect("its statements");
    let (_, columns) = text
        .split_once(&format!("TABLE eventlog.{table} ("))
        .or(text.split_once(&format!("TABLE IF NOT EXISTS eventlog.{table} (")))
        .expect("a table");
    let mut all = Vec::new();
    for line in columns.lines() {
        let line = line.trim();
        if line.starts_with(')') || line.is_empty() && !all.is_empty() {
            break;
        }
        if line.starts_with("--") {
            continue;
        }
        let Some((name, rest)) = line.trim_end_matches([',', ';']).split_once(' ') else {
            continue;
        };
        all.push(column(server, name, rest.trim()));
        if line.contains(") CHARACTER SET utf8mb4;") {
            break;
        }
    }
    Layout { columns: all }
}

fn column(server: &str, name: &str, rest: &str) -> LayoutColumn {
    let charset = rest
        .split_once("CHARACTER SET ")
        .filter(|_| {
            !rest.contains(") CHARACTER SET utf8mb4;") || rest.contains(") CHARACTER SET ascii")
        })
        .map(|(_, charset)| charset.split([' ', ')', ',']).next().unwrap_or_default());
    let kind = match rest.find(' ') {
        // A list of choices may have spaces.
        _ if rest.starts_with("ENUM") || rest.starts_with("SET") => {
            rest[..=rest.rfind("')").expect("a list") + 1].to_owned()
        }
        _ if rest.contains("UNSIGNED") => rest.to_ascii_lowercase(),
        Some(end) => rest[..end].to_ascii_lowercase(),
        None => rest.to_ascii_lowercase(),
    };
    let kind = match kind.trim_end_matches(')') {
        "boolean" => "tinyint(1)".to_owned(),
        "json" if server != "mysql" => "longtext".to_owned(),
        _ => kind,
    };
    let word = kind
        .split('(')
        .next()
        .unwrap_or_default()
        .to_ascii_lowercase();
    let is_text =
        word.ends_with("char") || word.ends_with("text") || matches!(&*word, "enum" | "set");
    LayoutColumn {
        name: name.to_owned(),
        charset: is_text.then(|| charset.unwrap_or("utf8mb4").to_owned()),
        kind,
    }
}
