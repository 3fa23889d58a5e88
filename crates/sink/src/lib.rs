//! Messages to a broker, and reports back: Kafka, standard output; and where positions are remembered.
//!
//! Never: knows a database or a format.

mod error;
mod file;
pub mod kafka;
mod record;
mod stdout;

pub use error::Error;
pub use file::FilePositions;
pub use headwater_core::finding::{Finding, Level};
pub use kafka::{Kafka, KafkaPositions};
pub use stdout::{Form, Stdout};
