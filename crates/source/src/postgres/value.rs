//! A cell of PostgreSQL's, by its type, as a neutral value.
//!
//! In: text as the server prints it under our session's settings (ISO dates, UTC, hex), or its binary form.
//! Out: a `Value`; what cannot be read is `Unreadable` and says so as the end of a sentence ("column x ...").
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::instant;
use headwater_core::row::Value;

use super::decode::Cell;

/// 2000-01-01, from which PostgreSQL counts, in microseconds since 1970.
pub(super) const EPOCH: i64 = 946_684_800_000_000;
const MICROS_PER_DAY: i64 = 86_400_000_000;

/// How a type is read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Kind {
    Bool,
    Int,
    /// Also json, enums and everything else whose binary form is its text.
    Text,
    Jsonb,
    Uuid,
    Bytea,
    /// With or without time zone: both are counted in UTC.
    Timestamp,
    Date,
    /// Readable as text only; the type's name.
    Other(String),
}

impl Kind {
    /// The types that every server has, under the same oids (`pg_type.dat`).
    pub(super) fn builtin(oid: u32) -> Option<Kind> {
        Some(match oid {
            16 => Kind::Bool,
            17 => Kind::Bytea,
            20 | 21 | 23 => Kind::Int,
            // name, text, json, bpchar, varchar
            19 | 25 | 114 | 1042 | 1043 => Kind::Text,
            1082 => Kind::Date,
            1114 | 1184 => Kind::Timestamp,
            2950 => Kind::Uuid,
            3802 => Kind::Jsonb,
            _ => return None,
        })
    }

    /// The same types by their names in `pg_catalog`.
    pub(super) fn named(name: &str) -> Option<Kind> {
        Some(match name {
            "bool" => Kind::Bool,
            "bytea" => Kind::Bytea,
            "int2" | "int4" | "int8" => Kind::Int,
            "name" | "text" | "json" | "bpchar" | "varchar" => Kind::Text,
            "date" => Kind::Date,
            "timestamp" | "timestamptz" => Kind::Timestamp,
            "uuid" => Kind::Uuid,
            "jsonb" => Kind::Jsonb,
            _ => return None,
        })
    }
}

pub(super) fn read(kind: &Kind, cell: Cell) -> Value {
    match cell {
        Cell::Null => Value::Null,
        Cell::Unchanged => Value::Absent,
        Cell::Text(bytes) => from_text(kind, bytes),
        Cell::Binary(bytes) => from_binary(kind, bytes),
    }
}

fn from_binary(kind: &Kind, bytes: Bytes) -> Value {
    match kind {
        Kind::Bool => match *bytes {
            [byte] => Value::Bool(byte != 0),
            _ => unreadable("is no boolean"),
        },
        Kind::Int => int(&bytes).map_or_else(|| unreadable("is no number"), Value::Int),
        Kind::Text => text(bytes),
        Kind::Jsonb => jsonb(bytes),
        Kind::Uuid => match <[u8; 16]>::try_from(bytes.as_ref()) {
            Ok(uuid) => Value::Uuid(uuid),
            Err(_) => unreadable("is no uuid"),
        },
        Kind::Bytea => Value::Bytes(bytes),
        Kind::Timestamp => match int(&bytes).filter(|_| bytes.len() == 8) {
            Some(micros) => timestamp(micros),
            None => unreadable("is no date and time"),
        },
        Kind::Date => match int(&bytes).filter(|_| bytes.len() == 4) {
            Some(days) => date(days),
            None => unreadable("is no date"),
        },
        Kind::Other(name) => Value::Unreadable(format!(
            "has the type {name}, whose binary form Headwater does not read; give the column another type (text, for one)"
        )),
    }
}

fn from_text(kind: &Kind, bytes: Bytes) -> Value {
    let Ok(string) = std::str::from_utf8(&bytes) else {
        return unreadable(NOT_UTF8);
    };
    match kind {
        Kind::Text | Kind::Jsonb | Kind::Other(_) => text(bytes),
        Kind::Bool => match string {
            "t" => Value::Bool(true),
            "f" => Value::Bool(false),
            _ => unreadable("is no boolean"),
        },
        Kind::Int => match string.parse() {
            Ok(number) => Value::Int(number),
            Err(_) => unreadable("is no number"),
        },
        Kind::Uuid => uuid(string).map_or_else(|| unreadable("is no uuid"), Value::Uuid),
        Kind::Bytea => match string.strip_prefix("\\x").and_then(hex) {
            Some(bytes) => Value::Bytes(bytes.into()),
            None => unreadable("is no bytea in hex form"),
        },
        Kind::Timestamp | Kind::Date => moment(string),
    }
}

const NOT_UTF8: &str = "is not valid UTF-8";

fn unreadable(what: &str) -> Value {
    Value::Unreadable(what.to_owned())
}

fn text(bytes: Bytes) -> Value {
    ByteString::try_from(bytes).map_or_else(|_| unreadable(NOT_UTF8), Value::Text)
}

fn int(bytes: &[u8]) -> Option<i64> {
    match *bytes {
        [a, b] => Some(i16::from_be_bytes([a, b]).into()),
        [a, b, c, d] => Some(i32::from_be_bytes([a, b, c, d]).into()),
        _ => Some(i64::from_be_bytes(bytes.try_into().ok()?)),
    }
}

/// A version byte, then text (`jsonb_send`).
fn jsonb(mut bytes: Bytes) -> Value {
    match bytes.first().copied() {
        Some(1) => {
            let _version = bytes.split_to(1);
            text(bytes)
        }
        Some(version) => Value::Unreadable(format!("is jsonb of the unknown version {version}")),
        None => unreadable("is no jsonb"),
    }
}

fn timestamp(since_2000: i64) -> Value {
    match since_2000 {
        i64::MAX => unreadable("is infinity"),
        i64::MIN => unreadable("is -infinity"),
        micros => match micros.checked_add(EPOCH) {
            Some(micros) => Value::Micros(micros),
            // The last thirty years of PostgreSQL's range do not fit when counted from 1970.
            None => unreadable(OUT_OF_RANGE),
        },
    }
}

const OUT_OF_RANGE: &str = "is too far from 1970 to be counted in microseconds";

fn date(days_since_2000: i64) -> Value {
    if days_since_2000 == i64::from(i32::MAX) {
        return unreadable("is infinity");
    }
    if days_since_2000 == i64::from(i32::MIN) {
        return unreadable("is -infinity");
    }
    days_since_2000
        .checked_mul(MICROS_PER_DAY)
        .and_then(|micros| micros.checked_add(EPOCH))
        .map_or_else(|| unreadable(OUT_OF_RANGE), Value::Micros)
}

/// `YYYY-MM-DD[ HH:MM:SS[.ffffff][+00]][ BC]`; a year has at least four digits.
fn moment(text: &str) -> Value {
    if matches!(text, "infinity" | "-infinity") {
        return Value::Unreadable(format!("is {text}"));
    }
    let (text, before_christ) = match text.strip_suffix(" BC") {
        Some(text) => (text, true),
        None => (text, false),
    };
    let (date, time) = match text.split_once(' ') {
        Some((date, time)) => (date, time.strip_suffix("+00").unwrap_or(time)),
        None => (text, "00:00:00"),
    };
    let Some((days, micros)) = day(date, before_christ).zip(time_of_day(time)) else {
        return unreadable("is no date and time");
    };
    days.checked_mul(MICROS_PER_DAY)
        .and_then(|before| before.checked_add(micros))
        .map_or_else(|| unreadable(OUT_OF_RANGE), Value::Micros)
}

fn day(text: &str, before_christ: bool) -> Option<i64> {
    let mut parts = text.split('-');
    let year = digits(parts.next()?, 4..=6)?;
    let month = digits(parts.next()?, 2..=2)?;
    let day = digits(parts.next()?, 2..=2)?;
    if parts.next().is_some() || year == 0 {
        return None;
    }
    // 1 BC is the year 0.
    let year = if before_christ {
        1_i64.checked_sub(year)?
    } else {
        year
    };
    instant::days(year, month, day)
}

fn time_of_day(text: &str) -> Option<i64> {
    let (clock, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = clock.split(':');
    let hours = digits(parts.next()?, 2..=2).filter(|hours| *hours < 24)?;
    let minutes = digits(parts.next()?, 2..=2).filter(|minutes| *minutes < 60)?;
    let seconds = digits(parts.next()?, 2..=2).filter(|seconds| *seconds < 60)?;
    if parts.next().is_some() || fraction.len() > 6 {
        return None;
    }
    let micros = digits(&format!("{fraction:0<6}"), 6..=6)?;
    let minutes = hours.checked_mul(60)?.checked_add(minutes)?;
    let seconds = minutes.checked_mul(60)?.checked_add(seconds)?;
    seconds.checked_mul(1_000_000)?.checked_add(micros)
}

fn digits(text: &str, length: std::ops::RangeInclusive<usize>) -> Option<i64> {
    let all = text.bytes().all(|b| b.is_ascii_digit());
    (all && length.contains(&text.len())).then_some(())?;
    text.parse().ok()
}

fn uuid(text: &str) -> Option<[u8; 16]> {
    let hyphens_stand_right = text.len() == 36
        && text
            .bytes()
            .enumerate()
            .all(|(place, b)| (b == b'-') == matches!(place, 8 | 13 | 18 | 23));
    hyphens_stand_right.then_some(())?;
    let digits: String = text.split('-').collect();
    hex(&digits)?.try_into().ok()
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let (pairs, odd) = text.as_bytes().as_chunks::<2>();
    odd.is_empty().then_some(())?;
    pairs
        .iter()
        .map(|[high, low]| Some(nibble(*high)? << 4 | nibble(*low)?))
        .collect()
}

fn nibble(digit: u8) -> Option<u8> {
    char::from(digit)
        .to_digit(16)
        .and_then(|n| u8::try_from(n).ok())
}

#[cfg(test)]
mod tests {
    use headwater_core::instant::Instant;
    use proptest::prelude::*;

    use super::*;

    fn binary(kind: &Kind, bytes: &[u8]) -> Value {
        read(kind, Cell::Binary(Bytes::copy_from_slice(bytes)))
    }

    fn printed(kind: &Kind, text: &str) -> Value {
        read(kind, Cell::Text(Bytes::copy_from_slice(text.as_bytes())))
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    fn why(value: &Value) -> &str {
        match value {
            Value::Unreadable(why) => why,
            other => panic!("readable: {other:?}"),
        }
    }

    #[test]
    fn null_and_unchanged_need_no_type() {
        assert_eq!(read(&Kind::Uuid, Cell::Null), Value::Null);
        assert_eq!(
            read(&Kind::Other("point".into()), Cell::Unchanged),
            Value::Absent
        );
    }

    #[test]
    fn both_forms_of_a_value_are_the_same_value() {
        let uuid = *b"\x00\x11\x22\x33\x44\x55\x66\x77\x88\x99\xaa\xbb\xcc\xdd\xee\xff";
        let bytes = Bytes::from_static(b"\x00\xff\x7f");
        let since_2000 = |micros: i64| micros.to_be_bytes().to_vec();
        for (kind, in_binary, in_text, value) in [
            (Kind::Bool, vec![1], "t", Value::Bool(true)),
            (Kind::Bool, vec![0], "f", Value::Bool(false)),
            (Kind::Int, vec![0xff, 0xf9], "-7", Value::Int(-7)),
            (Kind::Int, vec![0, 1, 0, 0], "65536", Value::Int(65536)),
            (
                Kind::Int,
                i64::MIN.to_be_bytes().to_vec(),
                "-9223372036854775808",
                Value::Int(i64::MIN),
            ),
            (
                Kind::Text,
                b"Gr\xc3\xbc\xc3\x9fe".to_vec(),
                "Grüße",
                text("Grüße"),
            ),
            (Kind::Text, vec![], "", text("")),
            (
                Kind::Jsonb,
                b"\x01{\"a\": 1}".to_vec(),
                "{\"a\": 1}",
                text("{\"a\": 1}"),
            ),
            (
                Kind::Uuid,
                uuid.to_vec(),
                "00112233-4455-6677-8899-aabbccddeeff",
                Value::Uuid(uuid),
            ),
            (
                Kind::Bytea,
                bytes.to_vec(),
                "\\x00ff7f",
                Value::Bytes(bytes),
            ),
            (Kind::Bytea, vec![], "\\x", Value::Bytes(Bytes::new())),
            (
                Kind::Timestamp,
                since_2000(0),
                "2000-01-01 00:00:00",
                Value::Micros(EPOCH),
            ),
            (
                Kind::Timestamp,
                since_2000(0),
                "2000-01-01 00:00:00+00",
                Value::Micros(EPOCH),
            ),
            (
                Kind::Timestamp,
                since_2000(-EPOCH - 1),
                "1969-12-31 23:59:59.999999",
                Value::Micros(-1),
            ),
            (
                Kind::Timestamp,
                since_2000(1),
                "2000-01-01 00:00:00.000001",
                Value::Micros(EPOCH + 1),
            ),
            (
                Kind::Timestamp,
                since_2000(500_000),
                "2000-01-01 00:00:00.5",
                Value::Micros(EPOCH + 500_000),
            ),
            (
                Kind::Date,
                1_i32.to_be_bytes().to_vec(),
                "2000-01-02",
                Value::Micros(EPOCH + MICROS_PER_DAY),
            ),
            (
                Kind::Date,
                (-10_957_i32).to_be_bytes().to_vec(),
                "1970-01-01",
                Value::Micros(0),
            ),
        ] {
            assert_eq!(binary(&kind, &in_binary), value, "{kind:?} {in_text}");
            assert_eq!(printed(&kind, in_text), value, "{kind:?} {in_text}");
        }
    }

    #[test]
    fn infinity_is_there_but_cannot_be_read() {
        for (kind, bytes, says) in [
            (Kind::Timestamp, i64::MAX.to_be_bytes().to_vec(), "infinity"),
            (
                Kind::Timestamp,
                i64::MIN.to_be_bytes().to_vec(),
                "-infinity",
            ),
            (Kind::Date, i32::MAX.to_be_bytes().to_vec(), "infinity"),
            (Kind::Date, i32::MIN.to_be_bytes().to_vec(), "-infinity"),
        ] {
            let expected = format!("is {says}");
            assert_eq!(why(&binary(&kind, &bytes)), expected);
            assert_eq!(why(&printed(&kind, says)), expected);
        }
    }

    #[test]
    fn years_before_christ_and_after_9999_are_read() {
        let at = |text| printed(&Kind::Timestamp, text);
        assert_eq!(
            at("0001-12-31 23:59:59.999999 BC"),
            Value::Micros(-62_135_596_800_000_001)
        );
        assert_eq!(
            at("0044-03-15 00:00:00 BC"),
            Value::Micros(-63_517_824_000_000_000)
        );
        assert_eq!(
            at("0044-03-15 00:00:00+00 BC"),
            Value::Micros(-63_517_824_000_000_000)
        );
        assert_eq!(
            at("10000-01-01 00:00:00"),
            Value::Micros(253_402_300_800_000_000)
        );
        assert_eq!(
            printed(&Kind::Date, "0044-03-15 BC"),
            Value::Micros(-63_517_824_000_000_000)
        );
    }

    #[test]
    fn the_last_years_that_postgres_has_are_out_of_range() {
        // 294276-12-31 23:59:59.999999, the last of all.
        let last = 9_223_371_331_199_999_999_i64;
        assert_eq!(
            why(&binary(&Kind::Timestamp, &last.to_be_bytes())),
            OUT_OF_RANGE
        );
        assert_eq!(
            why(&printed(&Kind::Timestamp, "294276-12-31 23:59:59.999999")),
            OUT_OF_RANGE
        );
        let days = 5_000_000_i32 * 100;
        assert_eq!(why(&binary(&Kind::Date, &days.to_be_bytes())), OUT_OF_RANGE);
        assert_eq!(
            binary(&Kind::Timestamp, &(i64::MAX - EPOCH).to_be_bytes()),
            Value::Micros(i64::MAX)
        );
    }

    #[test]
    fn what_does_not_fit_its_type_says_so() {
        for (kind, bytes, says) in [
            (Kind::Bool, &b"\0\0"[..], "is no boolean"),
            (Kind::Int, b"\0\0\0", "is no number"),
            (Kind::Uuid, b"\0", "is no uuid"),
            (Kind::Timestamp, b"\0\0\0\0", "is no date and time"),
            (Kind::Date, b"\0\0\0\0\0\0\0\0", "is no date"),
            (Kind::Text, b"\xff", "is not valid UTF-8"),
            (Kind::Jsonb, b"\x01\xff", "is not valid UTF-8"),
            (Kind::Jsonb, b"\x02{}", "is jsonb of the unknown version 2"),
            (Kind::Jsonb, b"", "is no jsonb"),
        ] {
            assert_eq!(why(&binary(&kind, bytes)), says);
        }
        for (kind, wrong) in [
            (Kind::Bool, "true"),
            (Kind::Int, "1.5"),
            (Kind::Uuid, "00112233445566778899aabbccddeeff"),
            (Kind::Uuid, "0011223-34455-6677-8899-aabbccddeeff"),
            (Kind::Uuid, "+0112233-4455-6677-8899-aabbccddeeff"),
            (Kind::Bytea, "abc"),
            (Kind::Bytea, "\\xabc"),
            (Kind::Timestamp, "2026-02-30 00:00:00"),
            (Kind::Timestamp, "2026-01-01 24:00:00"),
            (Kind::Timestamp, "2026-01-01 00:00:00.1234567"),
            (Kind::Timestamp, "2026-01-01 00:00:00+01"),
            (Kind::Timestamp, "01/02/2026 00:00:00"),
            (Kind::Timestamp, ""),
            (Kind::Date, "2026-1-1"),
            (Kind::Date, "0000-01-01"),
        ] {
            assert!(why(&printed(&kind, wrong)).starts_with("is no"), "{wrong}");
        }
    }

    #[test]
    fn another_type_is_read_as_text_only() {
        let other = Kind::Other("point".into());
        assert_eq!(printed(&other, "(1,2)"), text("(1,2)"));
        assert!(why(&binary(&other, b"\0")).contains("point"));
    }

    #[test]
    fn a_type_is_the_same_by_oid_and_by_name() {
        for (oid, name) in [
            (16, "bool"),
            (17, "bytea"),
            (19, "name"),
            (20, "int8"),
            (21, "int2"),
            (23, "int4"),
            (25, "text"),
            (114, "json"),
            (1042, "bpchar"),
            (1043, "varchar"),
            (1082, "date"),
            (1114, "timestamp"),
            (1184, "timestamptz"),
            (2950, "uuid"),
            (3802, "jsonb"),
        ] {
            assert!(Kind::builtin(oid).is_some(), "{name}");
            assert_eq!(Kind::builtin(oid), Kind::named(name));
        }
        assert_eq!(Kind::builtin(1700), None);
        assert_eq!(Kind::named("numeric"), None);
    }

    fn kinds() -> impl Strategy<Value = Kind> {
        prop_oneof![
            Just(Kind::Bool),
            Just(Kind::Int),
            Just(Kind::Text),
            Just(Kind::Jsonb),
            Just(Kind::Uuid),
            Just(Kind::Bytea),
            Just(Kind::Timestamp),
            Just(Kind::Date),
            Just(Kind::Other("x".into())),
        ]
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(kind in kinds(), bytes: Vec<u8>, text in "[-0-9: .+BCtfx\\\\]{0,30}") {
            let _ = binary(&kind, &bytes);
            let _ = read(&kind, Cell::Text(bytes.into()));
            let _ = printed(&kind, &text);
        }

        #[test]
        fn every_moment_is_the_same_in_both_forms(micros in -62_135_596_800_000_000..253_402_300_800_000_000_i64) {
            let iso = Instant(micros).to_string();
            let shown = iso.trim_end_matches('Z').replace('T', " ");
            prop_assert_eq!(printed(&Kind::Timestamp, &shown), Value::Micros(micros));
            let since_2000 = micros - EPOCH;
            prop_assert_eq!(binary(&Kind::Timestamp, &since_2000.to_be_bytes()), Value::Micros(micros));
        }
    }
}
