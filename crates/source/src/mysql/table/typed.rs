//! A column's type, and how long its cells are.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::super::flavor::Flavor;
use super::super::reader::{Malformed, Reader};
use super::{Length, Unfit};

/// The numbers of the types (`enum_field_types`).
pub(in super::super) mod code {
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const NEWDATE: u8 = 14;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const TIMESTAMP2: u8 = 17;
    pub const DATETIME2: u8 = 18;
    pub const TIME2: u8 = 19;
    /// MariaDB's compressed columns.
    pub const BLOB_COMPRESSED: u8 = 140;
    pub const VARCHAR_COMPRESSED: u8 = 141;
    pub const VECTOR: u8 = 242;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    pub const GEOMETRY: u8 = 255;
}

/// A column's type as the map has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in super::super) struct Typed {
    pub code: u8,
    /// What else the type needs: a length, digits.
    pub meta: [u8; 2],
}

impl Typed {
    /// ENUM, SET and long CHARs hide behind STRING.
    pub(super) fn read(code: u8, metadata: &mut Reader<'_>) -> Result<Typed, Unfit> {
        let meta = match code {
            code::FLOAT
            | code::DOUBLE
            | code::TIMESTAMP2
            | code::DATETIME2
            | code::TIME2
            | code::TINY_BLOB..=code::BLOB
            | code::BLOB_COMPRESSED
            | code::JSON
            | code::VECTOR
            | code::GEOMETRY => [metadata.u8()?, 0],
            code::VARCHAR
            | code::VAR_STRING
            | code::VARCHAR_COMPRESSED
            | code::BIT
            | code::NEWDECIMAL
            | code::ENUM
            | code::SET
            | code::STRING => metadata.array()?,
            code::TINY..=code::NEWDATE => [0; 2],
            unknown => return Err(Unfit::Unknown(unknown)),
        };
        if code == code::STRING {
            return Ok(Typed::string(meta));
        }
        Ok(Typed { code, meta })
    }

    /// The first byte is the true type; two bits of it, inverted, belong to the length.
    fn string([kind, length]: [u8; 2]) -> Typed {
        match kind {
            code::ENUM | code::SET => Typed {
                code: kind,
                meta: [kind, length],
            },
            kind => {
                let length = u16::from(length) | u16::from((kind & 0x30) ^ 0x30) << 4;
                Typed {
                    code: code::STRING,
                    meta: length.to_le_bytes(),
                }
            }
        }
    }

    /// In bytes, of those that have one.
    pub(super) fn longest(self) -> usize {
        usize::from(u16::from_le_bytes(self.meta))
    }

    pub(super) fn is_number(self) -> bool {
        matches!(
            self.code,
            code::TINY
                | code::SHORT
                | code::INT24
                | code::LONG
                | code::LONGLONG
                | code::NEWDECIMAL
                | code::FLOAT
                | code::DOUBLE
        )
    }

    /// The log tells its character set; MySQL also that of vectors, MariaDB that of shapes (which have none).
    pub(super) fn has_characters(self, flavor: Flavor) -> bool {
        match self.code {
            code::STRING
            | code::VAR_STRING
            | code::VARCHAR
            | code::TINY_BLOB..=code::BLOB
            | code::BLOB_COMPRESSED
            | code::VARCHAR_COMPRESSED => true,
            code::VECTOR => flavor == Flavor::MySql,
            code::GEOMETRY => flavor == Flavor::MariaDb,
            _ => false,
        }
    }

    pub(super) fn length(self) -> Result<Length, Unfit> {
        let [first, second] = self.meta.map(usize::from);
        Ok(match self.code {
            code::NULL => Length::Fixed(0),
            code::TINY | code::YEAR => Length::Fixed(1),
            code::SHORT => Length::Fixed(2),
            code::INT24 | code::DATE | code::NEWDATE | code::TIME => Length::Fixed(3),
            code::LONG | code::TIMESTAMP | code::FLOAT => Length::Fixed(4),
            code::LONGLONG | code::DATETIME | code::DOUBLE => Length::Fixed(8),
            code::TIMESTAMP2 => Length::Fixed(4_usize.saturating_add(first.div_ceil(2))),
            code::DATETIME2 => Length::Fixed(5_usize.saturating_add(first.div_ceil(2))),
            code::TIME2 => Length::Fixed(3_usize.saturating_add(first.div_ceil(2))),
            // Bits above the whole bytes, then the bytes.
            code::BIT => Length::Fixed(second.saturating_add(usize::from(first > 0))),
            code::NEWDECIMAL => Length::Fixed(decimal(first, second)?),
            code::ENUM | code::SET => Length::Fixed(second),
            code::STRING | code::VARCHAR | code::VAR_STRING | code::VARCHAR_COMPRESSED => {
                Length::Counted(if self.longest() > 255 { 2 } else { 1 })
            }
            code::TINY_BLOB..=code::BLOB
            | code::BLOB_COMPRESSED
            | code::JSON
            | code::VECTOR
            | code::GEOMETRY
                if (1..=4).contains(&first) =>
            {
                Length::Counted(first)
            }
            code::TINY_BLOB..=code::BLOB
            | code::BLOB_COMPRESSED
            | code::JSON
            | code::VECTOR
            | code::GEOMETRY => {
                return Err(Malformed("a column with an impossible length").into());
            }
            unknown => return Err(Unfit::Unknown(unknown)),
        })
    }
}

/// Nine digits are four bytes; those left over take as many as they need.
pub(in super::super) fn decimal(precision: usize, scale: usize) -> Result<usize, Malformed> {
    const BYTES: [usize; 9] = [0, 1, 1, 2, 2, 3, 3, 4, 4];
    let whole = precision.checked_sub(scale).ok_or(Malformed(
        "a decimal with more digits behind its point than it has",
    ))?;
    let part = |digits: usize| {
        let rest = BYTES.get(digits % 9).copied().unwrap_or_default();
        (digits / 9).saturating_mul(4).saturating_add(rest)
    };
    Ok(part(whole).saturating_add(part(scale)))
}
