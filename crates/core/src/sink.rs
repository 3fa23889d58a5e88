//! Where messages go.

use std::future::Future;

use crate::failure::Kind;
use crate::ledger::Ticket;
use crate::message::Message;
use crate::trouble::Trouble;

/// What became of messages.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved on at once; a box would cost an allocation each"
)]
pub enum Report {
    /// The broker has it for good.
    Delivered(Ticket),
    /// The broker will never take it; the message itself comes back. Unless the sink was told to go on behind a refusal of this
    /// kind, the run ends with it, and the sink is dropped, so that nothing of its key goes out before it.
    Refused(Ticket, Message, Refusal),
    /// A message that came back unsent may fit now.
    Room,
}

/// Why a broker will never take a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub kind: Kind,
    pub why: String,
    /// A message behind it, of the same key and topic, has been delivered.
    pub overtaken: bool,
}

/// A message that was not taken, given back whole.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "moved on at once; a box would cost an allocation each"
)]
pub enum Unsent<E> {
    /// Not now (the queue is full, or its topic is still being looked up): try again after the next report.
    Later(Message, Ticket),
    /// The sink is broken.
    Broken(E),
}

pub trait Sink: Send {
    type Error: Trouble;

    /// Takes the message or gives it back; never waits.
    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Self::Error>>;

    /// How many messages and requests the broker's client still holds; none where there is no such client.
    fn queued(&self) -> Option<usize> {
        None
    }

    /// Cancel-safe: dropping the future loses no report.
    fn next_report(&mut self) -> impl Future<Output = Result<Report, Self::Error>> + Send;
}
