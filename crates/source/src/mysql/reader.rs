//! Reads the binlog's numbers off the front of bytes: little-endian, but for what says otherwise.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

/// Bytes that are not what the log's format says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub(super) struct Malformed(pub(super) &'static str);

pub(super) const CUT: Malformed = Malformed("it ends too early");

/// The bytes that are left to read.
#[derive(Debug, Clone, Copy)]
pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl<'a> Reader<'a> {
    pub(super) fn take(&mut self, length: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(length).ok_or(CUT)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(CUT)?;
        self.0 = rest;
        Ok(*taken)
    }

    pub(super) fn skip(&mut self, length: usize) -> Result<(), Malformed> {
        self.take(length).map(|_| ())
    }

    pub(super) fn u8(&mut self) -> Result<u8, Malformed> {
        self.array().map(u8::from_le_bytes)
    }

    pub(super) fn u16(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_le_bytes)
    }

    pub(super) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_le_bytes)
    }

    pub(super) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array().map(u64::from_le_bytes)
    }

    /// A number of up to eight bytes.
    pub(super) fn uint(&mut self, length: usize) -> Result<u64, Malformed> {
        // The usual lengths are read as they are: a copy of so few bytes costs more than they are worth.
        match length {
            1 => self.u8().map(u64::from),
            2 => self.u16().map(u64::from),
            3 => self
                .array()
                .map(|[a, b, c]| u32::from_le_bytes([a, b, c, 0]).into()),
            4 => self.u32().map(u64::from),
            _ => {
                let mut all = [0; 8];
                let taken = self.take(length)?;
                all.get_mut(..length)
                    .ok_or(Malformed("a number of more than eight bytes"))?
                    .copy_from_slice(taken);
                Ok(u64::from_le_bytes(all))
            }
        }
    }

    /// A number that says in its first byte how long it is (the client protocol's).
    pub(super) fn packed(&mut self) -> Result<u64, Malformed> {
        match self.u8()? {
            small @ 0..=250 => Ok(u64::from(small)),
            252 => self.uint(2),
            253 => self.uint(3),
            254 => self.uint(8),
            _ => Err(Malformed("a packed number of unknown form")),
        }
    }

    /// A packed number that counts bytes or columns.
    pub(super) fn count(&mut self) -> Result<usize, Malformed> {
        usize::try_from(self.packed()?).map_err(|_| CUT)
    }

    /// Bytes behind a packed number that counts them.
    pub(super) fn counted(&mut self) -> Result<&'a [u8], Malformed> {
        let length = self.count()?;
        self.take(length)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A name or a message out of the log.
pub(super) fn text(bytes: &[u8]) -> Result<&str, Malformed> {
    std::str::from_utf8(bytes).map_err(|_| Malformed("a name that is not UTF-8"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_numbers_are_as_long_as_they_say() {
        for (bytes, number) in [
            (&[250][..], 250),
            (&[252, 251, 0], 251),
            (&[253, 0, 0, 1], 65_536),
            (&[254, 0, 0, 0, 0, 1, 0, 0, 0], 1 << 32),
        ] {
            let mut reader = Reader(bytes);
            assert_eq!(reader.packed(), Ok(number));
            assert!(reader.is_empty());
            assert_eq!(Reader(&bytes[..bytes.len() - 1]).packed(), Err(CUT));
        }
        assert!(Reader(&[251]).packed().is_err());
        assert!(Reader(&[255]).packed().is_err());
    }
}
