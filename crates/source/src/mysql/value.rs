//! A cell of a row in the binlog, by its column's kind, as a neutral value.
//!
//! Out: a `Value`; what cannot be read is `Unreadable` and says so as the end of a sentence ("column x ...").
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::instant;
use headwater_core::row::Value;

use super::charset::Charset;
use super::json;
use super::reader::Reader;

const MICROS_PER_SECOND: i64 = 1_000_000;

/// How a column's cells are read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Int {
        unsigned: bool,
    },
    Year,
    /// Of one bit, or of more.
    Bit {
        is_flag: bool,
    },
    Text(Charset),
    /// BINARY (also MariaDB's uuid): trailing zeros are cut in the log, and belong to the value.
    Padded {
        length: usize,
    },
    /// MySQL's binary form of it.
    Json,
    Date,
    /// With so many digits of fraction.
    DateTime(u8),
    Timestamp(u8),
    /// As servers before MySQL 5.6 stored them.
    OldDateTime,
    OldTimestamp,
    Enum(Arc<[ByteString]>),
    Set(Arc<[ByteString]>),
    /// The log has the choices' numbers, but does not tell their names.
    Unnamed,
    /// No field of a message is like it; the type's name.
    Other(&'static str),
}

/// What is kept as it is shares the bytes that it stands in.
pub(super) fn read(kind: &Kind, cell: &[u8], within: &Bytes) -> Value {
    match kind {
        Kind::Int { unsigned } => int(cell, *unsigned),
        Kind::Year => match *cell {
            [0] => Value::Int(0),
            [year] => Value::Int(i64::from(year).saturating_add(1900)),
            _ => unreadable("is no year"),
        },
        Kind::Bit { is_flag: true } => match *cell {
            [bit] => Value::Bool(bit != 0),
            _ => unreadable("is no bit"),
        },
        Kind::Bit { is_flag: false } => other("BIT"),
        Kind::Text(charset) => charset.read(within.slice_ref(cell)),
        Kind::Padded { length } => padded(within.slice_ref(cell), *length),
        Kind::Json => match json::text(cell) {
            Ok(text) => Value::Text(text.into()),
            Err(malformed) => Value::Unreadable(format!("is no JSON in MySQL's form: {malformed}")),
        },
        Kind::Date => date(cell),
        Kind::DateTime(digits) => date_time(cell, *digits),
        Kind::Timestamp(digits) => timestamp(cell, *digits),
        Kind::OldDateTime => old_date_time(cell),
        Kind::OldTimestamp => match Reader(cell).u32() {
            Ok(seconds) => moment(seconds, 0),
            Err(_) => unreadable(NO_MOMENT),
        },
        Kind::Enum(names) => choice(cell, names),
        Kind::Set(names) => choices(cell, names),
        Kind::Unnamed => unreadable(
            "is one of a list whose names are not in the log; set binlog_row_metadata = FULL",
        ),
        Kind::Other(name) => other(name),
    }
}

const NO_MOMENT: &str = "is no date and time";

fn unreadable(what: &str) -> Value {
    Value::Unreadable(what.to_owned())
}

fn other(name: &str) -> Value {
    Value::Unreadable(format!(
        "has the type {name}, which no field of a message can hold; give the column another type"
    ))
}

fn int(bytes: &[u8], unsigned: bool) -> Value {
    let mut all = [0; 8];
    let Some(place) = all.get_mut(..bytes.len()) else {
        return unreadable("is no number");
    };
    place.copy_from_slice(bytes);
    let number = u64::from_le_bytes(all);
    if unsigned {
        return match i64::try_from(number) {
            Ok(number) => Value::Int(number),
            Err(_) => Value::Unreadable(format!("is {number}, which is too large")),
        };
    }
    // The sign is the highest bit of what is there.
    let unused = 64_usize.saturating_sub(bytes.len().saturating_mul(8));
    let unused = u32::try_from(unused).unwrap_or_default();
    let number = number.checked_shl(unused).unwrap_or_default().cast_signed();
    Value::Int(number.checked_shr(unused).unwrap_or_default())
}

fn padded(cell: Bytes, length: usize) -> Value {
    if cell.len() >= length {
        return Value::Bytes(cell);
    }
    let mut whole = cell.to_vec();
    whole.resize(length, 0);
    Value::Bytes(whole.into())
}

/// Three bytes: five bits of day, four of month, the rest is the year.
fn date(cell: &[u8]) -> Value {
    match Reader(cell).uint(3) {
        Ok(packed) => calendar([packed >> 9, packed >> 5 & 15, packed & 31], [0; 3], 0),
        Err(_) => unreadable("is no date"),
    }
}

/// Five bytes, the highest first: a one, 17 bits of year times 13 plus month, five of day, five of hour, six of minute, six
/// of second. The fraction stands behind.
fn date_time(cell: &[u8], digits: u8) -> Value {
    let mut reader = Reader(cell);
    let (Ok(head), Ok(micros)) = (reader.array::<5>(), fraction(reader.0, digits)) else {
        return unreadable(NO_MOMENT);
    };
    let packed = head
        .iter()
        .fold(0, |packed, byte| packed << 8 | u64::from(*byte));
    let Some(packed) = packed.checked_sub(1 << 39) else {
        return unreadable(NO_MOMENT);
    };
    let months = packed >> 22;
    calendar(
        [months / 13, months % 13, packed >> 17 & 31],
        [packed >> 12 & 31, packed >> 6 & 63, packed & 63],
        micros,
    )
}

/// Digits of a decimal number: `YYYYMMDDhhmmss`.
fn old_date_time(cell: &[u8]) -> Value {
    let Ok(packed) = Reader(cell).u64() else {
        return unreadable(NO_MOMENT);
    };
    let two = |divisor: u64| packed.checked_div(divisor).unwrap_or_default() % 100;
    calendar(
        [packed / 10_000_000_000, two(100_000_000), two(1_000_000)],
        [two(10_000), two(100), two(1)],
        0,
    )
}

fn timestamp(cell: &[u8], digits: u8) -> Value {
    let mut reader = Reader(cell);
    let (Ok(seconds), Ok(micros)) = (reader.array(), fraction(reader.0, digits)) else {
        return unreadable(NO_MOMENT);
    };
    moment(u32::from_be_bytes(seconds), micros)
}

/// Seconds since 1970, of which 0 is kept for the zero date.
fn moment(seconds: u32, micros: i64) -> Value {
    if seconds == 0 {
        return unreadable("is 0000-00-00 00:00:00, which is no date");
    }
    match i64::from(seconds).checked_mul(MICROS_PER_SECOND) {
        Some(whole) => Value::Micros(whole.saturating_add(micros)),
        None => unreadable(NO_MOMENT),
    }
}

/// Two digits a byte, the highest first.
fn fraction(bytes: &[u8], digits: u8) -> Result<i64, ()> {
    let number = bytes
        .iter()
        .take(3)
        .fold(0_i64, |number, byte| number << 8 | i64::from(*byte));
    let (length, unit) = match digits {
        0 => (0, 1),
        1 | 2 => (1, 10_000),
        3 | 4 => (2, 100),
        5 | 6 => (3, 1),
        _ => return Err(()),
    };
    let micros = number.checked_mul(unit).ok_or(())?;
    if bytes.len() != length || micros >= MICROS_PER_SECOND {
        return Err(());
    }
    Ok(micros)
}

fn calendar(date: [u64; 3], time: [u64; 3], micros: i64) -> Value {
    let signed = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
    let ([year, month, day], [hour, minute, second]) = (date.map(signed), time.map(signed));
    let seconds = || {
        if hour > 23 || minute > 59 || second > 59 {
            return None;
        }
        instant::days(year, month, day)?
            .checked_mul(24)?
            .checked_add(hour)?
            .checked_mul(60)?
            .checked_add(minute)?
            .checked_mul(60)?
            .checked_add(second)
    };
    let whole = seconds().and_then(|seconds| seconds.checked_mul(MICROS_PER_SECOND));
    match whole.and_then(|whole| whole.checked_add(micros)) {
        Some(micros) => Value::Micros(micros),
        None => Value::Unreadable(format!(
            "is {year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}, which is no date"
        )),
    }
}

/// Counted from 1; 0 is the empty text that MySQL puts where a choice was wrong.
fn choice(cell: &[u8], names: &[ByteString]) -> Value {
    let Ok(number) = Reader(cell).uint(cell.len()) else {
        return unreadable("is none of its list");
    };
    let Some(place) = number.checked_sub(1) else {
        return Value::Text(ByteString::new());
    };
    let name = usize::try_from(place)
        .ok()
        .and_then(|place| names.get(place));
    name.map_or_else(
        || unreadable("is none of its list"),
        |name| Value::Text(name.clone()),
    )
}

/// One bit a name.
fn choices(cell: &[u8], names: &[ByteString]) -> Value {
    let Ok(bits) = Reader(cell).uint(cell.len()) else {
        return unreadable("is no set of its list");
    };
    let chosen: Vec<&str> = names
        .iter()
        .enumerate()
        .filter(|(place, _)| *place < 64 && bits >> place & 1 == 1)
        .map(|(_, name)| &**name)
        .collect();
    if usize::try_from(bits.count_ones()) != Ok(chosen.len()) {
        return unreadable("is no set of its list");
    }
    Value::Text(chosen.join(",").into())
}

#[cfg(test)]
mod tests {
    use headwater_core::instant::Instant;
    use proptest::prelude::*;

    use super::*;

    fn told(kind: &Kind, bytes: &[u8]) -> Value {
        let whole = Bytes::copy_from_slice(bytes);
        read(kind, &whole, &whole)
    }

    fn why(value: Value) -> String {
        match value {
            Value::Unreadable(why) => why,
            other => panic!("readable: {other:?}"),
        }
    }

    #[test]
    fn numbers_of_every_length_have_their_sign() {
        let signed = Kind::Int { unsigned: false };
        let unsigned = Kind::Int { unsigned: true };
        for (bytes, with, without) in [
            (&[0x80][..], -128, 128),
            (&[0x00, 0x80], -32_768, 32_768),
            (&[0xFF, 0xFF, 0xFF], -1, 16_777_215),
            (&[0x00, 0x00, 0x80], -8_388_608, 8_388_608),
            (&[0xFE, 0xFF, 0xFF, 0xFF], -2, 4_294_967_294),
            (&[1, 0, 0, 0, 0, 0, 0, 0], 1, 1),
        ] {
            assert_eq!(told(&signed, bytes), Value::Int(with));
            assert_eq!(told(&unsigned, bytes), Value::Int(without));
        }
        assert_eq!(told(&signed, &[0xFF; 8]), Value::Int(-1));
        let large = why(told(&unsigned, &[0xFF; 8]));
        assert_eq!(large, "is 18446744073709551615, which is too large");
    }

    #[test]
    fn a_date_that_is_none_says_so() {
        let zero = [0x80, 0, 0, 0, 0];
        for (kind, bytes, says) in [
            (
                Kind::DateTime(0),
                &zero[..],
                "is 0000-00-00 00:00:00, which is no date",
            ),
            (
                Kind::Timestamp(0),
                &[0; 4],
                "is 0000-00-00 00:00:00, which is no date",
            ),
            (
                Kind::Date,
                &[0; 3],
                "is 0000-00-00 00:00:00, which is no date",
            ),
            (
                Kind::OldDateTime,
                &[0; 8],
                "is 0000-00-00 00:00:00, which is no date",
            ),
            // 2024-00-05
            (
                Kind::Date,
                &[5, 0xD0, 0x0F],
                "is 2024-00-05 00:00:00, which is no date",
            ),
            (Kind::DateTime(0), &[0; 5], NO_MOMENT),
            (Kind::DateTime(0), &[0x80, 0, 0, 0], NO_MOMENT),
            (Kind::DateTime(6), &[0x80, 0, 0, 0, 0], NO_MOMENT),
            (Kind::DateTime(9), &[0x80, 0, 0, 0, 0], NO_MOMENT),
        ] {
            assert_eq!(why(told(&kind, bytes)), says, "{kind:?}");
        }
    }

    #[test]
    fn old_forms_are_read() {
        let old = 20_240_229_123_456_u64.to_le_bytes();
        let moment = 1_709_210_096_000_000;
        assert_eq!(told(&Kind::OldDateTime, &old), Value::Micros(moment));
        let seconds = 1_709_210_096_u32;
        assert_eq!(
            told(&Kind::OldTimestamp, &seconds.to_le_bytes()),
            Value::Micros(moment)
        );
        assert_eq!(
            told(
                &Kind::Timestamp(2),
                &[&seconds.to_be_bytes()[..], &[25]].concat()
            ),
            Value::Micros(moment + 250_000)
        );
        assert_eq!(told(&Kind::Year, &[124]), Value::Int(2024));
        assert_eq!(told(&Kind::Year, &[0]), Value::Int(0));
    }

    #[test]
    fn zeros_that_were_cut_come_back() {
        let padded = Kind::Padded { length: 16 };
        for cut in 0..=16_usize {
            let uuid: Vec<u8> = (1..=16).map(|n| if n > 16 - cut { 0 } else { 7 }).collect();
            assert_eq!(told(&padded, &uuid[..16 - cut]), Value::Bytes(uuid.into()));
        }
    }

    #[test]
    fn choices_have_their_names() {
        let names: Arc<[ByteString]> = ["a", "b", "Grüße"].map(ByteString::from).into();
        let text = |text: &str| Value::Text(text.into());
        let one = Kind::Enum(Arc::clone(&names));
        assert_eq!(told(&one, &[3]), text("Grüße"));
        assert_eq!(told(&one, &[0, 0]), text(""));
        assert!(why(told(&one, &[4])).contains("none of its list"));
        let several = Kind::Set(names);
        assert_eq!(told(&several, &[0b101]), text("a,Grüße"));
        assert_eq!(told(&several, &[0]), text(""));
        assert!(why(told(&several, &[0b1000])).contains("no set"));
        assert!(why(told(&Kind::Unnamed, &[1])).contains("FULL"));
    }

    #[test]
    fn a_bit_is_a_boolean_and_more_are_nothing() {
        assert_eq!(told(&Kind::Bit { is_flag: true }, &[1]), Value::Bool(true));
        assert!(why(told(&Kind::Bit { is_flag: false }, &[1])).contains("BIT"));
        assert!(why(told(&Kind::Other("DECIMAL"), &[1])).contains("DECIMAL"));
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            any::<bool>().prop_map(|unsigned| Kind::Int { unsigned }),
            Just(Kind::Year),
            Just(Kind::Text(Charset::Utf8)),
            Just(Kind::Text(Charset::named("latin2"))),
            Just(Kind::Text(Charset::named("utf16"))),
            Just(Kind::Text(Charset::named("utf32"))),
            Just(Kind::Padded { length: 16 }),
            Just(Kind::Json),
            Just(Kind::Date),
            (0..8_u8).prop_map(Kind::DateTime),
            (0..8_u8).prop_map(Kind::Timestamp),
            Just(Kind::OldDateTime),
            Just(Kind::OldTimestamp),
            Just(Kind::Enum(Arc::new([]))),
            Just(Kind::Set(Arc::new([]))),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(kind in kinds(), bytes: Vec<u8>) {
            let _ = told(&kind, &bytes);
        }

        #[test]
        fn every_moment_of_a_datetime_is_read(micros in -62_135_596_800_000_000..253_402_300_800_000_000_i64) {
            let iso = Instant(micros).to_string();
            let part = |from: usize, to: usize| iso[from..to].parse::<u64>().expect("digits");
            let months = part(0, 4) * 13 + part(5, 7);
            let packed = 1 << 39 | months << 22 | part(8, 10) << 17 | part(11, 13) << 12 | part(14, 16) << 6 | part(17, 19);
            let cell = [&packed.to_be_bytes()[3..], &part(20, 26).to_be_bytes()[5..]].concat();
            prop_assert_eq!(told(&Kind::DateTime(6), &cell), Value::Micros(micros));
        }
    }
}
