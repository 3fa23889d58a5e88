//! Whole numbers of as many bytes as they need, seven bits a byte, the lowest first: Avro and Protobuf write them alike.

/// A number without a sign.
#[inline]
pub fn unsigned(out: &mut Vec<u8>, value: u64) {
    let mut rest = value;
    while rest >= 0x80 {
        out.push(low_bits(rest) | 0x80);
        rest >>= 7;
    }
    out.push(low_bits(rest));
}

/// A number with a sign; those near zero in few bytes.
#[inline]
pub fn zigzag(out: &mut Vec<u8>, value: i64) {
    unsigned(out, ((value << 1) ^ (value >> 63)).cast_unsigned());
}

/// Takes a number off the front of bytes; none if it is not whole.
pub fn take(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = bytes.split_first()?;
        *bytes = rest;
        value |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

/// The same, of a number with a sign.
pub fn take_zigzag(bytes: &mut &[u8]) -> Option<i64> {
    let value = take(bytes)?;
    Some((value >> 1).cast_signed() ^ -(value & 1).cast_signed())
}

/// Takes so many bytes as the number before them says.
pub fn take_sized<'b>(bytes: &mut &'b [u8], length: u64) -> Option<&'b [u8]> {
    let (taken, rest) = bytes.split_at_checked(usize::try_from(length).ok()?)?;
    *bytes = rest;
    Some(taken)
}

/// How many bytes a number has.
#[inline]
pub fn size(value: u64) -> usize {
    let bits = u64::BITS - (value | 1).leading_zeros();
    bits.div_ceil(7) as usize
}

#[inline]
pub fn low_bits(value: u64) -> u8 {
    value.to_le_bytes()[0] & 0x7F
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(bytes: &[u8]) -> u64 {
        let parts = bytes.iter().zip(0..);
        parts.fold(0, |sum, (byte, place)| {
            sum | u64::from(byte & 0x7F) << (7 * place)
        })
    }

    #[test]
    fn every_length_is_read_back_and_known_before() {
        for bits in 0..64 {
            for value in [(1_u64 << bits) - 1, 1 << bits, u64::MAX] {
                let mut out = vec![7];
                unsigned(&mut out, value);
                assert_eq!(read(&out[1..]), value);
                assert_eq!(out.len() - 1, size(value), "{value}");
                let ends: Vec<bool> = out[1..].iter().map(|byte| *byte < 0x80).collect();
                assert_eq!(ends.iter().position(|end| *end), Some(ends.len() - 1));
            }
        }
    }

    #[test]
    fn what_was_written_is_taken_off_the_front() {
        for value in [0, 1, -1, 63, -64, 64, i64::MAX, i64::MIN] {
            let mut out = Vec::new();
            zigzag(&mut out, value);
            unsigned(&mut out, value.cast_unsigned());
            out.push(7);
            let mut rest = out.as_slice();
            assert_eq!(take_zigzag(&mut rest), Some(value));
            assert_eq!(take(&mut rest), Some(value.cast_unsigned()));
            assert_eq!(rest, [7]);
        }
        assert_eq!(take(&mut &[0x80, 0x80][..]), None);
        assert_eq!(take(&mut &[0xFF; 11][..]), None);
        assert_eq!(take_sized(&mut &[1, 2, 3][..], 4), None);
    }

    #[test]
    fn a_sign_takes_one_bit() {
        for (value, bytes) in [
            (0, vec![0]),
            (-1, vec![1]),
            (1, vec![2]),
            (-64, vec![0x7F]),
            (64, vec![0x80, 1]),
            (
                i64::MIN,
                vec![0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 0xFF, 1],
            ),
        ] {
            let mut out = Vec::new();
            zigzag(&mut out, value);
            assert_eq!(out, bytes, "{value}");
        }
    }
}
