//! Protobuf's wire format: tags, varints, and lengths that are known only after what they stand before.

use crate::varint;

/// How a value is laid out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Wire {
    Varint = 0,
    Eight = 1,
    Sized = 2,
    GroupStart = 3,
    GroupEnd = 4,
    Four = 5,
}

/// A field's number and layout, ready to be written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tag(u32);

impl Tag {
    pub const fn new(number: u32, wire: Wire) -> Tag {
        Tag(number << 3 | wire as u32)
    }

    /// The same field's tag with another layout.
    pub const fn with(self, wire: Wire) -> Tag {
        Tag(self.0 & !7 | wire as u32)
    }

    pub fn write(self, out: &mut Vec<u8>) {
        varint::unsigned(out, u64::from(self.0));
    }
}

/// Any signed number, negative ones in ten bytes.
pub fn signed(out: &mut Vec<u8>, value: i64) {
    varint::unsigned(out, value.cast_unsigned());
}

/// A tag, a length, and so many bytes.
pub fn sized(out: &mut Vec<u8>, tag: Tag, bytes: &[u8]) {
    tag.write(out);
    varint::unsigned(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Takes a field off the front of a message: its tag and its bytes. None where they are cut, or groups.
pub fn take<'b>(bytes: &mut &'b [u8]) -> Option<(Tag, &'b [u8])> {
    let tag = u32::try_from(varint::take(bytes)?).ok()?;
    let before = *bytes;
    let value = match tag & 7 {
        tag if tag == Wire::Varint as u32 => {
            varint::take(bytes)?;
            before.get(..before.len() - bytes.len())?
        }
        tag if tag == Wire::Eight as u32 => varint::take_sized(bytes, 8)?,
        tag if tag == Wire::Sized as u32 => {
            let length = varint::take(bytes)?;
            varint::take_sized(bytes, length)?
        }
        tag if tag == Wire::Four as u32 => varint::take_sized(bytes, 4)?,
        _ => return None,
    };
    Some((Tag(tag), value))
}

/// Room for a length that will be known later.
#[derive(Debug)]
#[must_use]
pub struct Gap {
    at: usize,
    size: usize,
}

impl Gap {
    /// `expected` is a guess: where it is right, nothing has to be moved, and huge values are moved at no level of nesting.
    pub fn open(out: &mut Vec<u8>, expected: usize) -> Gap {
        let gap = Gap {
            at: out.len(),
            size: varint::size(expected as u64),
        };
        out.resize(gap.at + gap.size, 0);
        gap
    }

    /// Puts in the length of what was written since.
    pub fn close(self, out: &mut Vec<u8>) {
        let start = self.at + self.size;
        let length = out.len() - start;
        let size = varint::size(length as u64);
        if size > self.size {
            out.resize(out.len() + size - self.size, 0);
            out.copy_within(start..start + length, self.at + size);
        } else if size < self.size {
            out.copy_within(start.., self.at + size);
            out.truncate(self.at + size + length);
        }
        let mut rest = length;
        for place in &mut out[self.at..self.at + size] {
            let more = if rest >= 0x80 { 0x80 } else { 0 };
            *place = varint::low_bits(rest as u64) | more;
            rest >>= 7;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_length_is_right_whatever_was_expected() {
        for length in [0, 1, 127, 128, 300, 16_383, 16_384, 2_097_152] {
            for expected in [0, 127, 128, 16_384, 2_097_152] {
                let mut out = vec![7];
                let gap = Gap::open(&mut out, expected);
                out.extend(std::iter::repeat_n(9, length));
                gap.close(&mut out);
                let mut wanted = vec![7];
                varint::unsigned(&mut wanted, length as u64);
                wanted.extend(std::iter::repeat_n(9, length));
                assert_eq!(out, wanted, "{length} bytes, {expected} expected");
            }
        }
    }
}
