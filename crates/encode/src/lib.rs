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

#[cfg(test)]
mod read_back {
    use std::path::Path;

    use headwater_core::event::Flag;

    use super::*;
    use crate::tests::event;

    const AVRO: &str = r#"{"type":"record","name":"CrateSealed","namespace":"port.cargo.avro","fields":[{"name":"qty","type":"long"}]}"#;
    const PROTO: &str =
        "syntax = \"proto3\"; package port.cargo.proto; message CrateSealed { int64 qty = 1; }";

    fn encoders() -> [Encoder; 4] {
        let avro = [(Path::new("a.avsc"), AVRO)];
        let proto = [(Path::new("a.proto"), PROTO)];
        let warn = UnknownMembers::Warn;
        [
            Encoder::Json(Json::new(JsonStyle::Embedded)),
            Encoder::Json(Json::new(JsonStyle::Debezium)),
            Encoder::Avro(Avro::from_texts(&avro, warn).expect("a schema")),
            Encoder::Protobuf(Protobuf::from_texts(&proto, warn).expect("a schema")),
        ]
    }

    #[test]
    fn of_which_event_a_message_is_can_be_read_back_in_every_format() {
        for mut encoder in encoders() {
            for date in [0, -1, 1_781_234_567_450_789, -62_135_596_800_000_000] {
                for delivered in [false, true] {
                    let event = Event {
                        event_date: date,
                        model_id: None,
                        delivered: Flag::Bool(delivered),
                        ..event(r#"{"qty": 7}"#)
                    };
                    let value = encoder.encode(&event).expect("encodes").to_vec();
                    let told = encoder.identify(&value);
                    assert_eq!(told, Some((ShortId::of(&event.id), date)), "{encoder:?}");
                }
            }
        }
    }

    #[test]
    fn other_bytes_are_of_no_event_and_no_harm() {
        let [mut embedded, mut debezium, mut avro, mut protobuf] = encoders();
        let payload = event(r#"{"qty": 7}"#);
        for encoder in [&mut embedded, &mut debezium, &mut avro, &mut protobuf] {
            let value = encoder.encode(&payload).expect("encodes").to_vec();
            for end in 0..value.len() {
                let told = encoder.identify(&value[..end]);
                assert!(told.is_none_or(|(id, _)| id == ShortId::of(&payload.id)));
            }
            for other in [&b""[..], b"{}", b"[1]", b"\xFF\xFF", &[0; 40], &[0x0A; 64]] {
                assert_eq!(encoder.identify(other), None, "{other:?}");
            }
        }
        let json = embedded.encode(&payload).expect("encodes").to_vec();
        assert_eq!(avro.identify(&json), None);
        assert_eq!(protobuf.identify(&json), None);
    }
}
