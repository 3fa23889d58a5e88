//! From a database's log to rows and marks.
//!
//! Never: know a topic, a format or a configuration file.

pub mod postgres;
pub mod sqlite;

pub use headwater_core::finding::{Finding, Level};
pub use headwater_core::trouble::Error;
