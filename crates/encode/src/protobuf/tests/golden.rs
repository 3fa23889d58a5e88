//! The golden cases: what the Java transforms wrote, byte for byte.

use std::collections::HashMap;
use std::fs;
use std::path::Path;

use headwater_core::event::{Event, Flag, Text};
use serde_json::Value;

use super::hex;
use crate::notice::UnknownMembers;
use crate::protobuf::Protobuf;

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/contract");
    fs::read_to_string(folder.join(name)).expect("the fixture is there")
}

/// A column of the case's row, else of the base row.
fn column<'c>(case: &'c Value, base: &'c Value, name: &str) -> &'c Value {
    case["row"].get(name).unwrap_or(&base[name])
}

fn text<'c>(case: &'c Value, base: &'c Value, name: &str) -> Option<Text<'c>> {
    column(case, base, name).as_str().map(Text::Plain)
}

fn row<'c>(case: &'c Value, base: &'c Value) -> Event<'c> {
    let text = |name| text(case, base, name);
    let needed = |name| text(name).expect("text");
    let date = |name| column(case, base, name).as_i64().expect("a date");
    Event {
        id: needed("id"),
        namespace: needed("namespace"),
        action_id: needed("action_id"),
        action_name: needed("action_name"),
        action_params: needed("action_params"),
        started_date: date("started_date"),
        completion_date: date("completion_date"),
        model_id: text("model_id"),
        model_type: text("model_type"),
        event_type: needed("event_type"),
        payload: needed("payload"),
        event_date: date("event_date"),
        delivered: match column(case, base, "delivered") {
            Value::Number(number) => Flag::Number(number.as_i64().expect("an integer")),
            other => Flag::Bool(other == &Value::Bool(true)),
        },
    }
}

fn words<'c>(case: &'c Value, keys: &[&str]) -> Vec<&'c str> {
    let lists = keys.iter().filter_map(|key| case[key].as_array());
    lists.flatten().filter_map(Value::as_str).collect()
}

/// What went wrong, if anything did.
fn judge(case: &Value, base: &Value) -> Result<(), String> {
    let schema = case["schema"].as_str().expect("a schema");
    let texts = [(Path::new("crate.proto"), schema)];
    let mut encoder =
        Protobuf::from_texts(&texts, UnknownMembers::Warn).map_err(|e| e.to_string())?;
    let event = row(case, base);
    let got = encoder
        .payload(&event)
        .map(hex)
        .map_err(|failure| failure.detail);
    let wanted = case["expect_payload_hex"].as_str();
    let is_strict = case["headwater"] == "strict";
    let expect = if is_strict {
        &case["headwater_expect"]
    } else {
        &case["expect"]
    };
    match (got, expect.as_str()) {
        (Ok(got), Some("ok")) if Some(&*got) == wanted => Ok(()),
        (Ok(got), _) => Err(format!("wrote {got}, {wanted:?} is wanted")),
        (Err(_), Some("ok")) if case["headwater"] == "either" => Ok(()),
        (Err(told), Some("error")) => {
            let words = if is_strict {
                words(case, &["headwater_error_mentions"])
            } else {
                words(case, &["expect_error_mentions", "expect_cause_mentions"])
            };
            match words.iter().find(|word| !told.contains(**word)) {
                Some(word) => Err(format!("{told} does not mention {word}")),
                None => Ok(()),
            }
        }
        (Err(told), _) => Err(format!("failed: {told}")),
    }
}

fn cases(format: &str) -> Vec<Value> {
    let cases = fixture("cases.jsonl");
    let cases = cases
        .lines()
        .map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    cases.filter(|case| case["format"] == format).collect()
}

#[test]
fn every_golden_case_gives_the_bytes_or_the_failure_of_the_reference() {
    let base: Value = serde_json::from_str(&fixture("base_row.json")).expect("JSON");
    let cases = cases("protobuf");
    assert!(cases.len() > 60, "only {} cases", cases.len());
    let wrong: Vec<String> = cases
        .iter()
        .filter_map(|case| {
            judge(case, &base)
                .err()
                .map(|why| format!("{}: {why}", case["id"]))
        })
        .collect();
    assert!(
        wrong.is_empty(),
        "{} of {} cases:\n{}",
        wrong.len(),
        cases.len(),
        wrong.join("\n")
    );
}

/// Which rows are published at all is not this crate's to say; only what is published is compared.
#[test]
fn whole_messages_are_those_of_the_reference() {
    let mut compared = 0;
    for case in cases("disposition") {
        let Some(wanted) = case["expect_value_hex"]["protobuf"].as_str() else {
            continue;
        };
        if case["headwater"] != "same" {
            continue;
        }
        let schema = case["schema"]["protobuf"].as_str().expect("a schema");
        let mut encoder = super::encoder(schema);
        // These rows are whole: a column that is not there is not in the table.
        let bytes = encoder.encode(&row(&case, &Value::Null)).expect("encodes");
        assert_eq!(hex(bytes), wanted, "{}", case["id"]);
        compared += 1;
    }
    assert!(compared >= 10, "only {compared} cases");
}

const NAMES: &str = "{ string seal_code = 1; repeated int32 some_list = 2; map<string,int32> some_map = 3; \
    optional int32 opt_num = 4; Leg some_leg = 5; google.protobuf.Value some_val = 6; oneof o { int32 one_a = 7; \
    string one_b = 8; google.protobuf.NullValue one_n = 9; google.protobuf.Value one_v = 10; Hazard one_e = 11;} \
    Hazard some_enum = 12; double some_double = 13; google.protobuf.Int32Value some_wrap = 300; int32 foo_1bar = 14; \
    int32 foo__baz = 15; int32 _lead = 16; int32 trail_ = 17; int32 Upper = 18; google.protobuf.Struct some_struct = 19; \
    google.protobuf.Timestamp some_time = 20; }";

/// What protobuf-java 4.28.3's `JsonFormat` itself made of payloads: syntax, message, payload, and the bytes or `error`.
#[test]
fn recorded_payloads_give_the_bytes_or_the_failure_of_the_reference() {
    let records = fixture("jsonformat.tsv");
    let mut encoders: HashMap<(&str, &str), Protobuf> = HashMap::new();
    let mut wrong = Vec::new();
    for record in records.lines() {
        let [syntax, body, json, wanted] = record.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{record}");
        };
        let encoder = encoders.entry((syntax, body)).or_insert_with(|| {
            let body = if body == "NAMES" { NAMES } else { body };
            match syntax {
                "proto2" => super::proto2(&format!(
                    "enum Hazard {{ HAZARD_NONE = 1; FLAMMABLE = 2; TOXIC = 4; }}\n\
                     message Leg {{ required string port = 1; optional Leg next = 2; }}\nmessage CrateSealed {body}"
                )),
                _ => super::proto3(&format!(
                    "enum Hazard {{ option allow_alias = true; HAZARD_NONE = 0; FLAMMABLE = 1; TOXIC = 4; NIL = 0; POISON = 4; NEG = -1; }}\n\
                     message Leg {{ string port = 1; Leg next = 2; repeated Leg legs = 3; }}\nmessage CrateSealed {body}"
                )),
            }
        });
        let got = super::payload(encoder, json);
        if got.as_deref().unwrap_or("error") != wanted {
            wrong.push(format!("{record}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}

/// The envelope of case D001, as the contract's section 4 has it.
#[test]
fn the_envelope_is_that_of_the_reference() {
    let wanted = concat!(
        "0a2433663061396236322d376331642d346535382d613662342d306439653866376336623561120a706f72742e636172676f1a24396432653463",
        "37302d353162382d346633612d386336642d653766316132623363346435220f5365616c4372617465416374696f6e2a1c7b22646f636b223a2031",
        "322c20227365616c223a2022512d3838227d320a0887f7add10610f8c0073a0c0887f7add1061088fdf9d601420a63726174652d343431304a0543",
        "72617465520b43726174655365616c65645a040a026f6b620c0887f7add1061088fdf9d601"
    );
    let mut encoder = super::proto3("message CrateSealed { string note = 1; }");
    let event = super::event("CrateSealed", "{\"note\": \"ok\"}");
    let bytes = encoder.encode(&event).expect("encodes");
    assert_eq!(hex(bytes), wanted);
}
