//! What `mysqlbinlog -vv` and `mariadb-binlog -vv` print of a log, beside what is decoded from it.
//!
//! Not compared, because nothing is decoded of them: FLOAT, DOUBLE, DECIMAL, BIT of several bits, TIME, geometries,
//! compressed columns, zero dates and numbers beyond 63 bits (whatever stands behind them agrees only if they were passed
//! over rightly). Printed with a loss: integers do not say whether they have a sign, so one of two numbers must be ours;
//! trailing zeros of BINARY are missing; the year 0 is 1900; ENUM and SET are numbers, which are looked up in the table's statement; MySQL's
//! program gives a row up at its first geometry.

use std::collections::BTreeSet;

use super::*;

/// One `@n=value /* TYPE ... */`.
struct Cell {
    place: usize,
    value: Vec<u8>,
    kind: String,
}

/// The cells of each inserted row.
fn printed(text: &[u8]) -> Vec<Vec<Cell>> {
    let mut rows: Vec<Vec<Cell>> = Vec::new();
    let mut inserted = false;
    for line in text.split(|byte| *byte == b'\n') {
        let Some(line) = line.strip_prefix(b"### ") else {
            continue;
        };
        if let Some(cell) = line.strip_prefix(b"  @") {
            if let (true, Some(cell)) = (inserted, cell_of(cell)) {
                rows.last_mut().expect("a row").push(cell);
            }
        } else if line != b"SET" {
            inserted = line.starts_with(b"INSERT");
            if inserted {
                rows.push(Vec::new());
            }
        }
    }
    rows
}

/// None of what the program does not know.
fn cell_of(line: &[u8]) -> Option<Cell> {
    const COMMENT: &[u8] = b" /* ";
    let equals = line.iter().position(|byte| *byte == b'=')?;
    let end = line.windows(4).rposition(|window| window == COMMENT)?;
    let kind = String::from_utf8_lossy(&line[end + 4..]);
    Some(Cell {
        place: std::str::from_utf8(&line[..equals]).ok()?.parse().ok()?,
        value: line[equals + 1..end].trim_ascii_end().to_vec(),
        kind: kind.split(" meta=").next()?.to_owned(),
    })
}

/// What stands in quotes. `\x0a` is a byte; MySQL's program also puts a backslash before quotes and backslashes, MariaDB's does not.
fn unquoted(value: &[u8], flavor: Flavor) -> Vec<u8> {
    let inside = value.strip_prefix(b"'").and_then(|v| v.strip_suffix(b"'"));
    let mut rest = inside.unwrap_or(value);
    let mut bytes = Vec::new();
    loop {
        let (byte, behind) = match rest {
            [] => return bytes,
            [b'\\', b'x', high, low, behind @ ..] => {
                let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex");
                let byte = digit(*high) * 16 + digit(*low);
                (u8::try_from(byte).expect("a byte"), behind)
            }
            [b'\\', byte, behind @ ..] if flavor == Flavor::MySql => (*byte, behind),
            [byte, behind @ ..] => (*byte, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
}

/// The names of an ENUM or a SET that a number stands for.
fn chosen(value: &str, kind: &str, column: &str) -> String {
    let names = column.split_once("('").map_or("", |(_, names)| names);
    let names: Vec<&str> = names.trim_end_matches("')").split("','").collect();
    if kind.starts_with("ENUM") {
        let number: usize = value.parse().expect("a number");
        return number.checked_sub(1).map_or("", |at| names[at]).to_owned();
    }
    // The lowest byte first, but of each the highest bit.
    let bits = value.trim_start_matches("b'").trim_end_matches('\'');
    let bits = bits.as_bytes().chunks(8).flat_map(|byte| byte.iter().rev());
    let chosen = names.iter().zip(bits).filter(|(_, bit)| **bit == b'1');
    chosen
        .map(|(name, _)| *name)
        .collect::<Vec<&str>>()
        .join(",")
}

/// A date as the program prints it, with all six digits.
fn moment(text: &str, kind: &str) -> String {
    if kind.starts_with("TIMESTAMP") {
        let (seconds, fraction) = text.split_once('.').unwrap_or((text, ""));
        let micros = format!("{seconds}{fraction:0<6}")
            .parse()
            .expect("a number");
        return Instant(micros).to_string();
    }
    if kind == "DATE" {
        return format!("{}T00:00:00.000000Z", text.replace(':', "-"));
    }
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    format!("{}.{fraction:0<6}Z", clock.replace(' ', "T"))
}

/// Whether both say the same; nothing where nothing was decoded.
fn agree(ours: &Value, cell: &Cell, column: &str, flavor: Flavor) -> Option<bool> {
    let text = String::from_utf8_lossy(&cell.value).into_owned();
    let bytes = unquoted(&cell.value, flavor);
    let plain = || String::from_utf8_lossy(&bytes);
    Some(match ours {
        Value::Unreadable(_) => return None,
        Value::Null | Value::Absent => text == "NULL",
        Value::Bool(bit) => text == format!("b'{}'", u8::from(*bit)),
        Value::Int(0) if cell.kind == "YEAR" => text == "1900",
        Value::Int(number) => {
            let number = number.to_string();
            let mut readings = text.split(' ').map(|one| one.trim_matches(['(', ')']));
            readings.any(|one| one == number)
        }
        Value::Text(ours) if cell.kind.starts_with("ENUM") || cell.kind.starts_with("SET") => {
            **ours == *chosen(&text, &cell.kind, column)
        }
        Value::Text(ours) if cell.kind.starts_with("JSON") => {
            let json = |text: &str| serde_json::from_str::<Json>(text).expect("JSON");
            json(ours) == json(&plain())
        }
        Value::Text(ours) => *ours.as_bytes() == bytes,
        Value::Bytes(ours) => {
            let rest = ours.strip_prefix(&bytes[..]);
            rest.is_some_and(|rest| rest.iter().all(|byte| *byte == 0))
        }
        Value::Micros(micros) => Instant(*micros).to_string() == moment(&plain(), &cell.kind),
        Value::Uuid(_) => unreachable!("no column is known to be one"),
    })
}

#[test]
fn what_is_decoded_is_what_the_servers_programs_print() {
    let mut compared = 0;
    let mut wrong = Vec::new();
    let mut passed_over = BTreeSet::new();
    for server in captured::SERVERS {
        for case in ["dates".to_owned(), format!("types_{server}")] {
            let capture = captured::one(server, &case);
            let columns = match &*case {
                "dates" => Vec::new(),
                _ => captured::layout(server, &case).columns,
            };
            let (items, error) = items(&mut reading(&capture, None), &capture.events);
            assert_eq!(error, None, "{server} {case}");
            let (ours, theirs) = (inserts(&items), printed(&captured::printed(server, &case)));
            assert_eq!(ours.len(), theirs.len(), "{server} {case}");
            for (ours, theirs) in ours.into_iter().zip(theirs) {
                for cell in theirs {
                    let column = columns
                        .get(cell.place - 1)
                        .map_or("", |column| &column.kind);
                    let ours = &ours.cells[cell.place - 1];
                    match agree(ours, &cell, column, capture.flavor()) {
                        Some(true) => compared += 1,
                        None => drop(passed_over.insert(family(&cell.kind))),
                        Some(false) => {
                            let theirs = String::from_utf8_lossy(&cell.value);
                            let (place, kind) = (cell.place, &cell.kind);
                            wrong.push(format!(
                                "{server} {case} @{place} {kind}: {ours:?}, not {theirs}"
                            ));
                        }
                    }
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(compared > 1000, "{compared}");
    let passed_over: Vec<&str> = passed_over.iter().map(String::as_str).collect();
    let expected = "BIT,BLOB/TEXT COMPRESSED,DATETIME,DECIMAL,DOUBLE,FLOAT,GEOMETRY,LONGINT,TIME,TIMESTAMP,\
                    VARSTRING COMPRESSED";
    assert_eq!(passed_over.join(","), expected);
}

/// `DECIMAL(10,2)` without its size.
fn family(kind: &str) -> String {
    let (name, rest) = kind.split_once('(').unwrap_or((kind, ""));
    format!(
        "{name}{}",
        rest.split_once(')').map_or("", |(_, rest)| rest)
    )
}
