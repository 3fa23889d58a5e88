//! What the whole encoder does with payloads.

mod hostile;
mod property;
mod recorded;
mod rules;
mod schemas;

use std::path::Path;

use headwater_core::event::{Event, Text};
use headwater_core::failure::Failure;

use super::Protobuf;
use crate::notice::UnknownMembers;
use crate::tests::{self, hex};

/// An event of `port.cargo`, with this type and payload.
fn event<'r>(event_type: &'r str, payload: &'r str) -> Event<'r> {
    Event {
        event_type: Text::Plain(event_type),
        ..tests::event(payload)
    }
}

/// An encoder for one text, which is the file `crate.proto`.
fn encoder(text: &str) -> Protobuf {
    Protobuf::from_texts(&[(Path::new("crate.proto"), text)], UnknownMembers::Warn)
        .expect("a schema")
}

/// proto3, package `port.cargo.proto`, the well-known types imported.
fn proto3_text(body: &str) -> String {
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
    format!("syntax = \"proto3\";\npackage port.cargo.proto;\n{imports}{body}")
}

fn proto3(body: &str) -> Protobuf {
    encoder(&proto3_text(body))
}

fn proto2(body: &str) -> Protobuf {
    encoder(&format!(
        "syntax = \"proto2\";\npackage port.cargo.proto;\n{body}"
    ))
}

/// The payload of a `CrateSealed`, in hexadecimal digits.
fn payload(encoder: &mut Protobuf, payload: &str) -> Result<String, String> {
    let told = |failure: Failure| failure.detail;
    encoder
        .payload(&event("CrateSealed", payload))
        .map(hex)
        .map_err(told)
}
