//! The encoder as a whole: golden cases, properties, hostile payloads, schema files. Beside them what all of these need.

mod golden;
mod hostile;
mod oracle;
mod payloads;
mod properties;
mod schemas;

use std::fmt::Write;
use std::path::Path;

use headwater_core::event::{Event, Flag, Text};

use super::Avro;
use crate::UnknownMembers;

pub(super) const FILE: &str = "events/CrateSealed.avsc";

fn avro(schema: &str) -> Avro {
    Avro::from_texts(&[(Path::new(FILE), schema)], UnknownMembers::Warn).expect("a schema")
}

/// A record with one field, `qty`.
fn one_field(field_type: &str) -> String {
    format!(
        r#"{{"type":"record","name":"CrateSealed","namespace":"port.cargo.avro","fields":[{{"name":"qty","type":{field_type}}}]}}"#
    )
}

fn event(payload: &str) -> Event<'_> {
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
        event_type: Text::Plain("CrateSealed"),
        payload: Text::Plain(payload),
        event_date: 1_781_234_567_450_789,
        delivered: Flag::Bool(false),
    }
}

/// The payload without its header, or why it cannot be written.
fn written(avro: &mut Avro, payload: &str) -> Result<Vec<u8>, String> {
    match avro.payload(&event(payload)) {
        Ok(bytes) => Ok(bytes[10..].to_vec()),
        Err(failure) => Err(failure.detail),
    }
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}
