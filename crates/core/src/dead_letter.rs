//! The message that is made of a row which cannot be published: all of its columns as text, and in its headers what went wrong.
//!
//! In: the row, which may lack anything, its failure and what is known of the two. Out: a message, and what can be read back from one.
//! Rule: a letter's mark stands behind it in its own partition; a letter without one is open.

mod body;
mod read;

use std::sync::Arc;

use bytes::Bytes;

use crate::event::{Role, Roles};
use crate::failure::Failure;
use crate::instant::Instant;
use crate::message::{Address, Content, Id, Message};
use crate::row::Row;
use body::{Body, text};

pub use read::{Entry, Letter, Mark, NotALetter};

pub const LETTER: &str = "headwater-dead-letter";
pub const EVENT_ID: &str = "headwater-event-id";
pub const KIND: &str = "headwater-kind";
pub const REASON: &str = "headwater-reason";
pub const ERROR: &str = "headwater-error";
pub const TABLE: &str = "headwater-table";
pub const POSITION: &str = "headwater-position";
pub const TRANSACTION: &str = "headwater-transaction";
pub const TIME: &str = "headwater-time";
pub const ROUTE: &str = "headwater-route";
pub const TOPIC: &str = "headwater-topic";
pub const KEY: &str = "headwater-key";
pub const VERSION: &str = "headwater-version";
pub const NAME: &str = "headwater-name";
pub const OUT_OF_ORDER: &str = "headwater-out-of-order";
pub const REPLAYED: &str = "headwater-replayed";

/// What is known of a failed row, besides the row and its failure.
#[derive(Debug, Clone, Copy)]
pub struct Surroundings<'a> {
    /// The pipeline's name.
    pub name: &'a str,
    /// The topic of dead letters.
    pub to: &'a Arc<str>,
    /// The last position before the row's transaction.
    pub position: &'a str,
    /// What the database calls the row's transaction, if the source tells.
    pub transaction: Option<&'a str>,
    /// Now.
    pub time: Instant,
    /// Headwater's.
    pub version: &'a str,
    /// Counted from 1; none if it failed before any route.
    pub route: Option<usize>,
    /// The message's own address, as far as it could be made.
    pub topic: Option<&'a str>,
    pub key: Option<&'a [u8]>,
    /// The broker refused a larger one: columns are cut until the message is no larger than that, if that is possible.
    pub limit: Option<usize>,
    /// Later messages of its key were delivered to its topic.
    pub out_of_order: bool,
}

/// The letter of a row. One that is made again, of the same row and route, has the same id.
pub fn letter(row: &Row, roles: &Roles, failure: &Failure, around: &Surroundings<'_>) -> Message {
    let mut body = Body::of(row);
    let event = event_id(row, roles);
    // What is as large as its message cannot be kept in a key.
    let is_short = |key: &&[u8]| around.limit.is_none_or(|limit| key.len() <= limit / 8);
    let key = around.key.filter(is_short);
    if key.is_none() && around.key.is_some() {
        body.cut_is_noted(KEY);
    }
    let mut message = Message {
        id: Id::from(event.as_str()),
        address: Address {
            key: Some(Bytes::copy_from_slice(key.unwrap_or(event.as_bytes()))),
            headers: headers(row, failure, around, &event, key),
            ..Address::of(Arc::clone(around.to))
        },
        content: Content::Json,
        value: Bytes::new(),
    };
    if let Some(limit) = around.limit {
        body.cut_to(limit.saturating_sub(message.size()), roles);
    }
    message.value = body.written().into();
    message
}

/// Says that a letter was published after all: behind it, in its own partition.
pub fn mark(
    letter: &Letter,
    to: &Arc<str>,
    (partition, key): (i32, Option<Bytes>),
    name: &str,
    time: Instant,
) -> Message {
    let headers = [
        (REPLAYED, letter.id.clone()),
        (TIME, time.to_string()),
        (NAME, name.to_owned()),
    ];
    Message {
        id: Id::from(letter.event_id.as_str()),
        address: Address {
            key,
            partition: Some(partition),
            headers: headers.map(|(name, value)| header(name, value)).to_vec(),
            ..Address::of(Arc::clone(to))
        },
        content: Content::Json,
        value: Bytes::from_static(b"{}"),
    }
}

/// The id of a row's event, as its letters have it.
pub fn event_id(row: &Row, roles: &Roles) -> String {
    match text(roles.cell(row, Role::Id)) {
        Some(id) => id.into_owned(),
        // Without an id, its columns tell it from others.
        None => format!("without-id-{:016x}", digest(&Body::of(row).written())),
    }
}

fn headers(
    row: &Row,
    failure: &Failure,
    around: &Surroundings<'_>,
    event: &str,
    key: Option<&[u8]>,
) -> Vec<(Arc<str>, Bytes)> {
    let id = match around.route {
        Some(number) => format!("{event}/{number}"),
        None => event.to_owned(),
    };
    let room = around.limit.map_or(usize::MAX, |limit| limit / 8);
    let mut headers = vec![
        header(LETTER, id),
        header(EVENT_ID, event.to_owned()),
        header(KIND, failure.kind.name().to_owned()),
        header(REASON, failure.kind.reason().to_owned()),
        header(ERROR, body::beginning(&failure.detail, room).to_owned()),
        header(TABLE, table(row)),
        header(POSITION, around.position.to_owned()),
    ];
    let mut add = |name, value: Option<String>| headers.extend(value.map(|it| header(name, it)));
    add(TRANSACTION, around.transaction.map(str::to_owned));
    add(TIME, Some(around.time.to_string()));
    add(ROUTE, around.route.map(|number| number.to_string()));
    add(TOPIC, around.topic.map(str::to_owned));
    add(VERSION, Some(around.version.to_owned()));
    add(NAME, Some(around.name.to_owned()));
    add(OUT_OF_ORDER, around.out_of_order.then(|| "true".to_owned()));
    headers.extend(key.map(|key| (KEY.into(), Bytes::copy_from_slice(key))));
    headers
}

fn header(name: &str, value: String) -> (Arc<str>, Bytes) {
    (name.into(), value.into())
}

fn table(row: &Row) -> String {
    let table = &row.table;
    format!("{}.{}", table.schema, table.name)
}

/// FNV-1a: the same in every version and on every machine.
fn digest(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |digest, byte| {
        (digest ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3)
    })
}

#[cfg(test)]
mod tests;
