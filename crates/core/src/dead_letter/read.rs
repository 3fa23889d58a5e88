//! A letter, read back from its topic: what it says, and the row that it was made of.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::Deserialize;
use serde::de::{Deserializer, MapAccess, Visitor};

use super::{
    ERROR, EVENT_ID, KEY, KIND, LETTER, NAME, OUT_OF_ORDER, POSITION, REASON, REPLAYED, ROUTE,
    TABLE, TIME, TOPIC, TRANSACTION, VERSION,
};
use crate::event::{Outbox, Role};
use crate::instant::Instant;
use crate::row::{Change, Row, Table, Value};

/// What stands on the topic of dead letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Entry {
    Letter(Box<Letter>),
    Mark(Mark),
}

/// A letter was published after all.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mark {
    pub letter: String,
    /// The pipeline's name.
    pub name: String,
    pub time: String,
}

/// A message that is neither, or not as this version writes them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotALetter(pub String);

impl fmt::Display for NotALetter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Texts are as they were written, and empty where a header is missing.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Letter {
    pub id: String,
    pub event_id: String,
    pub kind: String,
    pub reason: String,
    pub error: String,
    pub table: String,
    pub position: String,
    pub transaction: String,
    pub time: String,
    /// Counted from 1.
    pub route: Option<usize>,
    pub topic: Option<String>,
    pub key: Option<Bytes>,
    pub version: String,
    pub name: String,
    pub out_of_order: bool,
    /// In the order of the table.
    pub columns: Vec<(String, Option<String>)>,
    /// The columns whose text is base16.
    pub bytes: Vec<String>,
    pub cut: Vec<String>,
    pub unreadable: Vec<(String, Option<String>)>,
}

impl Entry {
    /// Out of a message's headers and value.
    pub fn read<'m>(
        headers: impl IntoIterator<Item = (&'m str, &'m [u8])>,
        value: &[u8],
    ) -> Result<Entry, NotALetter> {
        let (mut letter, mut replayed) = (Letter::default(), None);
        for (name, header) in headers {
            let text = || String::from_utf8_lossy(header).into_owned();
            if name == REPLAYED {
                replayed = Some(text());
            } else {
                letter.enter(name, header, text);
            }
        }
        if let Some(id) = replayed {
            return Ok(Entry::Mark(Mark {
                letter: id,
                name: letter.name,
                time: letter.time,
            }));
        }
        if letter.id.is_empty() {
            return Err(NotALetter(format!("it has no header {LETTER}")));
        }
        let body: Body = serde_json::from_slice(value)
            .map_err(|why| NotALetter(format!("its value is not that of a dead letter: {why}")))?;
        letter.columns = body.columns.0;
        letter.bytes = body.bytes;
        letter.cut = body.cut;
        letter.unreadable = body.unreadable.0;
        Ok(Entry::Letter(Box::new(letter)))
    }
}

impl Letter {
    fn enter(&mut self, name: &str, header: &[u8], text: impl Fn() -> String) {
        match name {
            LETTER => self.id = text(),
            EVENT_ID => self.event_id = text(),
            KIND => self.kind = text(),
            REASON => self.reason = text(),
            ERROR => self.error = text(),
            TABLE => self.table = text(),
            POSITION => self.position = text(),
            TRANSACTION => self.transaction = text(),
            TIME => self.time = text(),
            ROUTE => self.route = text().parse().ok(),
            TOPIC => self.topic = Some(text()),
            KEY => self.key = Some(Bytes::copy_from_slice(header)),
            VERSION => self.version = text(),
            NAME => self.name = text(),
            OUT_OF_ORDER => self.out_of_order = header == b"true",
            _ => {}
        }
    }

    /// The text of a column; none if it is null or not there.
    pub fn column(&self, name: &str) -> Option<&str> {
        let column = self.columns.iter().find(|(column, _)| column == name);
        column.and_then(|(_, text)| text.as_deref())
    }

    /// The row that it was made of; none if some of it was cut.
    pub fn row(&self, outbox: &Outbox) -> Option<Row> {
        if !self.cut.is_empty() {
            return None;
        }
        let (schema, name) = self.table.split_once('.').unwrap_or(("", &self.table));
        let cell = |(column, text): &(String, Option<String>)| match text {
            Some(text) if self.bytes.contains(column) => {
                bytes(text).map_or_else(|| plain(text), Value::Bytes)
            }
            Some(text) => value(outbox.role(column), text),
            None => self.without_text(column),
        };
        Some(Row {
            table: Arc::new(Table {
                schema: schema.to_owned(),
                name: name.to_owned(),
                columns: self.columns.iter().map(|(name, _)| name.clone()).collect(),
            }),
            change: Change::Read,
            cells: self.columns.iter().map(cell).collect(),
        })
    }

    fn without_text(&self, column: &str) -> Value {
        let unreadable = self.unreadable.iter().find(|(name, _)| name == column);
        match unreadable {
            Some((_, why)) => Value::Unreadable(why.clone().unwrap_or_default()),
            None => Value::Null,
        }
    }
}

/// What a column of this role held, by its text.
fn value(role: Option<Role>, text: &str) -> Value {
    match role {
        Some(Role::StartedDate | Role::CompletionDate | Role::EventDate) => {
            let moment = text.parse::<Instant>();
            moment.map_or_else(|_| plain(text), |moment| Value::Micros(moment.0))
        }
        Some(Role::Delivered) => match text {
            "true" => Value::Bool(true),
            "false" => Value::Bool(false),
            number => number.parse().map_or_else(|_| plain(text), Value::Int),
        },
        _ => plain(text),
    }
}

fn plain(text: &str) -> Value {
    Value::Text(text.into())
}

/// Out of base16.
fn bytes(text: &str) -> Option<Bytes> {
    let pairs = text.as_bytes().chunks(2);
    let byte = |pair: &[u8]| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok();
    pairs
        .map(byte)
        .collect::<Option<Vec<u8>>>()
        .map(Bytes::from)
}

/// A letter's value.
#[derive(Deserialize)]
struct Body {
    columns: Ordered,
    #[serde(default)]
    bytes: Vec<String>,
    #[serde(default)]
    cut: Vec<String>,
    #[serde(default)]
    unreadable: Ordered,
}

/// An object of texts, in the order in which it was written.
#[derive(Default)]
struct Ordered(Vec<(String, Option<String>)>);

impl<'de> Deserialize<'de> for Ordered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Ordered, D::Error> {
        struct Members;

        impl<'de> Visitor<'de> for Members {
            type Value = Ordered;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Ordered, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Ordered(members))
            }
        }

        deserializer.deserialize_map(Members)
    }
}
