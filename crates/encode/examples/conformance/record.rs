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
    match record["shape"].as_str() {
        None | Some("envelope" | "foreign") => {}
        Some("tombstone") => return Ok(None),
        Some(other) => return Err(format!("nobody knows the shape {other:?}")),
    }
    if record["after_null"] == true || case["row"].is_null() && record.get("columns").is_none() {
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
    let logical = ["name", "logical", "schema_name"];
    let logical = logical.iter().find_map(|key| declared[*key].as_str());
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

pub fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Vec<u32> = text
        .chars()
        .map(|c| c.to_digit(16))
        .collect::<Option<_>>()?;
    let byte = |pair: &[u32]| u8::try_from(pair[0] * 16 + pair.get(1)?).ok();
    digits.chunks(2).map(byte).collect()
}
