//! docs/configuration.md, made from the table of keys.

use std::fmt::Write;

use super::{Fallback, KEYS, Key, Kind, SMALLEST, State};

const INTRODUCTION: &str = r"# Configuration

Made from the program's own table of keys; do not edit. `HEADWATER_BLESS=1 cargo test -p headwater` writes it anew.

Headwater reads one TOML file: the one named by `--config`, else `headwater.toml`, else `/etc/headwater/headwater.toml`.
The smallest useful one:

```toml
";

const RULES: &str = r#"```

- Every key can be given by the environment, which wins over the file: `HEADWATER__`, the section, two underscores, the key,
  in capitals (`HEADWATER__SINK__BROKERS`, `HEADWATER__NAME`, `HEADWATER__SINK__MAX_IN_FLIGHT__BYTES`). In the names of
  `sink.properties` an underscore stands for a dot (`HEADWATER__SINK__PROPERTIES__SECURITY_PROTOCOL`). The items of a list stand
  between commas (`HEADWATER__ENCODE__SCHEMAS=a.avsc,more/*.avsc`). An unknown name after `HEADWATER__` is an error; names with
  one underscore (`HEADWATER_PORT`) do not matter.
- `${NAME}` inside a string of the file is replaced by that environment variable; a missing one is an error. `$${` is a
  plain `${`. What the environment gave is taken as it is.
- Relative paths are relative to the file's folder.
- Durations are numbers with a unit: `200ms`, `30s`, `5m`, `1h`. Sizes are bytes, or have one of the units kB, MB, GB (1000),
  KiB, MiB, GiB (1024).
- At most one way to give the password: in the url, `password`, `password_file` or `password_command`. Secrets are never
  printed; they are shown as `***`.
- Whatever is wrong ends the program with exit code 2 and one line a problem: file, line, key, what is wrong and what is
  wanted. An unknown key is told the nearest known one. A setting marked "not built yet" is refused, never ignored.
"#;

/// The whole page.
fn markdown() -> String {
    let mut page = format!("{INTRODUCTION}{SMALLEST}{RULES}");
    let mut section = None;
    for key in KEYS {
        let (first, rest) = key.path.split_once('.').unwrap_or(("", key.path));
        if section != Some(first) {
            section = Some(first);
            heading(&mut page, first);
        }
        row(&mut page, key, rest);
    }
    page
}

fn heading(page: &mut String, section: &str) {
    let title = match section {
        "" => "At the top".to_owned(),
        "route" => "`[[route]]`".to_owned(),
        _ => format!("`[{section}]`"),
    };
    write!(page, "\n## {title}\n\n").unwrap();
    if section == "route" {
        page.push_str("One or more; each that takes an event makes a message of it. See [routing](routing.md).\n\n");
    }
    page.push_str("| key | type | default | meaning |\n|---|---|---|---|\n");
}

fn row(page: &mut String, key: &Key, name: &str) {
    let meaning = match key.state {
        State::Built => key.meaning.to_owned(),
        State::NotYet(_) => format!("*Not built yet.* {}", key.meaning),
    };
    let cells = [format!("`{name}`"), kind(key.kind), fallback(key), meaning];
    let cells = cells.map(|cell| cell.replace('|', "\\|"));
    writeln!(page, "| {} |", cells.join(" | ")).unwrap();
}

fn kind(kind: Kind) -> String {
    match kind {
        Kind::Text => "string".to_owned(),
        Kind::Path => "path".to_owned(),
        Kind::Integer => "whole number".to_owned(),
        Kind::Bool => "true or false".to_owned(),
        Kind::Duration => "duration".to_owned(),
        Kind::Size => "size".to_owned(),
        Kind::List => "list of strings".to_owned(),
        Kind::Map => "table".to_owned(),
        Kind::Condition => "table of lists".to_owned(),
        Kind::Conditions => "list of tables of lists".to_owned(),
        Kind::Word { built, later: [] } => words(built),
        Kind::Word { built: [], later } => words(later),
        Kind::Word { built, later } => {
            format!("{}; not built yet: {}", words(built), words(later))
        }
    }
}

fn words(words: &[&str]) -> String {
    let words: Vec<_> = words.iter().map(|word| format!("`{word}`")).collect();
    words.join(", ")
}

fn fallback(key: &Key) -> String {
    match key.fallback {
        Fallback::Required => "required".to_owned(),
        Fallback::Value(value) => format!("`{value}`"),
        Fallback::Said(text) => text.to_owned(),
    }
}

#[test]
fn the_page_lists_every_key_as_the_program_knows_it() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    if std::env::var_os("HEADWATER_BLESS").is_some() {
        std::fs::write(path, markdown()).unwrap();
    }
    let page = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        page == markdown(),
        "docs/configuration.md differs from the table of keys; write it anew with \
         `HEADWATER_BLESS=1 cargo test -p headwater`"
    );
}
