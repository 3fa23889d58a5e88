//! What the sink reports: settled, or refused and then made a dead letter, or the end of the run.

use std::fmt;

use headwater_core::failure::Failure;
use headwater_core::ledger::{Ledger, Ticket};
use headwater_core::message::Message;
use headwater_core::positions::Positions;
use headwater_core::sink::{Refusal, Report, Sink};
use serde::Serialize;
use serde::de::DeserializeOwned;
use tracing::warn;

use super::Run;
use crate::pipeline::ended::{Ended, broken};

impl<P, K, R> Run<'_, P, K, R>
where
    P: Clone + fmt::Display + PartialEq + Serialize + DeserializeOwned,
    K: Sink,
    R: Positions,
{
    pub(super) fn reported(&mut self, report: Result<Report, K::Error>) -> Result<(), Ended> {
        match report.map_err(broken)? {
            Report::Delivered(ticket) => self.delivered(ticket),
            Report::Room => {}
            Report::Refused(ticket, message, refusal) => self.refused(ticket, &message, refusal)?,
        }
        self.answered();
        self.push()
    }

    fn delivered(&mut self, ticket: Ticket) {
        let number = ticket.number();
        match self.seeds.take(number).and_then(|seed| seed.kind()) {
            Some(kind) => self.tally.dead_letters[kind as usize] += 1,
            None => self.tally.delivered += 1,
        }
        self.settled(ticket, Ledger::settle);
        let (latency, oldest) = (&mut self.tally.latency, self.ledger.oldest());
        self.shown.delivered(number, oldest, latency);
    }

    /// A letter takes its place, if one is to be made.
    fn refused(
        &mut self,
        ticket: Ticket,
        message: &Message,
        refusal: Refusal,
    ) -> Result<(), Ended> {
        let Refusal {
            kind,
            why,
            overtaken,
        } = refusal;
        let number = ticket.number();
        let is_letter = self.seeds.is_letter(number);
        let (topic, size) = (&message.address.topic, message.value.len());
        let what = if is_letter {
            "its dead letter for "
        } else {
            ""
        };
        let failure = Failure::new(kind, format!("{what}topic {topic}, {size} bytes: {why}"));
        let seed = self.seeds.take(number);
        let letter =
            seed.and_then(|seed| self.letters.of_refused(message, seed, &failure, overtaken));
        let id = message.id.to_string();
        let Some((letter, seed)) = letter else {
            // Not remembered as blocked: only sending it would tell whether the broker takes it now.
            return Err(Ended::Refused(self.failed(id, failure)));
        };
        let why = failure.detail;
        if is_letter {
            warn!(id, why, "a dead letter is cut");
        } else {
            self.tally.failed[kind as usize] += 1;
            warn!(
                id,
                kind = kind.name(),
                why,
                "a message becomes a dead letter"
            );
        }
        self.seeds.keep(number, Some(seed));
        let is_letter = |(_, ticket): &(Message, Ticket)| self.seeds.is_letter(ticket.number());
        let at = self.held.iter().take_while(|it| is_letter(it)).count();
        self.held.insert(at, (letter, ticket));
        Ok(())
    }
}
