//! From a database's log to rows and marks.
//!
//! Never: know a topic, a format or a configuration file.

mod error;
pub mod postgres;
pub mod sqlite;

pub use error::Error;
pub use headwater_core::finding::{Finding, Level};
