//! MySQL's binary JSON as text, byte for byte as Debezium streams it (no spaces, members as stored).
//!
//! Rule: a document is read in time and space proportional to its length, whatever its offsets say: what was read once is
//! not paid for twice. Nothing calls itself: documents nest a hundred deep at most, on a stack of our own.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod number;
mod opaque;
mod retell;

use super::reader::{Malformed, Reader};
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
        text: Vec::with_capacity(document.len()),
        left: document.len().saturating_mul(2),
        rare: String::new(),
    };
    let mut open: Vec<Container<'_>> = Vec::new();
    if let Some(container) = writer.value(*kind, value)? {
        open.push(container);
    }
    while let Some(container) = open.last_mut() {
        let Some((kind, value)) = container.next(&mut writer)? else {
            writer
                .text
                .push(if container.is_object { b'}' } else { b']' });
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
    String::from_utf8(writer.text).map_err(|_| Malformed("a text that is not UTF-8"))
}

struct Writer {
    /// UTF-8 if every string in it is, for what stands between them is ASCII: looked at once, at the end.
    text: Vec<u8>,
    /// How many bytes may still be read: a document whose parts lie over each other would be read for ever.
    left: usize,
    /// Where values are written that are no texts, integers or literals.
    rare: String,
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
                self.text
                    .push(if container.is_object { b'{' } else { b'[' });
                return Ok(Some(container));
            }
            LITERAL => self.text.extend_from_slice(match reader.u8()? {
                0 => b"null",
                1 => b"true",
                2 => b"false",
                _ => return Err(Malformed("a literal of unknown form")),
            }),
            INT16 => self.int(reader.array().map(i16::from_le_bytes)?),
            UINT16 => self.int(reader.u16()?),
            INT32 => self.int(reader.array().map(i32::from_le_bytes)?),
            UINT32 => self.int(reader.u32()?),
            INT64 => self.int(reader.array().map(i64::from_le_bytes)?),
            UINT64 => self.int(reader.u64()?),
            DOUBLE => {
                let number = f64::from_le_bytes(reader.array()?);
                self.rarely(|text| number::write(number, text))?;
            }
            STRING => {
                let length = length(&mut reader)?;
                let string = reader.take(length)?;
                self.string(string)?;
            }
            OPAQUE => {
                let kind = reader.u8()?;
                let length = length(&mut reader)?;
                self.pay(length)?;
                let value = reader.take(length)?;
                self.rarely(|text| opaque::write(kind, value, text))?;
            }
            _ => return Err(Malformed("a value of an unknown type")),
        }
        Ok(None)
    }

    fn int(&mut self, number: impl itoa::Integer) {
        let mut digits = itoa::Buffer::new();
        self.text
            .extend_from_slice(digits.format(number).as_bytes());
    }

    fn rarely(
        &mut self,
        write: impl FnOnce(&mut String) -> Result<(), Malformed>,
    ) -> Result<(), Malformed> {
        self.rare.clear();
        write(&mut self.rare)?;
        self.text.extend_from_slice(self.rare.as_bytes());
        Ok(())
    }

    fn string(&mut self, bytes: &[u8]) -> Result<(), Malformed> {
        self.pay(bytes.len())?;
        self.text.push(b'"');
        if is_plain(bytes) {
            self.text.extend_from_slice(bytes);
        } else {
            for byte in bytes {
                self.byte(*byte);
            }
        }
        self.text.push(b'"');
        Ok(())
    }

    fn byte(&mut self, byte: u8) {
        let short = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            0x0C => b'f',
            b'\n' => b'n',
            b'\r' => b'r',
            0x00..0x20 => {
                self.text.extend_from_slice(b"\\u00");
                self.text.push(b'0'.saturating_add(byte >> 4));
                self.text.push(hexadecimal(byte & 0x0F));
                return;
            }
            plain => return self.text.push(plain),
        };
        self.text.extend_from_slice(&[b'\\', short]);
    }
}

fn hexadecimal(digit: u8) -> u8 {
    match digit {
        0..10 => b'0'.saturating_add(digit),
        _ => b'A'.saturating_sub(10).saturating_add(digit),
    }
}

/// Whether nothing in it is to be escaped; eight bytes at a time.
fn is_plain(bytes: &[u8]) -> bool {
    const EACH: u64 = u64::MAX / 0xFF;
    const HIGH: u64 = EACH * 0x80;
    const QUOTES: u64 = EACH * 0x22;
    const BACKSLASHES: u64 = EACH * 0x5C;
    // The highest bit of a byte is set where it was below the other one, or of a neighbour above such a byte.
    let below = |word: u64, bound: u64| word.wrapping_sub(bound) & !word & HIGH;
    let (words, rest) = bytes.as_chunks::<8>();
    words.iter().all(|word| {
        let word = u64::from_le_bytes(*word);
        let found =
            below(word, EACH * 0x20) | below(word ^ QUOTES, EACH) | below(word ^ BACKSLASHES, EACH);
        found == 0
    }) && rest
        .iter()
        .all(|byte| *byte >= 0x20 && !matches!(byte, b'"' | b'\\'))
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
    /// The members' names that are still to come, each an offset and a length; and their values, each a type and a value or
    /// its offset.
    names: Reader<'a>,
    values: Reader<'a>,
    left: usize,
    is_first: bool,
}

impl<'a> Container<'a> {
    fn new(kind: u8, value: &'a [u8]) -> Result<Container<'a>, Malformed> {
        let is_large = matches!(kind, LARGE_OBJECT | LARGE_ARRAY);
        let is_object = matches!(kind, SMALL_OBJECT | LARGE_OBJECT);
        let mut head = Reader(value);
        let width = if is_large { 4 } else { 2 };
        let count = offset(&mut head, width)?;
        let size = offset(&mut head, width)?;
        let whole = value.get(..size).ok_or(super::reader::CUT)?;
        let mut names = Reader(whole);
        names.skip(width.saturating_mul(2))?;
        let mut values = names;
        if is_object {
            values.skip(count.saturating_mul(width.saturating_add(2)))?;
        }
        Ok(Container {
            whole,
            is_object,
            is_large,
            names,
            values,
            left: count,
            is_first: true,
        })
    }

    /// Writes what stands before the next value, and finds it.
    fn next(&mut self, writer: &mut Writer) -> Result<Option<(u8, &'a [u8])>, Malformed> {
        let Some(left) = self.left.checked_sub(1) else {
            return Ok(None);
        };
        self.left = left;
        if !std::mem::take(&mut self.is_first) {
            writer.text.push(b',');
        }
        let width: usize = if self.is_large { 4 } else { 2 };
        if self.is_object {
            let place = offset(&mut self.names, width)?;
            let mut name = self.at(place)?;
            let length = usize::from(self.names.u16()?);
            writer.string(name.take(length)?)?;
            writer.text.push(b':');
        }
        writer.pay(width.saturating_add(1))?;
        let kind = self.values.u8()?;
        let value = self.values;
        let place = offset(&mut self.values, width)?;
        let is_inlined = match kind {
            LITERAL | INT16 | UINT16 => true,
            INT32 | UINT32 => self.is_large,
            _ => false,
        };
        let value = if is_inlined { value } else { self.at(place)? };
        Ok(Some((kind, value.0)))
    }

    fn at(&self, offset: usize) -> Result<Reader<'a>, Malformed> {
        let mut reader = Reader(self.whole);
        reader.skip(offset)?;
        Ok(reader)
    }
}

/// An offset, a count or a size.
fn offset(reader: &mut Reader<'_>, width: usize) -> Result<usize, Malformed> {
    reader
        .uint(width)
        .map(|offset| usize::try_from(offset).unwrap_or(usize::MAX))
}

#[cfg(test)]
mod tests;
