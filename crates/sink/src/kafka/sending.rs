//! How a message is handed to librdkafka: together with others, or alone.

use std::hash::{DefaultHasher, Hasher as _};

use headwater_core::failure::Kind;
use headwater_core::ledger::Ticket;
use headwater_core::message::{Address, Message};
use headwater_core::sink::{Refusal, Report, Unsent};
use rdkafka::error::{KafkaError, RDKafkaErrorCode as Code};
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::BaseRecord;

use super::polling::Producer;
use super::verdict::{self, Doing, Verdict};
use super::{Gate, Kafka, Sent};
use crate::Error;

impl Kafka {
    pub(super) fn send_together(
        &mut self,
        message: Message,
        ticket: Ticket,
    ) -> Result<(), Unsent<Error>> {
        let number = self.sent.vacant_key();
        match hand_over(self.client.producer(), &message, number) {
            Ok(()) => {
                self.note(message, ticket);
                Ok(())
            }
            Err(error) => self.not_taken(&error, message, ticket),
        }
    }

    /// Only when all before it were reported. Whatever becomes of it, the other producer goes on.
    pub(super) fn send_alone(
        &mut self,
        message: Message,
        ticket: Ticket,
    ) -> Result<(), Unsent<Error>> {
        if !self.sent.is_empty() {
            return Err(Unsent::Later(message, ticket));
        }
        let number = self.sent.vacant_key();
        let handed = match self.client.alone() {
            Ok(producer) => hand_over(producer, &message, number),
            Err(error) => return Err(Unsent::Broken(self.break_off(error))),
        };
        match handed {
            Ok(()) => {
                self.gate = Gate::Alone;
                self.note(message, ticket);
                Ok(())
            }
            Err(error) => self.not_taken(&error, message, ticket),
        }
    }

    fn note(&mut self, message: Message, ticket: Ticket) {
        let Address { topic, key, .. } = message.address;
        let key = key.filter(|_| self.client.settings.passing.lets_any_pass());
        self.sent.insert(Sent {
            ticket,
            id: message.id,
            topic,
            key: key.map(|key| digest(&key)),
            content: message.content,
        });
    }

    /// librdkafka did not even queue it.
    fn not_taken(
        &mut self,
        error: &KafkaError,
        message: Message,
        ticket: Ticket,
    ) -> Result<(), Unsent<Error>> {
        let code = match error {
            KafkaError::Nul(_) => Code::InvalidTopic,
            error => verdict::code(error).unwrap_or(Code::Unknown),
        };
        let stopped = self.client.stopped_behind_another(code);
        if stopped {
            self.gate = Gate::Shut;
        }
        if stopped || code == Code::QueueFull {
            return Err(Unsent::Later(message, ticket));
        }
        match verdict::delivery(code) {
            Verdict::Refuse(Kind::TooLarge) => {
                let why = format!(
                    "{} bytes are more than message.max.bytes in sink.properties allows ({})",
                    message.size(),
                    self.client.settings.largest_message()
                );
                self.refuse_unsent(message, ticket, Kind::TooLarge, why)
            }
            Verdict::Refuse(kind) => self.refuse_unsent(message, ticket, kind, code.to_string()),
            _ => {
                let error = self.failed(code, &message.address.topic);
                Err(Unsent::Broken(error))
            }
        }
    }

    /// If the caller does not go on behind it, only when all before it were reported: they are to arrive.
    pub(super) fn refuse_unsent(
        &mut self,
        message: Message,
        ticket: Ticket,
        kind: Kind,
        why: String,
    ) -> Result<(), Unsent<Error>> {
        let passes = self.goes_on_behind(kind, &message.address.topic);
        if !passes && !self.sent.is_empty() {
            return Err(Unsent::Later(message, ticket));
        }
        self.refuse(message, ticket, kind, why);
        Ok(())
    }

    pub(super) fn refuse(&mut self, message: Message, ticket: Ticket, kind: Kind, why: String) {
        if self.gate != Gate::Shut {
            self.gate = Gate::Untold;
        }
        let overtaken = self.client.settings.passing.is_overtaken(&message);
        let refusal = Refusal {
            kind,
            why,
            overtaken,
        };
        self.ready
            .push_back(Report::Refused(ticket, message, refusal));
    }

    /// The message with this number is lost to this run.
    pub(super) fn failed(&mut self, code: Code, topic: &str) -> Error {
        let trouble = self.client.trouble();
        let error = trouble.unwrap_or_else(|| self.error(code, topic));
        self.break_off(error)
    }

    pub(super) fn error(&self, code: Code, topic: &str) -> Error {
        verdict::error(code, Doing::Writing(topic), self.client.tools(), "")
    }
}

fn digest(key: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(key);
    hasher.finish()
}

fn hand_over(producer: &Producer, message: &Message, number: usize) -> Result<(), KafkaError> {
    let address = &message.address;
    let mut record =
        BaseRecord::with_opaque_to(&address.topic, number).payload(message.value.as_ref());
    record.key = address.key.as_deref();
    record.partition = address.partition;
    record.timestamp = address.timestamp;
    record.headers = headers(message);
    producer.send(record).map_err(|(error, _)| error)
}

fn headers(message: &Message) -> Option<OwnedHeaders> {
    let headers = &message.address.headers;
    if headers.is_empty() {
        return None;
    }
    let empty = OwnedHeaders::new_with_capacity(headers.len());
    Some(headers.iter().fold(empty, |all, (key, value)| {
        all.insert(Header {
            key,
            value: Some(value.as_ref()),
        })
    }))
}
