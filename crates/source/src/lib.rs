//! From a database's log to rows and marks.
//!
//! Never: know a topic, a format or a configuration file.

pub mod mysql;
pub mod postgres;
pub mod sqlite;

mod course;
mod keys;
mod part;
mod server;
mod silence;
mod tls;
mod wire;

pub use course::Course;
pub use headwater_core::finding::{Finding, Level};
pub use headwater_core::trouble::Error;
pub use part::{NoPart, Part};
pub use server::{Password, Server};
pub use tls::{OwnFiles, Tls, TlsFlaw, TlsMode};
