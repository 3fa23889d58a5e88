//! Stands beside a sink and writes down what was delivered, and when.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Instant;

use headwater_core::ledger::Ticket;
use headwater_core::message::Message;
use headwater_core::sink::{Report, Sink, Unsent};

/// When each event was delivered, by its id; one entry a delivery.
#[derive(Debug, Clone, Default)]
pub struct Delivered(Arc<Mutex<Vec<(String, Instant)>>>);

impl Delivered {
    pub fn count(&self) -> usize {
        self.lock().len()
    }

    pub fn all(&self) -> Vec<(String, Instant)> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<(String, Instant)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

pub struct Witness<K> {
    sink: K,
    sent: HashMap<u64, String>,
    delivered: Delivered,
}

impl<K> Witness<K> {
    pub fn new(sink: K, delivered: Delivered) -> Witness<K> {
        Witness {
            sink,
            sent: HashMap::new(),
            delivered,
        }
    }
}

impl<K: Sink> Sink for Witness<K> {
    type Error = K::Error;

    fn send(&mut self, message: Message, ticket: Ticket) -> Result<(), Unsent<K::Error>> {
        let (number, id) = (ticket.number(), id(&message));
        self.sink.send(message, ticket)?;
        self.sent.insert(number, id);
        Ok(())
    }

    async fn next_report(&mut self) -> Result<Report, K::Error> {
        let report = self.sink.next_report().await?;
        if let Report::Delivered(ticket) = &report
            && let Some(id) = self.sent.remove(&ticket.number())
        {
            self.delivered.lock().push((id, Instant::now()));
        }
        Ok(report)
    }
}

fn id(message: &Message) -> String {
    let value: serde_json::Value = serde_json::from_slice(&message.value).unwrap_or_default();
    value["id"].as_str().unwrap_or_default().to_owned()
}
