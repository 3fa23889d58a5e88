//! What the whole encoder does with payloads.

mod golden;
mod hostile;
mod property;
mod rules;
mod schemas;

use std::path::Path;

use headwater_core::event::{Event, Flag, Text};
use headwater_core::failure::Failure;

use super::Protobuf;
use crate::notice::UnknownMembers;

/// An event of `port.cargo`, with this type and payload.
fn event<'r>(event_type: &'r str, payload: &'r str) -> Event<'r> {
    Event {
        id: Text::Plain("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a"),
        namespace: Text::Plain("port.cargo"),
        action_id: Text::Plain("9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5"),
        action_name: Text::Plain("SealCrateAction"),
        action_params: Text::Plain("{\"dock\": 12, \"seal\": \"Q-88\"}"),
        started_date: 1_781_234_567_000_123,
        completion_date: 1_781_234_567_450_789,
        model_id: Some(Text::Plain("crate-4410")),
        model_type: Some(Text::Plain("Crate")),
        event_type: Text::Plain(event_type),
        payload: Text::Plain(payload),
        event_date: 1_781_234_567_450_789,
        delivered: Flag::Bool(false),
    }
}

/// An encoder for one text, which is the file `crate.proto`.
fn encoder(text: &str) -> Protobuf {
    Protobuf::from_texts(&[(Path::new("crate.proto"), text)], UnknownMembers::Warn)
        .expect("a schema")
}

/// proto3, package `port.cargo.proto`, the well-known types imported.
fn proto3(body: &str) -> Protobuf {
    let imports = [
        "any",
        "duration",
        "empty",
        "field_mask",
        "struct",
        "timestamp",
        "wrappers",
    ]
    .map(|name| format!("import \"google/protobuf/{name}.proto\";\n"))
    .concat();
    encoder(&format!(
        "syntax = \"proto3\";\npackage port.cargo.proto;\n{imports}{body}"
    ))
}

fn proto2(body: &str) -> Protobuf {
    encoder(&format!(
        "syntax = \"proto2\";\npackage port.cargo.proto;\n{body}"
    ))
}

fn hex(bytes: &[u8]) -> String {
    let digits = b"0123456789abcdef";
    let digit = |value: u8| char::from(digits[usize::from(value)]);
    let pairs = bytes
        .iter()
        .map(|byte| [digit(byte >> 4), digit(byte & 15)]);
    pairs.flatten().collect()
}

/// The payload of a `CrateSealed`, in hexadecimal digits.
fn payload(encoder: &mut Protobuf, payload: &str) -> Result<String, String> {
    let told = |failure: Failure| failure.detail;
    encoder
        .payload(&event("CrateSealed", payload))
        .map(hex)
        .map_err(told)
}
