//! For benchmarks alone (feature `bench`): takes every message and delivers it at once, so that what is left is the way to it.
//!
//! Never: in a released program. What it delivers is gone.

use std::collections::VecDeque;
use std::future::pending;

use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::sink::{Report, Sink, Unsent};
use tracing::info;

use crate::{Error, Form};

/// The first message is told in the log, and then every so many.
const TOLD: u64 = 10_000;

pub struct Count {
    messages: u64,
    delivered: VecDeque<Ticket>,
}

impl Count {
    /// In place of [`crate::Stdout`], and opened like it.
    pub fn open(_form: Form) -> Result<Count, Error> {
        Ok(Count {
            messages: 0,
            delivered: VecDeque::new(),
        })
    }
}

impl Sink for Count {
    type Error = Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<Error>> {
        drop(message);
        self.messages += 1;
        if self.messages == 1 || self.messages.is_multiple_of(TOLD) {
            info!(messages = self.messages, "counted");
        }
        self.delivered.push_back(ticket);
        Ok(())
    }

    async fn next_report(&mut self) -> Result<Report, Error> {
        match self.delivered.pop_front() {
            Some(ticket) => Ok(Report::Delivered(ticket)),
            None => pending().await,
        }
    }
}
