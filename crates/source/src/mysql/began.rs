//! The events that begin a transaction and give it its name, in all their forms.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::decode::Header;
use super::gtid::{Gtid, MariaDbGtid, MySqlGtid, Sid};
use super::reader::{Malformed, Reader, text};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Began {
    /// None where the server does not name its transactions.
    pub gtid: Option<Gtid>,
    /// In microseconds since 1970, on the server that committed it first; none where the event does not tell.
    pub committed: Option<i64>,
    /// MariaDB: the event stands for a BEGIN. Where it does not, the next statement is the whole transaction.
    pub open: bool,
    /// MariaDB: it will be prepared, and ended by another. MySQL says so with an XA START.
    pub xa: bool,
}

/// MySQL's.
pub(super) fn named(mut reader: Reader<'_>) -> Result<Began, Malformed> {
    reader.skip(1)?; // flags
    let uuid = reader.array()?;
    let number = number(reader.u64()?)?;
    Ok(Began {
        gtid: Some(mysql(uuid, None, number)),
        committed: committed(reader)?,
        open: false,
        xa: false,
    })
}

/// MySQL's, while GTIDs are off: the same but for the name.
pub(super) fn anonymous(mut reader: Reader<'_>) -> Result<Began, Malformed> {
    reader.skip(1 + 16 + 8)?;
    Ok(Began {
        gtid: None,
        committed: committed(reader)?,
        open: false,
        xa: false,
    })
}

fn mysql(uuid: [u8; 16], tag: Option<&str>, number: u64) -> Gtid {
    Gtid::MySql(MySqlGtid {
        sid: Sid {
            uuid,
            tag: tag.map(Into::into),
        },
        number,
    })
}

fn number(number: u64) -> Result<u64, Malformed> {
    if number == 0 || i64::try_from(number).is_err() {
        return Err(Malformed("a GTID with an impossible number"));
    }
    Ok(number)
}

/// The logical clock, then the commit's time here (seven bytes; their highest bit says that another follows), and the one
/// on the first server if that was another. Servers before 8.0 have none of the times.
fn committed(mut reader: Reader<'_>) -> Result<Option<i64>, Malformed> {
    const OTHER_FOLLOWS: u64 = 1 << 55;
    if reader.is_empty() {
        return Ok(None);
    }
    reader.skip(1 + 16)?;
    if reader.is_empty() {
        return Ok(None);
    }
    let here = reader.uint(7)?;
    let first = if here & OTHER_FOLLOWS == 0 {
        here
    } else {
        reader.uint(7)?
    };
    Ok(time(first))
}

/// 0: an older server committed it first, and does not tell.
fn time(micros: u64) -> Option<i64> {
    i64::try_from(micros).ok().filter(|micros| *micros != 0)
}

/// MySQL's with a tag (since 8.3): fields with numbers, in the format of its `mysql::serialization`.
pub(super) fn tagged(mut reader: Reader<'_>) -> Result<Began, Malformed> {
    if varint(&mut reader)? != 1 {
        return Err(Malformed("a GTID event of an unknown version"));
    }
    varint(&mut reader)?; // its length
    let last_needed = varint(&mut reader)?;
    let mut uuid = [0; 16];
    let mut gno = None;
    let mut tag = None;
    let (mut here, mut first) = (None, None);
    while !reader.is_empty() {
        match varint(&mut reader)? {
            1 => {
                for byte in &mut uuid {
                    *byte = u8::try_from(varint(&mut reader)?)
                        .map_err(|_| Malformed("a uuid with an impossible byte"))?;
                }
            }
            2 => gno = Some(number(varint(&mut reader)? >> 1)?),
            3 => {
                let length = usize::try_from(varint(&mut reader)?).unwrap_or(usize::MAX);
                tag = Some(text(reader.take(length)?)?);
            }
            6 => here = Some(varint(&mut reader)?),
            7 => first = Some(varint(&mut reader)?),
            // Flags; the logical clock; the transaction's length; versions; a ticket.
            0 | 4 | 5 | 8..=11 => {
                varint(&mut reader)?;
            }
            // How long a field is only its number tells.
            unknown if unknown > last_needed => break,
            _ => return Err(Malformed("a GTID event with an unknown field")),
        }
    }
    let gno = gno.ok_or(Malformed("a GTID event without its number"))?;
    Ok(Began {
        gtid: Some(mysql(uuid, tag.filter(|tag| !tag.is_empty()), gno)),
        committed: first.or(here).and_then(time),
        open: false,
        xa: false,
    })
}

/// As many bytes follow the first as it has ones at its end; the number's bits begin behind the first zero.
fn varint(reader: &mut Reader<'_>) -> Result<u64, Malformed> {
    let first = reader.u8()?;
    let more = first.trailing_ones();
    if more == 8 {
        return reader.u64();
    }
    let rest = reader.uint(usize::try_from(more).unwrap_or_default())?;
    let own = u64::from(
        first
            .checked_shr(more.saturating_add(1))
            .unwrap_or_default(),
    );
    let own_bits = 7_u32.saturating_sub(more);
    Ok(rest << own_bits | own)
}

/// MariaDB's. Its server is the header's.
pub(super) fn mariadb(mut reader: Reader<'_>, header: &Header) -> Result<Began, Malformed> {
    const STANDALONE: u8 = 1;
    const PREPARED_XA: u8 = 0x40;
    let sequence = reader.u64()?;
    let domain = reader.u32()?;
    let flags = reader.u8()?;
    Ok(Began {
        gtid: Some(Gtid::MariaDb(MariaDbGtid {
            domain,
            server: header.server,
            sequence,
        })),
        committed: i64::from(header.timestamp).checked_mul(1_000_000),
        open: flags & STANDALONE == 0,
        xa: flags & PREPARED_XA != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bytes(hex: &str) -> Vec<u8> {
        hex.split_whitespace()
            .map(|byte| u8::from_str_radix(byte, 16).expect("hex"))
            .collect()
    }

    #[test]
    fn a_tagged_name_is_read() {
        let event = bytes(
            "02 78 00 00 02 02 25 02 dc f0 09 02 30 f9 03 22 bd 03 ad 02 21 02 44 44 5a 68 51 03 22 04 d9 03 \
             06 0c 61 61 62 62 63 63 08 00 0a 04 0c 7f cf de ef 6a 06 2e 06 10 45 03 12 c3 02 0b",
        );
        let began = tagged(Reader(&event)).expect("well-formed");
        assert_eq!(
            began.gtid.map(|gtid| gtid.to_string()).as_deref(),
            Some("896e7882-18fe-11ef-ab88-22222d34d411:aabbcc:123")
        );
        assert_eq!(began.committed, Some(1_739_454_959_050_447));
        for length in 0..event.len() - 12 {
            let _ = tagged(Reader(&event[..length]));
        }
    }

    #[test]
    fn a_number_is_as_long_as_its_first_byte_says() {
        for (text, number) in [
            ("00", 0),
            ("fe", 127),
            ("01 02", 128),
            ("25 02", 0x89),
            ("c3 02 0b", 90_200),
            ("7f cf de ef 6a 06 2e 06", 1_739_454_959_050_447),
            ("ff 01 00 00 00 00 00 00 80", (1 << 63) + 1),
        ] {
            assert_eq!(varint(&mut Reader(&bytes(text))), Ok(number), "{text}");
        }
    }
}
