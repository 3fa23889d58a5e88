//! The words (row, event, message, position) and the rules (disposition, route, ledger) of Headwater.
//!
//! Never: wait, read a clock, a file or the environment, log, or depend on a sibling crate.

pub mod band;
pub mod dead_letter;
pub mod disposition;
pub mod event;
pub mod failure;
pub mod filter;
pub mod finding;
pub mod instant;
pub mod json;
pub mod ledger;
pub mod message;
pub mod nearest;
pub mod pattern;
pub mod positions;
pub mod rights;
pub mod route;
pub mod row;
pub mod sink;
pub mod source;
pub mod template;
pub mod trouble;
pub mod window;
