//! The encoder as a whole: payloads, properties, hostile payloads, schema files. Beside them what all of these need.

mod hostile;
mod oracle;
mod payloads;
mod properties;
mod schemas;

use std::path::Path;

use super::Avro;
use crate::UnknownMembers;
use crate::tests::{event, hex};

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

/// The payload without its header, or why it cannot be written.
fn written(avro: &mut Avro, payload: &str) -> Result<Vec<u8>, String> {
    match avro.payload(&event(payload)) {
        Ok(bytes) => Ok(bytes[10..].to_vec()),
        Err(failure) => Err(failure.detail),
    }
}
