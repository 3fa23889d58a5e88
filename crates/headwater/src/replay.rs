//! A part of the table that is published again: what was asked for, and its rows as a source with an end.

mod asked;
mod pace;
mod rows;

pub use asked::Asked;
pub use rows::{Again, unreadable};

/// The header that tells a message of a replay; its value is the replay's id.
pub use headwater_sink::kafka::REPLAY as HEADER;
