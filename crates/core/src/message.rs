//! Bytes with an address.

use std::sync::Arc;

use bytes::Bytes;

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub topic: Arc<str>,
    pub key: Option<Bytes>,
    pub headers: Vec<(Arc<str>, Bytes)>,
}

/// What the value's bytes are, for sinks that show them to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Json,
    Binary,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub address: Address,
    pub content: Content,
    pub value: Bytes,
}

impl Message {
    /// What it counts against the bound on bytes in flight.
    pub fn size(&self) -> usize {
        let headers: usize = self
            .address
            .headers
            .iter()
            .map(|(name, value)| name.len() + value.len())
            .sum();
        self.value.len() + self.address.key.as_ref().map_or(0, Bytes::len) + headers
    }
}
