//! Which character set a column's text is in, and that text as UTF-8.
//!
//! Rule: what is converted is converted exactly as the server would; everything else is unreadable, and says why.
#![deny(clippy::indexing_slicing)]

mod tables;

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::row::Value;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Charset {
    /// utf8mb4, utf8mb3 and ASCII: their bytes are UTF-8.
    Utf8,
    /// No text at all.
    Binary,
    /// One byte a character, ASCII below 0x80: these are the others.
    Single(&'static str, Arc<[char]>),
    /// utf16, utf16le and ucs2, by whether the lower byte comes first.
    Utf16 {
        lower_first: bool,
    },
    Utf32,
    /// It has a name, and Headwater cannot convert it.
    Foreign(String),
    /// The log does not tell.
    Untold,
}

impl Charset {
    /// By the number of one of its collations.
    pub(super) fn of_collation(collation: u64) -> Charset {
        match by_collation(collation) {
            Some(name) => Charset::named(name),
            None => Charset::Foreign(format!("of the unknown collation {collation}")),
        }
    }

    /// By the server's name for it.
    pub(super) fn named(name: &str) -> Charset {
        match name {
            "utf8mb4" | "utf8mb3" | "utf8" | "ascii" => Charset::Utf8,
            "binary" => Charset::Binary,
            "utf16" | "ucs2" => Charset::Utf16 { lower_first: false },
            "utf16le" => Charset::Utf16 { lower_first: true },
            "utf32" => Charset::Utf32,
            other => match tables::UPPER.iter().find(|(name, _)| *name == other) {
                Some((name, upper)) => Charset::Single(name, upper.chars().collect()),
                None => Charset::Foreign(other.to_owned()),
            },
        }
    }

    /// Text of a column, as a value. What is UTF-8 already shares the bytes.
    pub(super) fn read(&self, bytes: Bytes) -> Value {
        match self {
            Charset::Utf8 => match ByteString::try_from(bytes) {
                Ok(text) => Value::Text(text),
                Err(_) => unreadable("is not valid UTF-8"),
            },
            Charset::Binary => Value::Bytes(bytes),
            Charset::Single(name, upper) => single(name, upper, bytes),
            Charset::Utf16 { lower_first } => utf16(&bytes, *lower_first),
            Charset::Utf32 => utf32(&bytes),
            Charset::Foreign(name) => Value::Unreadable(format!(
                "is in the character set {name}, which Headwater does not convert; give the column utf8mb4"
            )),
            Charset::Untold => unreadable("is in a character set that the log does not tell"),
        }
    }
}

fn unreadable(what: &str) -> Value {
    Value::Unreadable(what.to_owned())
}

fn single(name: &str, upper: &[char], bytes: Bytes) -> Value {
    if bytes.is_ascii() {
        return Charset::Utf8.read(bytes);
    }
    let mut text = String::with_capacity(bytes.len().saturating_mul(2));
    for byte in &bytes {
        let character = match byte.checked_sub(0x80) {
            None => char::from(*byte),
            Some(place) => match upper.get(usize::from(place)) {
                Some(character) if *character != char::REPLACEMENT_CHARACTER => *character,
                _ => {
                    return Value::Unreadable(format!(
                        "has the byte 0x{byte:02x}, which means nothing in the character set {name}"
                    ));
                }
            },
        };
        text.push(character);
    }
    Value::Text(text.into())
}

fn utf16(bytes: &[u8], lower_first: bool) -> Value {
    let (pairs, odd) = bytes.as_chunks::<2>();
    let unit = |pair: &[u8; 2]| {
        if lower_first {
            u16::from_le_bytes(*pair)
        } else {
            u16::from_be_bytes(*pair)
        }
    };
    let text: Result<String, _> = char::decode_utf16(pairs.iter().map(unit)).collect();
    match text {
        Ok(text) if odd.is_empty() => Value::Text(text.into()),
        _ => unreadable("is not valid UTF-16"),
    }
}

fn utf32(bytes: &[u8]) -> Value {
    let (fours, odd) = bytes.as_chunks::<4>();
    let text: Option<String> = fours
        .iter()
        .map(|four| char::from_u32(u32::from_be_bytes(*four)))
        .collect();
    match text {
        Some(text) if odd.is_empty() => Value::Text(text.into()),
        _ => unreadable("is not valid UTF-32"),
    }
}

/// How many bytes a character has at most; none where Headwater does not know.
pub(super) fn longest(name: &str) -> Option<usize> {
    match name {
        "utf8mb4" | "utf16" | "utf16le" | "utf32" | "gb18030" => Some(4),
        "utf8mb3" | "utf8" | "ujis" | "eucjpms" => Some(3),
        "ucs2" | "big5" | "sjis" | "euckr" | "gb2312" | "gbk" | "cp932" => Some(2),
        "ascii" | "binary" | "swe7" => Some(1),
        other => {
            let known = tables::UPPER.iter().any(|(name, _)| *name == other);
            known.then_some(1)
        }
    }
}

/// `information_schema.collations` of MySQL 9.7 and MariaDB 10.11 and 11.8, which agree on every number that they share.
fn by_collation(collation: u64) -> Option<&'static str> {
    Some(match collation {
        1 | 84 => "big5",
        2 | 9 | 21 | 27 | 77 => "latin2",
        3 | 69 => "dec8",
        4 | 80 => "cp850",
        5 | 8 | 15 | 31 | 47..=49 | 94 => "latin1",
        6 | 72 => "hp8",
        7 | 74 => "koi8r",
        10 | 82 => "swe7",
        11 | 65 => "ascii",
        12 | 91 => "ujis",
        13 | 88 => "sjis",
        14 | 23 | 50..=52 => "cp1251",
        16 | 71 => "hebrew",
        18 | 89 => "tis620",
        19 | 85 => "euckr",
        20 | 41 | 42 | 79 => "latin7",
        22 | 75 => "koi8u",
        24 | 86 => "gb2312",
        25 | 70 => "greek",
        26 | 34 | 44 | 66 | 99 => "cp1250",
        28 | 87 => "gbk",
        29 | 58 | 59 => "cp1257",
        30 | 78 => "latin5",
        32 | 64 => "armscii8",
        33 | 76 | 83 | 192..=223 | 576..=579 | 2048..=2303 => "utf8mb3",
        35 | 90 | 128..=159 | 640..=642 | 2560..=2815 => "ucs2",
        36 | 68 => "cp866",
        37 | 73 => "keybcs2",
        38 | 43 => "macce",
        39 | 53 => "macroman",
        40 | 81 => "cp852",
        45 | 46 | 224..=247 | 255..=323 | 608..=611 | 2304..=2559 => "utf8mb4",
        54 | 55 | 101..=124 | 672..=674 | 2816..=3071 => "utf16",
        56 | 62 => "utf16le",
        57 | 67 => "cp1256",
        60 | 61 | 160..=183 | 736..=738 | 3072..=3327 => "utf32",
        63 => "binary",
        92 | 93 => "geostd8",
        95 | 96 => "cp932",
        97 | 98 => "eucjpms",
        248..=250 => "gb18030",
        // MariaDB's that do not pad: 1024 more than their like.
        1025..=1279 => return by_collation(collation.saturating_sub(1024)),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(name: &str, bytes: &[u8]) -> Value {
        Charset::named(name).read(Bytes::copy_from_slice(bytes))
    }

    fn text(text: &str) -> Value {
        Value::Text(text.into())
    }

    #[test]
    fn utf8_and_ascii_share_their_bytes_and_are_checked() {
        for name in ["utf8mb4", "utf8mb3", "ascii"] {
            assert_eq!(read(name, b"Gr\xc3\xbc"), text("Grü"));
            assert_eq!(
                read(name, b"Gr\xfc"),
                Value::Unreadable("is not valid UTF-8".into())
            );
        }
    }

    #[test]
    fn single_bytes_are_converted_as_the_server_does() {
        assert_eq!(
            read("latin1", b"Gr\xfc\xdfe \x80 \x81"),
            text("Grüße € \u{81}")
        );
        assert_eq!(read("latin2", b"\xb1\xe6\xea"), text("ąćę"));
        assert_eq!(read("cp1251", b"\xcf\xf0\xe8"), text("При"));
        assert_eq!(read("koi8r", b"\xf0\xd2\xc9"), text("При"));
        assert_eq!(read("latin1", b"plain"), text("plain"));
        assert_eq!(
            read("cp1250", b"a\x81"),
            Value::Unreadable(
                "has the byte 0x81, which means nothing in the character set cp1250".into()
            )
        );
    }

    #[test]
    fn every_table_has_all_of_its_half() {
        for (name, upper) in tables::UPPER {
            assert_eq!(upper.chars().count(), 128, "{name}");
        }
    }

    #[test]
    fn wide_characters_are_converted() {
        assert_eq!(read("ucs2", b"\x00G\x00\xfc"), text("Gü"));
        assert_eq!(read("utf16", b"\xd8\x3c\xdf\x40"), text("🍀"));
        assert_eq!(read("utf16le", b"\x3c\xd8\x40\xdf"), text("🍀"));
        assert_eq!(read("utf32", b"\x00\x01\xf3\x40"), text("🍀"));
        for (name, wrong) in [
            ("utf16", &b"\xd8\x3c"[..]),
            ("utf16", b"\x00"),
            ("utf32", b"\x00\x00\xd8\x3c"),
            ("utf32", b"\x00\x00\x00"),
        ] {
            assert!(matches!(read(name, wrong), Value::Unreadable(_)), "{name}");
        }
    }

    #[test]
    fn what_cannot_be_converted_says_so() {
        assert_eq!(
            read("gbk", b"\xc4\xe3"),
            Value::Unreadable(
                "is in the character set gbk, which Headwater does not convert; give the column utf8mb4".into()
            )
        );
    }

    #[test]
    fn a_collation_has_its_character_set() {
        for (collation, name) in [
            (45, "utf8mb4"),
            (255, "utf8mb4"),
            (2304, "utf8mb4"),
            (1070, "utf8mb4"),
            (33, "utf8mb3"),
            (8, "latin1"),
            (63, "binary"),
            (11, "ascii"),
            (1089, "ascii"),
        ] {
            assert_eq!(by_collation(collation), Some(name));
        }
        assert_eq!(by_collation(0), None);
        assert_eq!(by_collation(5000), None);
    }
}
