//! MariaDB's compressed events: a length of its own kind, then zlib.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::io::Read as _;

use flate2::read::ZlibDecoder;

use super::reader::{Malformed, Reader};

/// The first byte's highest bit is set, the next three tell the algorithm (0: zlib), the last three how many bytes the
/// length has, which come with the highest first.
pub(super) fn inflate(bytes: &[u8]) -> Result<Vec<u8>, Malformed> {
    let mut reader = Reader(bytes);
    let first = reader.u8()?;
    if first & 0xF0 != 0x80 {
        return Err(Malformed("compressed by an unknown algorithm"));
    }
    let length = reader
        .take(usize::from(first & 0x07))?
        .iter()
        .fold(0_u64, |length, byte| length << 8 | u64::from(*byte));
    let mut whole = Vec::new();
    // One byte more, to see whether there are too many; what is there is what grows the memory, not what is claimed.
    let read = ZlibDecoder::new(reader.0)
        .take(length.saturating_add(1))
        .read_to_end(&mut whole);
    match read {
        Ok(read) if u64::try_from(read) == Ok(length) => Ok(whole),
        Ok(_) => Err(Malformed("compressed, and of another length than it says")),
        Err(_) => Err(Malformed("compressed, and cannot be unpacked")),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::ZlibEncoder;

    use super::*;

    fn packed(plain: &[u8], length: &[u8]) -> Vec<u8> {
        let head = 0x80 | u8::try_from(length.len()).expect("short");
        let mut encoder = ZlibEncoder::new(Vec::new(), Compression::fast());
        encoder.write_all(plain).expect("memory");
        [&[head], length, &encoder.finish().expect("memory")].concat()
    }

    #[test]
    fn what_was_packed_comes_back() {
        let plain = vec![7; 300];
        assert_eq!(inflate(&packed(&plain, &[1, 44])), Ok(plain));
    }

    #[test]
    fn what_is_cut_or_lies_about_its_length_is_malformed() {
        let whole = packed(&[7; 300], &[1, 44]);
        for length in 0..whole.len() {
            assert!(inflate(&whole[..length]).is_err(), "{length}");
        }
        for length in [&[1, 43][..], &[1, 45], &[0], &[]] {
            assert!(inflate(&packed(&[7; 300], length)).is_err());
        }
        assert!(inflate(&[0x91, 1, 0]).is_err());
    }
}
