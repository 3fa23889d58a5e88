//! The table beside the topics: which of its events are on them, and which are not.
//!
//! Rule: memory is bounded, however large the table: the topics are read again for each band of dates that fits.

mod account;
mod missing;
mod published;
mod unsent;

pub use account::{Account, Order, compare};
pub use missing::{Found, Missing};
pub use published::{Bands, Count, Encoders, Published, beginning};
pub use unsent::{Unmade, Unsent};
