//! What the Java transforms wrote, byte for byte.

use std::fs;
use std::path::{Path, PathBuf};

use headwater_core::event::{Event, Flag, Text};
use serde_json::Value;

use super::{Avro, FILE, hex, oracle};
use crate::UnknownMembers;

fn fixture(name: &str) -> String {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/contract");
    fs::read_to_string(folder.join(name)).expect("a fixture")
}

fn cases(format: &str) -> Vec<Value> {
    let base: Value = serde_json::from_str(&fixture("base_row.json")).expect("JSON");
    let all = fixture("cases.jsonl");
    let cases = all.lines().map(|line| {
        let mut case: Value = serde_json::from_str(line).expect("JSON");
        let mut row = base.clone();
        if case["record"].is_object() {
            // A whole row: what it leaves out is not in the table.
            return case;
        }
        if let Value::Object(given) = case["row"].take() {
            row.as_object_mut().expect("an object").extend(given);
        }
        case["row"] = row;
        case
    });
    cases.filter(|case| case["format"] == format).collect()
}

fn text<'c>(row: &'c Value, column: &str) -> Text<'c> {
    Text::Plain(row[column].as_str().unwrap_or_default())
}

fn event(row: &Value) -> Event<'_> {
    let micros = |column: &str| row[column].as_i64().unwrap_or_default();
    let optional = |column: &str| row[column].as_str().map(Text::Plain);
    Event {
        id: text(row, "id"),
        namespace: text(row, "namespace"),
        action_id: text(row, "action_id"),
        action_name: text(row, "action_name"),
        action_params: text(row, "action_params"),
        started_date: micros("started_date"),
        completion_date: micros("completion_date"),
        model_id: optional("model_id"),
        model_type: optional("model_type"),
        event_type: text(row, "event_type"),
        payload: text(row, "payload"),
        event_date: micros("event_date"),
        delivered: match &row["delivered"] {
            Value::Number(number) => Flag::Number(number.as_i64().unwrap_or_default()),
            other => Flag::Bool(other == &Value::Bool(true)),
        },
    }
}

struct Outcome {
    bytes: Result<Vec<u8>, String>,
    notices: String,
}

fn played(case: &Value) -> Outcome {
    let schema = case["schema"].to_string();
    let loaded = Avro::from_texts(&[(Path::new(FILE), &schema)], UnknownMembers::Warn);
    let mut avro = match loaded {
        Ok(avro) => avro,
        Err(error) => {
            let (bytes, notices) = (Err(error.to_string()), String::new());
            return Outcome { bytes, notices };
        }
    };
    let bytes = match avro.payload(&event(&case["row"])) {
        Ok(bytes) => Ok(bytes.to_vec()),
        Err(failure) => Err(failure.detail),
    };
    let notices = avro.notices().join("\n");
    Outcome { bytes, notices }
}

fn mentions(case: &Value, key: &str, text: &str) -> Result<(), String> {
    let words = case[key].as_array().map(Vec::as_slice).unwrap_or_default();
    let missing = words
        .iter()
        .filter_map(Value::as_str)
        .find(|word| !text.contains(word));
    missing.map_or(Ok(()), |word| Err(format!("{word:?} is not in {text:?}")))
}

fn same(case: &Value, outcome: &Outcome) -> Result<(), String> {
    match (case["expect"].as_str(), &outcome.bytes) {
        (Some("ok"), Ok(bytes)) if case["expect_payload_hex"] == hex(bytes) => {
            mentions(case, "expect_warning_mentions", &outcome.notices)
        }
        (Some("error"), Err(error)) => {
            mentions(case, "expect_error_mentions", error)?;
            mentions(case, "expect_cause_mentions", error)
        }
        (expected, got) => Err(format!("{expected:?} is expected, got {got:02x?}")),
    }
}

fn strict(case: &Value, outcome: &Outcome) -> Result<(), String> {
    match (case["headwater_expect"].as_str(), &outcome.bytes) {
        (Some("ok"), Ok(bytes)) => {
            let decoded = oracle::decoded(&case["schema"].to_string(), &bytes[10..]);
            if decoded == case["headwater_decoded"] {
                Ok(())
            } else {
                Err(format!("decodes to {decoded}"))
            }
        }
        (Some("error"), Err(error)) => {
            mentions(case, "headwater_error_mentions", error)?;
            let begins = error.starts_with("Failed to encode payload: port.cargo.avro.CrateSealed");
            begins.then_some(()).ok_or_else(|| error.clone())
        }
        (expected, got) => Err(format!("{expected:?} is expected, got {got:02x?}")),
    }
}

fn judged(case: &Value) -> Result<(), String> {
    let outcome = played(case);
    match case["headwater"].as_str() {
        Some("either") if outcome.bytes.is_err() => Ok(()),
        Some("same" | "either") => same(case, &outcome),
        Some("strict") => strict(case, &outcome),
        other => Err(format!("unknown verdict {other:?}")),
    }
}

#[test]
fn every_golden_payload_is_written_as_the_reference_wrote_it() {
    let cases = cases("avro");
    assert_eq!(cases.len(), 109);
    let failed: Vec<String> = cases
        .iter()
        .filter_map(|case| Some(format!("{}: {}", case["id"], judged(case).err()?)))
        .collect();
    assert!(
        failed.is_empty(),
        "{} cases fail:\n{}",
        failed.len(),
        failed.join("\n")
    );
}

#[test]
fn every_golden_payload_decodes_to_what_the_reference_decoded() {
    for case in cases("avro") {
        let is_same = case["headwater"] == "same" && case["expect"] == "ok";
        let schema = case["schema"].to_string();
        // apache-avro reads these logical types with meanings of its own.
        if !is_same || schema.contains("big-decimal") || schema.contains("fixed") {
            continue;
        }
        let bytes = played(&case).bytes.expect("encodes");
        let decoded = oracle::decoded(&schema, &bytes[10..]);
        assert_eq!(decoded, case["expect_decoded"], "{}", case["id"]);
    }
}

#[test]
fn every_golden_message_is_written_as_the_reference_wrote_it() {
    let mut played = 0;
    for case in cases("disposition") {
        let Some(expected) = case["expect_value_hex"]["avro"].as_str() else {
            continue;
        };
        if case["headwater"] != "same" {
            continue;
        }
        let schema = case["schema"]["avro"].to_string();
        let mut avro = super::avro(&schema);
        let bytes = avro.encode(&event(&case["row"])).expect("encodes");
        assert_eq!(hex(bytes), expected, "{}", case["id"]);
        played += 1;
    }
    assert_eq!(played, 10);
}
