//! MySQL's binary JSON as text, byte for byte as Debezium streams it (no spaces, members as stored).
//!
//! Rule: a document is read in time and space proportional to its length, whatever its offsets say: what was read once is
//! not paid for twice. Nothing calls itself: documents nest a hundred deep at most, on a stack of our own.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod number;
mod opaque;
mod retell;

use super::reader::{Malformed, Reader, text as utf8};
pub(super) use retell::retell;

/// As deep as MySQL lets documents be.
const DEEPEST: usize = 100;

const SMALL_OBJECT: u8 = 0x00;
const LARGE_OBJECT: u8 = 0x01;
const SMALL_ARRAY: u8 = 0x02;
const LARGE_ARRAY: u8 = 0x03;
const LITERAL: u8 = 0x04;
const INT16: u8 = 0x05;
const UINT16: u8 = 0x06;
const INT32: u8 = 0x07;
const UINT32: u8 = 0x08;
const INT64: u8 = 0x09;
const UINT64: u8 = 0x0A;
const DOUBLE: u8 = 0x0B;
const STRING: u8 = 0x0C;
const OPAQUE: u8 = 0x0F;

/// A document's text. An empty one is what MySQL leaves where a JSON column had to be something and was given nothing.
pub(super) fn text(document: &[u8]) -> Result<String, Malformed> {
    let Some((kind, value)) = document.split_first() else {
        return Ok("null".to_owned());
    };
    let mut writer = Writer {
        text: String::with_capacity(document.len()),
        left: document.len().saturating_mul(2),
    };
    let mut open: Vec<Container<'_>> = Vec::new();
    if let Some(container) = writer.value(*kind, value)? {
        open.push(container);
    }
    while let Some(container) = open.last_mut() {
        let Some((kind, value)) = container.next(&mut writer)? else {
            writer.text.push(container.end());
            open.pop();
            continue;
        };
        if let Some(container) = writer.value(kind, value)? {
            if open.len() >= DEEPEST {
                return Err(Malformed("it nests too deeply"));
            }
            open.push(container);
        }
    }
    Ok(writer.text)
}

struct Writer {
    text: String,
    /// How many bytes may still be read: a document whose parts lie over each other would be read for ever.
    left: usize,
}

impl Writer {
    fn pay(&mut self, bytes: usize) -> Result<(), Malformed> {
        const OVERLAID: Malformed = Malformed("its parts lie over each other");
        self.left = self.left.checked_sub(bytes).ok_or(OVERLAID)?;
        Ok(())
    }

    /// Writes a value, or the beginning of a container.
    fn value<'a>(&mut self, kind: u8, value: &'a [u8]) -> Result<Option<Container<'a>>, Malformed> {
        let mut reader = Reader(value);
        match kind {
            SMALL_OBJECT | LARGE_OBJECT | SMALL_ARRAY | LARGE_ARRAY => {
                let container = Container::new(kind, value)?;
                self.text.push(if container.is_object { '{' } else { '[' });
                return Ok(Some(container));
            }
            LITERAL => self.text.push_str(match reader.u8()? {
                0 => "null",
                1 => "true",
                2 => "false",
                _ => return Err(Malformed("a literal of unknown form")),
            }),
            INT16 => self.int(reader.array().map(i16::from_le_bytes)?),
            UINT16 => self.int(reader.u16()?),
            INT32 => self.int(reader.array().map(i32::from_le_bytes)?),
            UINT32 => self.int(reader.u32()?),
            INT64 => self.int(reader.array().map(i64::from_le_bytes)?),
            UINT64 => self.int(reader.u64()?),
            DOUBLE => number::write(f64::from_le_bytes(reader.array()?), &mut self.text)?,
            STRING => {
                let length = length(&mut reader)?;
                let string = reader.take(length)?;
                self.string(string)?;
            }
            OPAQUE => {
                let kind = reader.u8()?;
                let length = length(&mut reader)?;
                self.pay(length)?;
                opaque::write(kind, reader.take(length)?, &mut self.text)?;
            }
            _ => return Err(Malformed("a value of an unknown type")),
        }
        Ok(None)
    }

    fn int(&mut self, number: impl std::fmt::Display) {
        use std::fmt::Write as _;
        let _ = write!(self.text, "{number}");
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.pay(bytes.len())?;
        let string = utf8(bytes).map_err(|_| Malformed("a text that is not UTF-8"))?;
        self.text.push('"');
        let mut rest = string;
        while let Some(place) = rest
            .bytes()
            .position(|byte| byte < 0x20 || matches!(byte, b'"' | b'\\'))
        {
            let (plain, special) = rest.split_at_checked(place).unwrap_or_default();
            self.text.push_str(plain);
            let mut special = special.chars();
            self.escape(special.next().unwrap_or_default());
            rest = special.as_str();
        }
        self.text.push_str(rest);
        self.text.push('"');
        Ok(())
    }

    fn escape(&mut self, character: char) {
        use std::fmt::Write as _;
        let short = match character {
            '"' | '\\' => character,
            '\u{8}' => 'b',
            '\t' => 't',
            '\u{c}' => 'f',
            '\n' => 'n',
            '\r' => 'r',
            other => {
                let _ = write!(self.text, "\\u{:04X}", u32::from(other));
                return;
            }
        };
        self.text.push('\\');
        self.text.push(short);
    }
}

/// Seven bits a byte, the lowest first; the highest bit says that another follows.
fn length(reader: &mut Reader<'_>) -> Result<usize, Malformed> {
    let mut length = 0_u64;
    for shift in [0, 7, 14, 21, 28] {
        let byte = reader.u8()?;
        length |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return usize::try_from(length).map_err(|_| Malformed("a length beyond all memory"));
        }
    }
    Err(Malformed("a length of too many bytes"))
}

/// An object or array, being written.
struct Container<'a> {
    /// Offsets count from its beginning.
    whole: &'a [u8],
    is_object: bool,
    is_large: bool,
    count: usize,
    at: usize,
}

impl<'a> Container<'a> {
    fn new(kind: u8, value: &'a [u8]) -> Result<Container<'a>, Malformed> {
        let is_large = matches!(kind, LARGE_OBJECT | LARGE_ARRAY);
        let mut reader = Reader(value);
        let width = if is_large { 4 } else { 2 };
        let count = usize::try_from(reader.uint(width)?).unwrap_or(usize::MAX);
        let size = usize::try_from(reader.uint(width)?).unwrap_or(usize::MAX);
        Ok(Container {
            whole: value.get(..size).ok_or(super::reader::CUT)?,
            is_object: matches!(kind, SMALL_OBJECT | LARGE_OBJECT),
            is_large,
            count,
            at: 0,
        })
    }

    fn end(&self) -> char {
        if self.is_object { '}' } else { ']' }
    }

    /// Writes what stands before the next value, and finds it.
    fn next(&mut self, writer: &mut Writer) -> Result<Option<(u8, &'a [u8])>, Malformed> {
        if self.at >= self.count {
            return Ok(None);
        }
        if self.at > 0 {
            writer.text.push(',');
        }
        let width: usize = if self.is_large { 4 } else { 2 };
        let head = width.saturating_mul(2);
        let key_width = width.saturating_add(2);
        let values = if self.is_object {
            self.entry(head, self.count, key_width)?
        } else {
            head
        };
        if self.is_object {
            let mut key = Reader(self.whole);
            key.skip(self.entry(head, self.at, key_width)?)?;
            let offset = usize::try_from(key.uint(width)?).unwrap_or(usize::MAX);
            let length = usize::from(key.u16()?);
            let mut name = Reader(self.whole);
            name.skip(offset)?;
            writer.string(name.take(length)?)?;
            writer.text.push(':');
        }
        let value_width = width.saturating_add(1);
        writer.pay(value_width)?;
        let mut entry = Reader(self.whole);
        entry.skip(self.entry(values, self.at, value_width)?)?;
        self.at = self.at.saturating_add(1);
        let kind = entry.u8()?;
        let inlined = match kind {
            LITERAL | INT16 | UINT16 => true,
            INT32 | UINT32 => self.is_large,
            _ => false,
        };
        if inlined {
            return Ok(Some((kind, entry.0)));
        }
        let offset = usize::try_from(entry.uint(width)?).unwrap_or(usize::MAX);
        let mut value = Reader(self.whole);
        value.skip(offset)?;
        Ok(Some((kind, value.0)))
    }

    fn entry(&self, from: usize, number: usize, width: usize) -> Result<usize, Malformed> {
        number
            .checked_mul(width)
            .and_then(|before| before.checked_add(from))
            .filter(|place| *place <= self.whole.len())
            .ok_or(super::reader::CUT)
    }
}

#[cfg(test)]
mod tests;
