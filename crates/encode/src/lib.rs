//! From an event to bytes.
//!
//! Never: wait, log, know Kafka or a database.

mod json;

use bytes::Bytes;
use headwater_core::event::Event;
use headwater_core::failure::Failure;
use headwater_core::message::Content;

pub use json::Json;

/// One way to write events. A closed set, so an enum.
#[derive(Debug)]
pub enum Encoder {
    Json(Json),
}

impl Encoder {
    pub fn encode(&mut self, event: &Event<'_>) -> Result<Bytes, Failure> {
        match self {
            Encoder::Json(json) => json.encode(event),
        }
    }

    pub fn content(&self) -> Content {
        match self {
            Encoder::Json(_) => Content::Json,
        }
    }
}
