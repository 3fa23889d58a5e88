//! Bytes with an address.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use bytes::Bytes;

/// Where a message goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Address {
    pub topic: Arc<str>,
    pub key: Option<Bytes>,
    /// None: the one that the key leads to.
    pub partition: Option<i32>,
    /// In milliseconds since 1970; none: when it is sent.
    pub timestamp: Option<i64>,
    pub headers: Vec<(Arc<str>, Bytes)>,
}

impl Address {
    /// A topic alone.
    pub fn of(topic: impl Into<Arc<str>>) -> Address {
        Address {
            topic: topic.into(),
            key: None,
            partition: None,
            timestamp: None,
            headers: Vec::new(),
        }
    }
}

/// What the value's bytes are, for sinks that show them to people.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    Json,
    Binary,
}

/// The id of the event that a message is of, for a sentence about it: the value may be in a form that does not tell. One
/// of usual length costs no allocation.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Id(Form);

#[derive(Clone, PartialEq, Eq, Hash)]
enum Form {
    Short { text: [u8; SHORT], length: usize },
    Long(Box<str>),
}

/// The length of a uuid's text.
const SHORT: usize = 36;

impl From<&str> for Id {
    fn from(id: &str) -> Id {
        let mut text = [0; SHORT];
        match text.get_mut(..id.len()) {
            Some(start) => {
                start.copy_from_slice(id.as_bytes());
                Id(Form::Short {
                    text,
                    length: id.len(),
                })
            }
            None => Id(Form::Long(id.into())),
        }
    }
}

impl Deref for Id {
    type Target = str;

    fn deref(&self) -> &str {
        match &self.0 {
            // Only whole texts are ever put there.
            Form::Short { text, length } => text
                .get(..*length)
                .and_then(|text| std::str::from_utf8(text).ok())
                .unwrap_or_default(),
            Form::Long(text) => text,
        }
    }
}

impl fmt::Debug for Id {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Debug::fmt(&**self, f)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    pub id: Id,
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_of_any_length_is_told_as_it_was_given() {
        for id in [
            "",
            "7",
            "3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a",
            "crate-\u{e9}",
            &"x".repeat(37),
        ] {
            assert_eq!(&*Id::from(id), id);
        }
    }
}
