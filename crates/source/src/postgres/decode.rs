//! pgoutput's messages, read from bytes (protocol version 1).
//!
//! In: one message. Out: what it says. Rule: any bytes at all give a message or `Malformed`, never a panic; a tuple is
//! only cut into cells when somebody wants them, so that a foreign table's row costs a look at its relation.
//! The manual: "Logical Replication Message Formats".
#![deny(clippy::indexing_slicing, clippy::arithmetic_side_effects)]

use bytes::{Buf, Bytes};

/// Bytes that are no pgoutput message.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(pub(super) &'static str);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Message {
    Relation(Relation),
    Type(Type),
    Insert {
        relation: u32,
        tuple: Bytes,
    },
    Update {
        relation: u32,
    },
    Delete {
        relation: u32,
    },
    Truncate {
        relations: Vec<u32>,
    },
    /// It says nothing about rows.
    Other,
}

/// A table's definition. Sent before its first row, and again when it changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Relation {
    pub id: u32,
    pub schema: String,
    pub name: String,
    pub columns: Vec<Column>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Column {
    pub name: String,
    pub type_oid: u32,
}

/// A type that is not built in. A domain's message has the domain's oid and its base type's name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Type {
    pub oid: u32,
    /// Empty for `pg_catalog`.
    pub schema: String,
    pub name: String,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Cell {
    Null,
    /// A value stored out of line that the change did not touch.
    Unchanged,
    Text(Bytes),
    Binary(Bytes),
}

pub(super) fn message(mut data: Bytes) -> Result<Message, Malformed> {
    match byte(&mut data)? {
        b'I' => {
            let relation = number(&mut data)?;
            match byte(&mut data)? {
                b'N' => Ok(Message::Insert {
                    relation,
                    tuple: data,
                }),
                _ => Err(Malformed("an insert without its new tuple")),
            }
        }
        b'U' => Ok(Message::Update {
            relation: number(&mut data)?,
        }),
        b'D' => Ok(Message::Delete {
            relation: number(&mut data)?,
        }),
        b'T' => truncate(data),
        b'R' => relation(data),
        b'Y' => Ok(Message::Type(Type {
            oid: number(&mut data)?,
            schema: text(&mut data)?,
            name: text(&mut data)?,
        })),
        // Where a transaction came from, and messages that applications put into the log.
        b'O' | b'M' => Ok(Message::Other),
        _ => Err(Malformed("a kind of message that was not asked for")),
    }
}

fn truncate(mut data: Bytes) -> Result<Message, Malformed> {
    let count = number(&mut data)?;
    byte(&mut data)?; // CASCADE, RESTART IDENTITY
    let mut relations = Vec::new();
    for _ in 0..count {
        relations.push(number(&mut data)?);
    }
    nothing_left(&data)?;
    Ok(Message::Truncate { relations })
}

fn relation(mut data: Bytes) -> Result<Message, Malformed> {
    let id = number(&mut data)?;
    let schema = text(&mut data)?;
    let name = text(&mut data)?;
    byte(&mut data)?; // the replica identity
    let count = short(&mut data)?;
    let mut columns = Vec::new();
    for _ in 0..count {
        byte(&mut data)?; // part of the key?
        let name = text(&mut data)?;
        let type_oid = number(&mut data)?;
        number(&mut data)?; // the type's modifier
        columns.push(Column { name, type_oid });
    }
    nothing_left(&data)?;
    Ok(Message::Relation(Relation {
        id,
        schema,
        name,
        columns,
    }))
}

/// Cuts a tuple into its cells, which share its bytes.
pub(super) fn cells(mut tuple: Bytes) -> Result<Cells, Malformed> {
    Ok(Cells {
        left: short(&mut tuple)?,
        rest: tuple,
    })
}

/// The cells of one tuple.
pub(super) struct Cells {
    left: u16,
    rest: Bytes,
}

impl Cells {
    /// The next cell, or that there must be none.
    pub(super) fn next(&mut self) -> Result<Option<Cell>, Malformed> {
        let Some(left) = self.left.checked_sub(1) else {
            return nothing_left(&self.rest).map(|()| None);
        };
        self.left = left;
        let cell = match byte(&mut self.rest)? {
            b'n' => Cell::Null,
            b'u' => Cell::Unchanged,
            b't' => Cell::Text(counted(&mut self.rest)?),
            b'b' => Cell::Binary(counted(&mut self.rest)?),
            _ => return Err(Malformed("a cell of unknown form")),
        };
        Ok(Some(cell))
    }
}

fn byte(data: &mut Bytes) -> Result<u8, Malformed> {
    data.try_get_u8().map_err(|_| CUT)
}

fn short(data: &mut Bytes) -> Result<u16, Malformed> {
    data.try_get_u16().map_err(|_| CUT)
}

fn number(data: &mut Bytes) -> Result<u32, Malformed> {
    data.try_get_u32().map_err(|_| CUT)
}

fn counted(data: &mut Bytes) -> Result<Bytes, Malformed> {
    let length = usize::try_from(number(data)?).map_err(|_| CUT)?;
    if length > data.len() {
        return Err(CUT);
    }
    Ok(data.split_to(length))
}

fn text(data: &mut Bytes) -> Result<String, Malformed> {
    let end = data.iter().position(|b| *b == 0).ok_or(CUT)?;
    let text = data.split_to(end);
    byte(data)?; // the zero
    match std::str::from_utf8(&text) {
        Ok(text) => Ok(text.to_owned()),
        Err(_) => Err(Malformed("a name that is not UTF-8")),
    }
}

fn nothing_left(data: &Bytes) -> Result<(), Malformed> {
    if data.is_empty() {
        Ok(())
    } else {
        Err(Malformed("more bytes than the message has"))
    }
}

const CUT: Malformed = Malformed("the message ends too early");
