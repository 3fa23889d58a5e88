//! From an event to bytes.
//!
//! Never: wait, log, know Kafka or a database. Schema files are read once, when an encoder is made.

mod avro;
mod bindings;
mod buffer;
mod document;
mod error;
mod json;
mod names;
mod notice;
mod number;
mod protobuf;
#[cfg(test)]
mod tests;
mod unfit;
mod varint;

use std::path::PathBuf;

use headwater_core::band::ShortId;
use headwater_core::event::Event;
use headwater_core::failure::Failure;
use headwater_core::message::Content;

pub use avro::Avro;
pub use error::SchemaError;
pub use json::{Json, JsonStyle};
pub use notice::UnknownMembers;
pub use protobuf::Protobuf;

/// What an encoder with schemas is made of.
#[derive(Debug, Clone)]
pub struct Schemas {
    pub files: Vec<PathBuf>,
    /// Another envelope than the built-in one.
    pub envelope: Option<PathBuf>,
    pub unknown_members: UnknownMembers,
}

/// One way to write events. A closed set, so an enum.
#[derive(Debug)]
pub enum Encoder {
    Json(Json),
    Avro(Avro),
    Protobuf(Protobuf),
}

impl Encoder {
    /// The message's value. It lies in a buffer that the next call uses again.
    pub fn encode(&mut self, event: &Event<'_>) -> Result<&[u8], Failure> {
        match self {
            Encoder::Json(json) => json.encode(event),
            Encoder::Avro(avro) => avro.encode(event),
            Encoder::Protobuf(protobuf) => protobuf.encode(event),
        }
    }

    /// Of which event a message's value is, as far as it was written by an encoder like this one: its id and date.
    pub fn identify(&mut self, value: &[u8]) -> Option<(ShortId, i64)> {
        match self {
            Encoder::Json(json) => json.identify(value),
            Encoder::Avro(avro) => avro.identify(value),
            Encoder::Protobuf(protobuf) => protobuf.identify(value),
        }
    }

    pub fn content(&self) -> Content {
        match self {
            Encoder::Json(_) => Content::Json,
            Encoder::Avro(_) | Encoder::Protobuf(_) => Content::Binary,
        }
    }

    /// What was noticed about payloads that were encoded all the same; each thing once.
    pub fn notices(&mut self) -> Vec<String> {
        match self {
            Encoder::Json(_) => Vec::new(),
            Encoder::Avro(avro) => avro.notices(),
            Encoder::Protobuf(protobuf) => protobuf.notices(),
        }
    }

    /// How many members of payloads have been dropped because their schema does not have them.
    pub fn unknown_members(&self) -> u64 {
        match self {
            Encoder::Json(_) => 0,
            Encoder::Avro(avro) => avro.unknown_members(),
            Encoder::Protobuf(protobuf) => protobuf.unknown_members(),
        }
    }

    /// The names of the payloads' schemas, sorted.
    pub fn schemas(&self) -> Vec<&str> {
        match self {
            Encoder::Json(_) => Vec::new(),
            Encoder::Avro(avro) => avro.schemas(),
            Encoder::Protobuf(protobuf) => protobuf.schemas(),
        }
    }
}
