//! Avro's binary form of the smallest things.

pub use crate::varint::zigzag as long;

/// A length; nothing in memory is longer than a long can say.
#[inline]
pub fn length(out: &mut Vec<u8>, length: usize) {
    long(out, i64::try_from(length).unwrap_or(i64::MAX));
}

/// The length, then the bytes: bytes and text alike.
#[inline]
pub fn bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    length(out, bytes.len());
    out.extend_from_slice(bytes);
}

/// How many items of an array or map follow; none are written as their end alone.
#[inline]
pub fn count(out: &mut Vec<u8>, items: usize) {
    if items > 0 {
        length(out, items);
    }
}

/// The end of an array or map.
#[inline]
pub fn end(out: &mut Vec<u8>) {
    out.push(0);
}
