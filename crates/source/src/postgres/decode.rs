//! pgoutput's messages, read from bytes (protocol version 1).
//!
//! In: one message. Out: what it says. Rule: any bytes at all give a message or `Malformed`, never a panic; a tuple is
//! only cut into cells when somebody wants them, so that a foreign table's row costs a look at its relation.
//! The manual: "Logical Replication Message Formats".
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

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

/// Messages made by hand.
#[cfg(test)]
pub(super) mod made {
    use super::{Bytes, Cell};

    pub fn relation(id: u32, schema: &str, name: &str, columns: &[(&str, u32)]) -> Bytes {
        let mut data = vec![b'R'];
        data.extend(id.to_be_bytes());
        data.extend(format!("{schema}\0{name}\0d").bytes());
        data.extend(u16::try_from(columns.len()).expect("few").to_be_bytes());
        for (name, oid) in columns {
            data.push(0);
            data.extend(format!("{name}\0").bytes());
            data.extend(oid.to_be_bytes());
            data.extend((-1_i32).to_be_bytes());
        }
        data.into()
    }

    pub fn insert(relation: u32, cells: &[Cell]) -> Bytes {
        let mut data = vec![b'I'];
        data.extend(relation.to_be_bytes());
        data.push(b'N');
        data.extend(tuple(cells));
        data.into()
    }

    pub fn tuple(cells: &[Cell]) -> Bytes {
        let mut data = Vec::from(u16::try_from(cells.len()).expect("few").to_be_bytes());
        let counted = |form: u8, bytes: &Bytes| {
            let length = u32::try_from(bytes.len()).expect("short").to_be_bytes();
            [&[form], &length[..], bytes].concat()
        };
        for cell in cells {
            match cell {
                Cell::Null => data.push(b'n'),
                Cell::Unchanged => data.push(b'u'),
                Cell::Text(bytes) => data.extend(counted(b't', bytes)),
                Cell::Binary(bytes) => data.extend(counted(b'b', bytes)),
            }
        }
        data.into()
    }

    pub fn named(kind: u8, relation: u32) -> Bytes {
        [&[kind], &relation.to_be_bytes()[..]].concat().into()
    }

    pub fn truncate(relations: &[u32]) -> Bytes {
        let mut data = vec![b'T'];
        let count = u32::try_from(relations.len()).expect("few");
        data.extend(count.to_be_bytes());
        data.push(0);
        data.extend(relations.iter().flat_map(|id| id.to_be_bytes()));
        data.into()
    }

    pub fn type_of(oid: u32, schema: &str, name: &str) -> Bytes {
        let mut data = vec![b'Y'];
        data.extend(oid.to_be_bytes());
        data.extend(format!("{schema}\0{name}\0").bytes());
        data.into()
    }
}

/// What real servers sent (`tests/fixtures/postgres`).
#[cfg(test)]
pub(super) mod captured {
    use super::Bytes;

    macro_rules! captures {
        ($($name:literal),*) => {
            [$(($name, include_str!(concat!("../../../../tests/fixtures/postgres/", $name, ".hex")))),*]
        };
    }

    pub fn all() -> Vec<(&'static str, Vec<Bytes>)> {
        captures![
            "15-binary",
            "15-text",
            "17-binary",
            "17-text",
            "18-binary",
            "18-text"
        ]
        .map(|(name, hex)| (name, hex.lines().map(bytes).collect()))
        .to_vec()
    }

    fn bytes(line: &str) -> Bytes {
        let pair = |at| u8::from_str_radix(&line[at..at + 2], 16).expect("hex");
        (0..line.len()).step_by(2).map(pair).collect()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads all there is to read.
    fn read(data: Bytes) -> Result<(Message, Vec<Cell>), Malformed> {
        let message = message(data)?;
        let mut found = Vec::new();
        if let Message::Insert { tuple, .. } = &message {
            let mut cells = cells(tuple.clone())?;
            while let Some(cell) = cells.next()? {
                found.push(cell);
            }
        }
        Ok((message, found))
    }

    #[test]
    fn a_relation_is_read_with_its_columns() {
        let data = made::relation(7, "eventlog", "events", &[("id", 2950), ("payload", 3802)]);
        let Ok(Message::Relation(relation)) = message(data) else {
            panic!("no relation");
        };
        assert_eq!((relation.id, relation.schema.as_str()), (7, "eventlog"));
        assert_eq!(relation.name, "events");
        let columns: Vec<_> = relation
            .columns
            .iter()
            .map(|c| (c.name.as_str(), c.type_oid))
            .collect();
        assert_eq!(columns, [("id", 2950), ("payload", 3802)]);
    }

    #[test]
    fn a_tuple_is_cut_into_cells_of_every_form() {
        let cells = [
            Cell::Null,
            Cell::Text(Bytes::from_static(b"text")),
            Cell::Unchanged,
            Cell::Binary(Bytes::from_static(b"\x00\x01")),
            Cell::Text(Bytes::new()),
        ];
        let (message, found) = read(made::insert(7, &cells)).expect("well-formed");
        assert!(matches!(message, Message::Insert { relation: 7, .. }));
        assert_eq!(found, cells);
    }

    #[test]
    fn updates_deletes_and_truncates_name_their_relations() {
        assert_eq!(
            message(made::named(b'U', 7)),
            Ok(Message::Update { relation: 7 })
        );
        assert_eq!(
            message(made::named(b'D', 7)),
            Ok(Message::Delete { relation: 7 })
        );
        let relations = vec![7, 8];
        assert_eq!(
            message(made::truncate(&relations)),
            Ok(Message::Truncate { relations })
        );
    }

    #[test]
    fn what_was_not_asked_for_is_malformed() {
        // Streamed and two-phase transactions, and the two that the client keeps for itself.
        for kind in *b"SEcAbPKrpBC\0z" {
            assert!(
                message(made::named(kind, 7)).is_err(),
                "{}",
                char::from(kind)
            );
        }
        assert!(message(Bytes::new()).is_err());
        assert_eq!(message(Bytes::from_static(b"Mxyz")), Ok(Message::Other));
    }

    #[test]
    fn a_message_with_something_after_its_end_is_malformed() {
        for whole in [
            made::relation(7, "s", "t", &[("a", 25)]),
            made::insert(7, &[Cell::Null]),
            made::truncate(&[7]),
        ] {
            assert!(read(whole.clone()).is_ok());
            let longer = [&whole[..], b"\0"].concat();
            assert!(read(longer.into()).is_err());
        }
    }

    #[test]
    fn every_captured_message_is_read_whole_and_none_that_was_cut() {
        let mut kinds = std::collections::BTreeMap::new();
        for (name, messages) in captured::all() {
            for data in messages {
                let kind = data[0];
                *kinds.entry(kind).or_insert(0) += 1;
                if matches!(kind, b'B' | b'C') {
                    continue;
                }
                assert!(read(data.clone()).is_ok(), "{name}");
                for length in 0..data.len() {
                    let cut = read(data.slice(..length));
                    // Of these nothing but the relation is looked at.
                    if !matches!(kind, b'U' | b'D' | b'M') {
                        assert!(cut.is_err(), "{name}: {} of {}", length, data.len());
                    }
                }
            }
        }
        let expected = *b"BCDIMRTUY";
        assert_eq!(kinds.into_keys().collect::<Vec<u8>>(), expected);
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(data: Vec<u8>) {
            let _ = read(data.into());
        }

        #[test]
        fn corrupted_messages_are_survived(which in 0..288_usize, at: usize, to: Vec<u8>) {
            let all = captured::all();
            let mut messages = all.into_iter().flat_map(|(_, messages)| messages);
            let mut data = messages.nth(which).expect("so many").to_vec();
            let at = at % data.len();
            for (place, byte) in data[at..].iter_mut().zip(to) {
                *place = byte;
            }
            let _ = read(data.into());
        }
    }
}
