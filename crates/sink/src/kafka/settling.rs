//! What became of messages, and of the questions about their topics.
//!
//! Rule: who was refused in a batch is found out by sending its members alone, in the next run: this one's producer has stopped
//! behind the batch, so that nothing arrives in front of it.

use std::sync::Arc;

use headwater_core::failure::Kind;
use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::sink::Report;
use rdkafka::error::RDKafkaErrorCode as Code;
use tokio::task::JoinError;
use tracing::warn;

use super::contact::{Outcome, Returned};
use super::doubt::{self, Rules};
use super::topics::Found;
use super::verdict::{self, Verdict};
use super::{Gate, Kafka, Sent, Suspects, size};
use crate::Error;

impl Kafka {
    pub(super) fn settle(&mut self, outcome: Outcome) -> Option<Report> {
        match outcome {
            Outcome::Delivered(number) => {
                let sent = self.sent.remove(number);
                self.delivered(&sent);
                return Some(Report::Delivered(sent.ticket));
            }
            Outcome::Refused(number, returned) => self.refused(number, *returned),
            Outcome::Failed(number, code, topic) => {
                self.sent.remove(number);
                if self.client.stopped_behind_another(code) {
                    self.gate = Gate::Shut;
                } else if code == Code::InvalidDifferentRecord
                    && self.goes_on_behind(Kind::Refused, &topic)
                {
                    self.begin_to_suspect(&topic);
                } else {
                    self.failed(code, &topic);
                }
            }
            Outcome::Trouble => {
                if let Some(trouble) = self.client.trouble() {
                    self.break_off(trouble);
                }
            }
        }
        None
    }

    fn delivered(&mut self, sent: &Sent) {
        if self.gate == Gate::Alone {
            self.gate = Gate::Open;
            self.topics.prove(&sent.topic);
        }
        if !self.suspects.is_empty() {
            self.overtake(sent);
        }
    }

    /// It has arrived, also in front of those before it of its key that were refused.
    fn overtake(&mut self, sent: &Sent) {
        let Some(suspects) = self.suspects.get(&sent.topic) else {
            return;
        };
        for member in &suspects.members {
            let is_before = member.ticket.number() < sent.ticket.number();
            if is_before && member.key.is_some() && member.key == sent.key {
                let passing = &self.client.settings.passing;
                passing.overtake(&sent.topic, &member.id);
            }
        }
    }

    fn refused(&mut self, number: usize, returned: Returned) {
        let (kind, code) = (returned.kind, returned.code);
        let sent = self.sent.remove(number);
        let alone = self.gate == Gate::Alone;
        if self.goes_on_behind(kind, &sent.topic) && !alone {
            return self.suspect(sent, code);
        }
        self.gate = Gate::Shut;
        let (message, ticket) = whole(sent, returned);
        if alone {
            self.gate = Gate::Untold;
            self.refused_alone(message, ticket, kind, code);
        } else if verdict::is_of_each(code)
            || doubt::travelled_alone(&message, &self.client.settings)
        {
            let why = self.why(&message, kind, code);
            self.refuse(message, ticket, kind, why);
        } else {
            self.doubt(message, ticket, kind);
        }
    }

    fn refused_alone(&mut self, message: Message, ticket: Ticket, kind: Kind, code: Code) {
        let topic = Arc::clone(&message.address.topic);
        let why = self.why(&message, kind, code);
        let settings = &self.client.settings;
        let passing = &settings.passing;
        // What is refused by the rules that are known tells nothing of others.
        let rules = self.topics.rules(&topic);
        if !rules.may_refuse(&message, settings.batch_limit()) {
            passing.stay_wary(&topic);
        }
        if code == Code::TopicAuthorizationFailed {
            passing.deny(&topic, &why.as_str().into());
        }
        self.refuse(message, ticket, kind, why);
        // Its rules may have changed, or a right was taken away.
        self.topics.forget(&topic);
    }

    fn why(&self, message: &Message, kind: Kind, code: Code) -> String {
        let topic = &message.address.topic;
        if verdict::is_of_each(code) {
            return self.error(code, topic).to_string();
        }
        let rules = self.topics.rules(topic);
        doubt::why_refused(message, kind, rules).unwrap_or_else(|| {
            let size = size::alone(message);
            format!("Kafka refused its {size} bytes: {code}")
        })
    }

    /// In a batch whose refusal was not foreseen, and that the run ends with.
    fn suspect(&mut self, sent: Sent, code: Code) {
        let topic = Arc::clone(&sent.topic);
        if code == Code::TopicAuthorizationFailed {
            let why = self.error(code, &topic).to_string();
            self.client.settings.passing.deny(&topic, &why.into());
        } else {
            self.client.settings.passing.suspect(&topic, &sent.id);
        }
        let suspects = self.begin_to_suspect(&topic);
        suspects.too_large |= verdict::delivery(code) == Verdict::Refuse(Kind::TooLarge);
        suspects.members.push(sent);
    }

    /// The run goes on until the topic's rules are known, so that all who are to be suspected come back.
    fn begin_to_suspect(&mut self, topic: &Arc<str>) -> &mut Suspects {
        self.gate = Gate::Shut;
        if !self.suspects.contains_key(topic) {
            self.client.settings.passing.refuse_batch(topic);
            self.topics.ask_rules(topic);
        }
        self.suspects.entry(Arc::clone(topic)).or_default()
    }

    fn end_with_suspects(&mut self, topic: &str, rules: Rules) {
        let Some(suspects) = self.suspects.get(topic) else {
            return;
        };
        let settings = &self.client.settings;
        if suspects.too_large {
            settings
                .passing
                .shrink(settings.batch_size(), rules.largest_batch());
        }
        let messages = suspects.members.len();
        let batch_size = settings.batch_size();
        warn!(
            topic,
            messages, batch_size, "a batch was refused: in the next run its messages go one by one"
        );
        self.break_off(Error::transient(format!(
            "Kafka refused a batch for topic \"{topic}\", and which message is to blame shows when each goes alone"
        )));
    }

    fn doubt(&mut self, message: Message, ticket: Ticket, kind: Kind) {
        let topic = Arc::clone(&message.address.topic);
        let waiting = self.doubtful.entry(Arc::clone(&topic)).or_default();
        waiting.push((ticket, message, kind));
        if waiting.len() == 1 {
            self.topics.ask_rules(&topic);
        }
    }

    pub(super) fn found(&mut self, found: Result<Found, JoinError>) {
        let error = match found {
            Ok(Found::Topic(topic, Ok(state))) => {
                self.topics.found(topic, state);
                return self.ready.push_back(Report::Room);
            }
            Ok(Found::Closed(topic, why)) => return self.closed(&topic, &why),
            Ok(Found::Rules(topic, Ok(rules))) => return self.judge(&topic, rules),
            Ok(Found::Again(all)) => return self.topics.found_again(all),
            Ok(Found::Topic(_, Err(error)) | Found::Rules(_, Err(error))) => error,
            Err(error) => Error::transient(format!("a lookup broke off: {error}")),
        };
        self.break_off(error);
    }

    /// Its messages are refused from now on; all others can still be written.
    fn closed(&mut self, topic: &Arc<str>, why: &Error) {
        let passing = &self.client.settings.passing;
        passing.deny(topic, &why.to_string().into());
        self.topics.forget(topic);
        self.ready.push_back(Report::Room);
    }

    fn judge(&mut self, topic: &str, rules: Rules) {
        self.end_with_suspects(topic, rules);
        for (ticket, message, kind) in self.doubtful.remove(topic).unwrap_or_default() {
            match doubt::judge(&message, kind, rules, &self.client.settings) {
                Ok(why) => self.refuse(message, ticket, kind, why),
                Err(error) => {
                    self.break_off(error);
                }
            }
        }
    }
}

fn whole(sent: Sent, returned: Returned) -> (Message, Ticket) {
    let message = Message {
        id: sent.id,
        address: returned.address,
        content: sent.content,
        value: returned.value,
    };
    (message, sent.ticket)
}
