//! What COPY sends in its binary form, a row a message, cut into cells that share its bytes. Pure.
//!
//! In: the messages of one COPY, in their order ("Binary Format" in the manual of COPY).
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use bytes::{Buf, Bytes};

const SIGNATURE: &[u8] = b"PGCOPY\n\xff\r\n\0";
/// Instead of a number of cells, after the last row.
const END: i16 = -1;
/// Instead of a length.
const NULL: i32 = -1;

/// Bytes that are no such message.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Malformed;

/// What was read so far of one COPY.
#[derive(Default)]
pub(super) struct Copied {
    begun: bool,
}

impl Copied {
    /// The row of a message, or none if it has but the beginning or the end.
    pub(super) fn row(&mut self, mut message: Bytes) -> Result<Option<Cells>, Malformed> {
        if !self.begun {
            self.begun = true;
            message = behind_the_header(message)?;
            if message.is_empty() {
                return Ok(None);
            }
        }
        match message.try_get_i16().map_err(|_| Malformed)? {
            END if message.is_empty() => Ok(None),
            count => Ok(Some(Cells {
                left: count.try_into().map_err(|_| Malformed)?,
                rest: message,
            })),
        }
    }
}

fn behind_the_header(mut message: Bytes) -> Result<Bytes, Malformed> {
    if !message.starts_with(SIGNATURE) {
        return Err(Malformed);
    }
    message.advance(SIGNATURE.len());
    let _flags = message.try_get_u32().map_err(|_| Malformed)?;
    let more = message.try_get_u32().map_err(|_| Malformed)?;
    let more = usize::try_from(more).map_err(|_| Malformed)?;
    if more > message.len() {
        return Err(Malformed);
    }
    message.advance(more);
    Ok(message)
}

/// The cells of one row.
pub(super) struct Cells {
    left: u16,
    rest: Bytes,
}

impl Cells {
    /// The next cell; NULL is none.
    pub(super) fn next(&mut self) -> Result<Option<Bytes>, Malformed> {
        self.left = self.left.checked_sub(1).ok_or(Malformed)?;
        let length = self.rest.try_get_i32().map_err(|_| Malformed)?;
        if length == NULL {
            return Ok(None);
        }
        let length = usize::try_from(length).map_err(|_| Malformed)?;
        if length > self.rest.len() {
            return Err(Malformed);
        }
        Ok(Some(self.rest.split_to(length)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As PostgreSQL 17 answers `COPY (SELECT 'ab'::text, NULL::text) TO STDOUT (FORMAT binary)`.
    const HEADER: &[u8] = b"PGCOPY\n\xff\r\n\0\0\0\0\0\0\0\0\0";
    const ROW: &[u8] = b"\0\x02\0\0\0\x02ab\xff\xff\xff\xff";
    const TRAILER: &[u8] = b"\xff\xff";

    fn cells(row: Option<Cells>) -> Result<Vec<Option<Bytes>>, Malformed> {
        let mut row = row.ok_or(Malformed)?;
        (0..2).map(|_| row.next()).collect()
    }

    fn wanted() -> Vec<Option<Bytes>> {
        vec![Some(Bytes::from_static(b"ab")), None]
    }

    #[test]
    fn the_header_comes_with_the_first_row_or_alone() {
        let mut copied = Copied::default();
        let first = copied.row([HEADER, ROW].concat().into());
        assert_eq!(first.and_then(cells), Ok(wanted()));
        let second = copied.row(Bytes::from_static(ROW));
        assert_eq!(second.and_then(cells), Ok(wanted()));
        assert!(matches!(copied.row(Bytes::from_static(TRAILER)), Ok(None)));

        let mut copied = Copied::default();
        assert!(matches!(copied.row(Bytes::from_static(HEADER)), Ok(None)));
        let first = copied.row(Bytes::from_static(ROW));
        assert_eq!(first.and_then(cells), Ok(wanted()));

        // Of no row at all.
        let mut copied = Copied::default();
        let nothing = copied.row([HEADER, TRAILER].concat().into());
        assert!(matches!(nothing, Ok(None)));
    }

    #[test]
    fn what_is_cut_off_is_malformed_and_no_shorter_row() {
        let whole: Bytes = [HEADER, ROW].concat().into();
        for some in 0..whole.len() {
            let mut copied = Copied::default();
            let row = copied.row(whole.slice(..some));
            assert_eq!(row.and_then(cells), Err(Malformed), "{some} bytes");
        }
    }

    #[test]
    fn no_byte_that_is_wrong_can_do_harm() {
        let whole = [HEADER, ROW].concat();
        for place in 0..whole.len() {
            for wrong in [0, 1, 0x7f, 0x80, 0xff] {
                let mut bytes = whole.clone();
                bytes[place] = wrong;
                let mut copied = Copied::default();
                let _ = copied.row(bytes.into()).and_then(cells);
            }
        }
    }
}
