//! The path of a row, from the log to the broker and back.

mod bound;
mod ended;
mod figures;
mod letters;
mod memory;
mod prepare;
mod run;
mod shown;
mod stop;
mod supervise;
#[cfg(test)]
mod tests;
mod ticks;
mod trial;
mod unfit;

pub use bound::Bound;
pub use ended::{Failed, LogLost};
pub use figures::{Board, Cause, Doing, Figures, Lag, Latency, Tally};
pub use letters::{Letters, OpenLetters, Unpublished};
pub use prepare::{Outcome, Piece, Preparer};
pub use stop::{Ask, Stop};
pub use supervise::{Destination, Done, Extent, NoRecord, NotRecovered, Pipeline, supervise};
pub use unfit::Unfit;
