//! The demonstration: an application with an outbox in a SQLite file, the real pipeline, and a count at the end.

mod application;
mod witness;

pub use application::{Application, Written, events_in};
pub use witness::{Delivered, Witness};
