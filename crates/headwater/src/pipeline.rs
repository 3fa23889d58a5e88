//! The path of a row, from the log to the broker and back.

mod ended;
mod memory;
mod prepare;
mod run;
mod stop;
mod supervise;
#[cfg(test)]
mod tests;
mod trial;

pub use prepare::{Outcome, Preparer};
pub use run::{Bound, Tally};
pub use stop::{Ask, Stop};
pub use supervise::{Destination, NoRecord, Pipeline, supervise};
