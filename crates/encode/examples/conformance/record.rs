//! A case's record as the row that a source would have handed over.
//!
//! Rule: units of other programs (Debezium's milliseconds, days, nanoseconds) are converted here, where a source would have
//! done so; such cases judge what becomes of the row afterwards.

use std::sync::Arc;

use bytes::Bytes;
use headwater_core::row::{Change, Row, Table, Value};
use serde_json::{Map, Value as Json};

/// The row of a case; none where no log has a row (a tombstone, an operation that no database knows).
pub fn row(case: &Json, base: &Map<String, Json>) -> Result<Option<Row>, String> {
    let record = &case["record"];
    if !is_known(record) {
        return Err(format!("nobody knows the shape {}", record["shape"]));
    }
    if record["shape"] == "tombstone"
        || record["after_null"] == true
        || case["row"].is_null() && record.get("columns").is_none()
    {
        return Ok(None);
    }
    let change = match record.get("op") {
        None | Some(Json::Null) => Change::Insert,
        Some(op) => match op.as_str() {
            Some("c") => Change::Insert,
            Some("r") => Change::Read,
            Some("u") => Change::Update,
            Some("d") => Change::Delete,
            Some("t") => Change::Truncate,
            _ => return Ok(None),
        },
    };
    if let Some(columns) = record.get("columns").and_then(Json::as_object) {
        return Ok(Some(foreign(record, columns, change)));
    }
    outbox(case, base, change).map(Some)
}

/// Has it a shape that a database's log can give?
pub fn is_known(record: &Json) -> bool {
    let shape = record["shape"].as_str().unwrap_or("envelope");
    ["envelope", "foreign", "tombstone"].contains(&shape)
}

fn outbox(case: &Json, base: &Map<String, Json>, change: Change) -> Result<Row, String> {
    let record = &case["record"];
    let columns = case["row"].as_object().ok_or("its row is no object")?;
    let mut columns = columns.clone();
    if case["format"] != "disposition" {
        for (name, value) in base {
            columns.entry(name).or_insert_with(|| value.clone());
        }
    }
    let cell = |(name, value): (&String, &Json)| cell(name, value, &record["column_types"][name]);
    Ok(Row {
        change,
        cells: columns.iter().map(cell).collect(),
        table: Arc::new(Table {
            schema: "eventlog".into(),
            name: "events".into(),
            columns: columns.keys().cloned().collect(),
        }),
    })
}

/// A row of another table, named as the reference names its schema.
fn foreign(record: &Json, columns: &Map<String, Json>, change: Change) -> Row {
    let name = record["row_schema_name"].as_str().unwrap_or("public.other");
    let (schema, name) = name.rsplit_once('.').unwrap_or(("public", name));
    let cell = |(name, column): (&String, &Json)| cell(name, &column["value"], column);
    Row {
        change,
        cells: columns.iter().map(cell).collect(),
        table: Arc::new(Table {
            schema: schema.into(),
            name: name.into(),
            columns: columns.keys().cloned().collect(),
        }),
    }
}

fn cell(column: &str, value: &Json, declared: &Json) -> Value {
    let declared_type = declared["type"].as_str().unwrap_or_default();
    // Whatever the key is called: a logical type's name has segments, a column's type has none.
    let named = |(key, named): (&String, &Json)| {
        let named = (key != "value").then(|| named.as_str().map(str::to_owned))?;
        named.filter(|named| named.contains('.'))
    };
    let logical = declared
        .as_object()
        .and_then(|keys| keys.iter().find_map(named));
    let logical = logical.as_deref();
    match value {
        Json::Null => Value::Null,
        Json::Bool(bool) => Value::Bool(*bool),
        Json::Number(number) => match number.as_i64() {
            Some(number) if column.ends_with("_date") => date(number, declared_type, logical),
            Some(number) => Value::Int(number),
            None => Value::Unreadable("is beyond 64 bits".into()),
        },
        Json::String(text) if declared_type == "BYTES" => match hex(text) {
            Some(bytes) => Value::Bytes(Bytes::from(bytes)),
            None => Value::Unreadable("is no hexadecimal text".into()),
        },
        Json::String(text) if logical == Some("io.debezium.time.ZonedTimestamp") => zoned(text),
        Json::String(text) => Value::Text(text.as_str().into()),
        Json::Array(_) | Json::Object(_) => Value::Unreadable("is no column's value".into()),
    }
}

/// The units in which Debezium and Connect count; a source of Headwater counts in microseconds only.
fn date(number: i64, declared_type: &str, logical: Option<&str>) -> Value {
    let micros = match logical {
        None if declared_type.is_empty() => Some(number),
        Some("io.debezium.time.MicroTimestamp") => Some(number),
        Some("io.debezium.time.NanoTimestamp") => Some(number / 1000),
        Some("io.debezium.time.Timestamp" | "org.apache.kafka.connect.data.Timestamp") => {
            number.checked_mul(1000)
        }
        Some("io.debezium.time.Date" | "org.apache.kafka.connect.data.Date") => {
            number.checked_mul(86_400_000_000)
        }
        // A bare number has no unit.
        None | Some(_) => return Value::Int(number),
    };
    match micros {
        Some(micros) => Value::Micros(micros),
        None => Value::Unreadable("is beyond 64-bit microseconds".into()),
    }
}

/// `2026-06-12T05:22:47[.450789123](Z|+02:00)` in microseconds, finer digits cut.
fn zoned(text: &str) -> Value {
    match micros(text) {
        Some(micros) => Value::Micros(micros),
        None => Value::Unreadable(format!("is no date and time with a zone: {text:?}")),
    }
}

fn micros(text: &str) -> Option<i64> {
    let number = |from: usize, to: usize| -> Option<i64> {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse().ok())?
    };
    let is_marked = |at: usize, mark: u8| text.as_bytes().get(at) == Some(&mark);
    let marks = [(4, b'-'), (7, b'-'), (10, b'T'), (13, b':'), (16, b':')];
    if !marks.into_iter().all(|(at, mark)| is_marked(at, mark)) {
        return None;
    }
    let days = headwater_core::instant::days(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let seconds = number(11, 13)? * 3600 + number(14, 16)? * 60 + number(17, 19)?;
    let zone = text.rfind(['Z', '+', '-']).filter(|zone| *zone >= 19)?;
    let fraction = text.get(19..zone)?.strip_prefix('.').unwrap_or_default();
    let fraction = format!("{fraction:0<6.6}").parse::<i64>().ok()?;
    let offset = match &text[zone..] {
        "Z" => 0,
        _ => number(zone + 1, zone + 3)? * 3600 + number(zone + 4, zone + 6)? * 60,
    };
    let ahead = if is_marked(zone, b'-') {
        -offset
    } else {
        offset
    };
    Some((days * 86_400 + seconds - ahead) * 1_000_000 + fraction)
}

pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair.get(1)?).ok();
    digits.chunks(2).map(byte).collect()
}
