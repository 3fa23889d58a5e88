//! Messages to a broker, and reports back: Kafka, standard output; and where positions are remembered.
//!
//! Never: knows a database or a format.

#[cfg(feature = "bench")]
mod count;
pub mod file;
pub mod kafka;
mod record;
mod stdout;

#[cfg(feature = "bench")]
pub use count::Count;
pub use file::FilePositions;
pub use headwater_core::finding::{Finding, Level};
pub use headwater_core::trouble::Error;
pub use kafka::{Kafka, KafkaPositions};
pub use stdout::{Form, Stdout};
