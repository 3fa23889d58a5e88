//! A cell of SQLite to a neutral value: by what is stored, and by the declared type where SQLite has no type of its own.

#![deny(clippy::indexing_slicing)]

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::instant;
use headwater_core::row::Value;
use rusqlite::types::ValueRef;

/// What a column's declared type says beyond what SQLite stores.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Declared {
    Date,
    Boolean,
    Other,
}

impl Declared {
    pub fn as_type(declared: &str) -> Declared {
        let word = declared.trim_start().to_ascii_uppercase();
        if word.starts_with("TIMESTAMP") || word.starts_with("DATETIME") {
            Declared::Date
        } else if word.starts_with("BOOL") {
            Declared::Boolean
        } else {
            Declared::Other
        }
    }
}

pub(super) fn value(cell: ValueRef<'_>, declared: Declared) -> Value {
    match (cell, declared) {
        (ValueRef::Null, _) => Value::Null,
        (ValueRef::Text(text), _) => match std::str::from_utf8(text) {
            Ok(text) if declared == Declared::Date => date(text),
            Ok(text) => Value::Text(ByteString::from(text)),
            Err(_) => Value::Unreadable("is text that is not UTF-8".into()),
        },
        (ValueRef::Blob(bytes), _) => Value::Bytes(Bytes::copy_from_slice(bytes)),
        (ValueRef::Real(_), _) => Value::Unreadable("is a floating-point number".into()),
        (ValueRef::Integer(number), Declared::Date) => {
            Value::Unreadable(format!("must be {WANTED}, and is the number {number}"))
        }
        (ValueRef::Integer(number @ (0 | 1)), Declared::Boolean) => Value::Bool(number == 1),
        (ValueRef::Integer(number), _) => Value::Int(number),
    }
}

const WANTED: &str = "a UTC date and time such as '2026-06-11 10:22:47.000123'";

fn date(text: &str) -> Value {
    match micros(text) {
        Ok(micros) => Value::Micros(micros),
        Err(Unfit::Finer) => Value::Unreadable(format!("is finer than a microsecond: '{text}'")),
        Err(Unfit::Malformed) => {
            let start: String = text.chars().take(40).collect();
            Value::Unreadable(format!("must be {WANTED}, and begins '{start}'"))
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
enum Unfit {
    Malformed,
    Finer,
}

/// `YYYY-MM-DD[ T]HH:MM:SS[.f{1,9}][Z]`.
fn micros(text: &str) -> Result<i64, Unfit> {
    let text = text.strip_suffix('Z').unwrap_or(text);
    let (date, time) = text.split_once([' ', 'T']).ok_or(Unfit::Malformed)?;
    let (clock, digits) = time.split_once('.').unwrap_or((time, "0"));
    let seconds = seconds(date, clock).ok_or(Unfit::Malformed)?;
    Ok(seconds * 1_000_000 + fraction(digits)?)
}

fn seconds(date: &str, clock: &str) -> Option<i64> {
    let [year, month, day] = three(date, '-', 4)?;
    let [hour, minute, second] = three(clock, ':', 2)?;
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    Some(instant::days(year, month, day)? * 86_400 + hour * 3600 + minute * 60 + second)
}

/// Three numbers: `first` digits, two and two.
fn three(text: &str, between: char, first: usize) -> Option<[i64; 3]> {
    let mut parts = text.split(between);
    let mut part = |digits| number(parts.next()?, digits);
    let numbers = [part(first)?, part(2)?, part(2)?];
    parts.next().is_none().then_some(numbers)
}

fn number(text: &str, digits: usize) -> Option<i64> {
    let plain = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    plain.then(|| text.parse().ok())?
}

fn fraction(digits: &str) -> Result<i64, Unfit> {
    if !(1..=9).contains(&digits.len()) {
        return Err(Unfit::Malformed);
    }
    let nanos = number(&format!("{digits:0<9}"), 9).ok_or(Unfit::Malformed)?;
    if nanos % 1000 == 0 {
        Ok(nanos / 1000)
    } else {
        Err(Unfit::Finer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn dates_are_read_in_every_form_that_means_one_moment() {
        for (text, expected) in [
            ("1970-01-01 00:00:00", 0),
            ("1970-01-01T00:00:00Z", 0),
            ("1970-01-01 00:00:00.000001", 1),
            ("1970-01-01T00:00:00.1Z", 100_000),
            ("1970-01-01 00:00:00.123456000", 123_456),
            ("1969-12-31 23:59:59.999999", -1),
            ("2026-06-12 03:22:47.000123", 1_781_234_567_000_123),
            ("2000-02-29 00:00:00", 951_782_400_000_000),
            ("9999-12-31 23:59:59.999999", 253_402_300_799_999_999),
        ] {
            assert_eq!(micros(text), Ok(expected), "{text}");
        }
    }

    #[test]
    fn a_date_that_is_finer_than_a_microsecond_is_unreadable_and_never_cut() {
        for text in [
            "1970-01-01 00:00:00.1234567",
            "1970-01-01 00:00:00.000000001",
        ] {
            assert_eq!(micros(text), Err(Unfit::Finer), "{text}");
            let Value::Unreadable(what) = value(ValueRef::Text(text.as_bytes()), Declared::Date)
            else {
                panic!("{text} was read");
            };
            assert!(what.starts_with("is finer than a microsecond"), "{what}");
        }
    }

    #[test]
    fn what_only_looks_like_a_date_is_unreadable() {
        for text in [
            "",
            "now",
            "2026-06-12",
            "2026-06-12 03:22",
            "2026-02-30 00:00:00",
            "2026-06-12 24:00:00",
            "2026-06-12 23:60:00",
            "2026-06-12 23:59:60",
            "2026-06-12  3:22:47",
            "2026-06-12 +3:22:47",
            "2026-6-12 03:22:47",
            "26-06-12 03:22:47",
            "2026-06-12 03:22:47.",
            "2026-06-12 03:22:47.1234567890",
            "2026-06-12 03:22:47.12x",
            "2026-06-12 03:22:47+02:00",
            "2026-06-12 03:22:47 Z",
            "2026-06-12-01 03:22:47",
            "2026-06-12 03:22:47:00",
            " 2026-06-12 03:22:47",
            "２026-06-12 03:22:47",
        ] {
            assert_eq!(micros(text), Err(Unfit::Malformed), "{text}");
        }
    }

    #[test]
    fn a_value_is_what_is_stored_in_the_light_of_what_was_declared() {
        use Declared::{Boolean, Date, Other};
        let unreadable = |what: &str| Value::Unreadable(what.into());
        for (cell, declared, expected) in [
            (ValueRef::Null, Date, Value::Null),
            (ValueRef::Null, Other, Value::Null),
            (ValueRef::Integer(0), Boolean, Value::Bool(false)),
            (ValueRef::Integer(1), Boolean, Value::Bool(true)),
            (ValueRef::Integer(2), Boolean, Value::Int(2)),
            (ValueRef::Integer(-1), Boolean, Value::Int(-1)),
            (ValueRef::Integer(1), Other, Value::Int(1)),
            (ValueRef::Integer(i64::MIN), Other, Value::Int(i64::MIN)),
            (ValueRef::Text(b"yes"), Boolean, Value::Text("yes".into())),
            (ValueRef::Text(b""), Other, Value::Text("".into())),
            (
                ValueRef::Text("Grüße 🍀".as_bytes()),
                Other,
                Value::Text("Grüße 🍀".into()),
            ),
            (
                ValueRef::Text(b"\xff\xfe"),
                Other,
                unreadable("is text that is not UTF-8"),
            ),
            (
                ValueRef::Text(b"\xff\xfe"),
                Date,
                unreadable("is text that is not UTF-8"),
            ),
            (
                ValueRef::Blob(&[0, 255]),
                Other,
                Value::Bytes(Bytes::from_static(&[0, 255])),
            ),
            (
                ValueRef::Real(1.5),
                Other,
                unreadable("is a floating-point number"),
            ),
            (
                ValueRef::Real(1.5),
                Date,
                unreadable("is a floating-point number"),
            ),
            (
                ValueRef::Integer(1_781_234_567),
                Date,
                unreadable(&format!("must be {WANTED}, and is the number 1781234567")),
            ),
            (
                ValueRef::Text(b"yesterday"),
                Date,
                unreadable(&format!("must be {WANTED}, and begins 'yesterday'")),
            ),
        ] {
            assert_eq!(value(cell, declared), expected, "{cell:?} as {declared:?}");
        }
    }

    #[test]
    fn declared_types_are_known_in_any_spelling() {
        for (text, expected) in [
            ("TIMESTAMP", Declared::Date),
            ("timestamp(6)", Declared::Date),
            ("DateTime", Declared::Date),
            ("BOOLEAN", Declared::Boolean),
            ("bool", Declared::Boolean),
            ("TEXT", Declared::Other),
            ("DATE", Declared::Other),
            ("", Declared::Other),
        ] {
            assert_eq!(Declared::as_type(text), expected, "{text}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_a_date_panic(text in ".*") {
            let _ = date(&text);
        }

        #[test]
        fn what_headwater_writes_as_a_moment_is_read_back(moment in -62_167_219_200_000_000_i64..253_402_300_800_000_000) {
            prop_assert_eq!(micros(&instant::Instant(moment).to_string()), Ok(moment));
        }
    }
}
