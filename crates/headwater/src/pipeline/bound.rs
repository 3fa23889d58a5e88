//! How much may be in flight.

use headwater_core::ledger::Ledger;

/// One message that is stuck may have this many times the bound delivered behind it before reading stops.
const SPAN: usize = 16;

/// What may be in flight. A single larger message still goes, alone.
#[derive(Debug, Clone, Copy)]
pub struct Bound {
    pub messages: usize,
    pub bytes: usize,
}

impl Bound {
    /// Whether another message may be read.
    pub fn has_room<P>(&self, ledger: &Ledger<P>) -> bool {
        ledger.outstanding() < self.messages && ledger.span() < self.messages * SPAN
    }

    /// Whether a message of this size may go.
    pub fn admits<P>(&self, ledger: &Ledger<P>, size: usize) -> bool {
        ledger.outstanding() == 0 || ledger.outstanding_bytes() + size <= self.bytes
    }
}
