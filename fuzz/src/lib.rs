//! What is fuzzed: any payload against the golden schemas, and any schema with any payload. Nothing panics, encoding twice
//! gives the same bytes, and other libraries read them to their end.

use std::cell::RefCell;
use std::path::Path;

use apache_avro::Schema;
use apache_avro::reader::datum::GenericDatumReader;
use headwater_core::event::{Event, Flag, Text};
use headwater_core::failure::Failure;
use headwater_encode::{Avro, Protobuf, UnknownMembers};
use prost_reflect::{DescriptorPool, DynamicMessage, MessageDescriptor};
use serde_json::Value;

thread_local! {
    // At the place that they have in `golden_schemas`, which the corpus counts by.
    static AVRO: RefCell<Vec<Option<(Avro, Schema)>>> = RefCell::new(
        golden_schemas("avro").iter().map(|schema| Some((avro(schema)?, plain(schema)?))).collect(),
    );
    static PROTOBUF: RefCell<Vec<Option<(Protobuf, MessageDescriptor)>>> = RefCell::new(
        golden_schemas("protobuf")
            .iter()
            .map(|schema| Some((protobuf(schema)?, descriptor(schema)?)))
            .collect(),
    );
}

/// The first byte chooses a golden schema, the rest is the payload.
pub fn avro_payload(input: &[u8]) {
    AVRO.with_borrow_mut(|known| {
        if let Some((Some((avro, schema)), payload)) = choice(input, known) {
            let event = event(payload);
            if let Some(bytes) = twice(|| avro.payload(&event).map(<[u8]>::to_vec)) {
                decodes_as_avro(schema, &bytes);
            }
        }
    });
}

/// The same for Protobuf.
pub fn protobuf_payload(input: &[u8]) {
    PROTOBUF.with_borrow_mut(|known| {
        if let Some((Some((protobuf, message)), payload)) = choice(input, known) {
            let event = event(payload);
            if let Some(bytes) = twice(|| protobuf.payload(&event).map(<[u8]>::to_vec)) {
                DynamicMessage::decode(message.clone(), bytes.as_slice()).expect("decodes");
            }
        }
    });
}

/// A schema, and after a zero byte a payload.
pub fn avro_plan(input: &[u8]) {
    let Some((schema, payload)) = pair(input) else {
        return;
    };
    let Some(mut own) = avro(schema) else { return };
    let bytes = own.payload(&event(payload)).map(<[u8]>::to_vec);
    if let (Ok(bytes), Some(schema)) = (bytes, plain(schema)) {
        decodes_as_avro(&schema, &bytes);
    }
}

/// The same for Protobuf.
pub fn protobuf_plan(input: &[u8]) {
    let Some((schema, payload)) = pair(input) else {
        return;
    };
    if let Some(mut own) = protobuf(schema) {
        let _ = own.payload(&event(payload));
    }
}

/// What was encoded, if it could be: the same both times.
fn twice(mut encode: impl FnMut() -> Result<Vec<u8>, Failure>) -> Option<Vec<u8>> {
    let (first, again) = (encode(), encode());
    assert_eq!(first, again);
    first.ok()
}

fn choice<'k, 'i, T>(input: &'i [u8], known: &'k mut [T]) -> Option<(&'k mut T, &'i str)> {
    let (which, payload) = input.split_first()?;
    let which = usize::from(*which) % known.len();
    Some((&mut known[which], std::str::from_utf8(payload).ok()?))
}

fn pair(input: &[u8]) -> Option<(&str, &str)> {
    let middle = input.iter().position(|byte| *byte == 0)?;
    let (schema, payload) = (&input[..middle], &input[middle + 1..]);
    Some((
        std::str::from_utf8(schema).ok()?,
        std::str::from_utf8(payload).ok()?,
    ))
}

/// The schemas of the golden cases are all made for this event type.
fn event(payload: &str) -> Event<'_> {
    Event {
        id: Text::Plain("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a"),
        namespace: Text::Plain("port.cargo"),
        action_id: Text::Plain("9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5"),
        action_name: Text::Plain("SealCrateAction"),
        action_params: Text::Plain("{}"),
        started_date: 0,
        completion_date: 0,
        model_id: None,
        model_type: None,
        event_type: Text::Plain("CrateSealed"),
        payload: Text::Plain(payload),
        event_date: 0,
        delivered: Flag::Bool(false),
    }
}

fn golden_cases(format: &str) -> Vec<Value> {
    let cases = include_str!("../../tests/fixtures/contract/cases.jsonl");
    let cases = cases
        .lines()
        .map(|case| serde_json::from_str(case).expect("a case"));
    cases
        .filter(|case: &Value| case["format"] == format)
        .collect()
}

fn schema_of(case: &Value) -> String {
    match &case["schema"] {
        Value::String(text) => text.clone(),
        object => object.to_string(),
    }
}

/// The schemas of the golden cases of a format, without repeats, in the order of the file.
fn golden_schemas(format: &str) -> Vec<String> {
    let mut schemas = Vec::new();
    for case in golden_cases(format) {
        let schema = schema_of(&case);
        if !schemas.contains(&schema) {
            schemas.push(schema);
        }
    }
    schemas
}

fn avro(schema: &str) -> Option<Avro> {
    Avro::from_texts(&[(Path::new("fuzz.avsc"), schema)], UnknownMembers::Warn).ok()
}

fn protobuf(schema: &str) -> Option<Protobuf> {
    Protobuf::from_texts(&[(Path::new("fuzz.proto"), schema)], UnknownMembers::Warn).ok()
}

fn decodes_as_avro(schema: &Schema, bytes: &[u8]) {
    let reader = GenericDatumReader::builder(schema)
        .build()
        .expect("a reader");
    let mut datum = &bytes[10..];
    reader.read_value(&mut datum).expect("decodes");
    assert!(datum.is_empty(), "{} bytes are left over", datum.len());
}

/// A schema as apache-avro reads it, without what it makes of logical types.
fn plain(schema: &str) -> Option<Schema> {
    let mut schema: Value = serde_json::from_str(schema).ok()?;
    without_logical_types(&mut schema);
    Schema::parse(&schema).ok()
}

fn without_logical_types(schema: &mut Value) {
    match schema {
        Value::Object(object) => {
            object.remove("logicalType");
            object.values_mut().for_each(without_logical_types);
        }
        Value::Array(array) => array.iter_mut().for_each(without_logical_types),
        _ => {}
    }
}

fn descriptor(schema: &str) -> Option<MessageDescriptor> {
    let folder = tempfile::tempdir().ok()?;
    let file = folder.path().join("fuzz.proto");
    std::fs::write(&file, schema).ok()?;
    let files = protox::compile([&file], [folder.path()]).ok()?;
    let pool = DescriptorPool::from_file_descriptor_set(files).ok()?;
    pool.get_message_by_name("port.cargo.proto.CrateSealed")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_target_takes_the_golden_cases() {
        for (format, payload_target, plan_target) in [
            ("avro", avro_payload as fn(&[u8]), avro_plan as fn(&[u8])),
            ("protobuf", protobuf_payload, protobuf_plan),
        ] {
            let schemas = golden_schemas(format);
            for case in golden_cases(format) {
                let Some(payload) = case["row"]["payload"].as_str() else {
                    continue;
                };
                let schema = schema_of(&case);
                let which = schemas
                    .iter()
                    .position(|known| *known == schema)
                    .expect("known");
                let which = u8::try_from(which).expect("one byte chooses");
                payload_target(&[&[which], payload.as_bytes()].concat());
                plan_target(&[schema.as_bytes(), b"\0", payload.as_bytes()].concat());
            }
        }
    }

    #[test]
    fn every_golden_schema_can_be_chosen() {
        AVRO.with_borrow(|known| assert!(known.iter().all(Option::is_some)));
        PROTOBUF.with_borrow(|known| assert!(known.iter().all(Option::is_some)));
    }
}
