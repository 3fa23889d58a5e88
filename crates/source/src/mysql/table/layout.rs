//! Can a layout that was read once be the one of this table map? Types and lengths must agree, column by column.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use super::super::charset;
use super::super::position::{Layout, LayoutColumn};
use super::{Typed, code};

/// Where they differ, as a sentence.
pub(super) fn verify(layout: &Layout, types: &[Typed]) -> Result<(), String> {
    if layout.columns.len() != types.len() {
        return Err(format!(
            "it has {} columns in the log, and had {} when its layout was read",
            types.len(),
            layout.columns.len()
        ));
    }
    for (column, typed) in layout.columns.iter().zip(types) {
        if !agrees(column, *typed) {
            return Err(format!(
                "its column {} was of the type {} when its layout was read, and has another one in the log",
                column.name, column.kind
            ));
        }
    }
    Ok(())
}

fn agrees(column: &LayoutColumn, typed: Typed) -> bool {
    let kind = column.kind.to_ascii_lowercase();
    let name = kind
        .split(|c: char| !c.is_ascii_alphanumeric())
        .next()
        .unwrap_or_default();
    let numbers = numbers(&kind);
    let first = numbers.first().copied();
    let digits = |code: u8, old: u8| {
        let told = typed.meta.first().copied().map(usize::from);
        typed.code == code && told == Some(first.unwrap_or(0)) || typed.code == old
    };
    let blob = |length: u8| {
        matches!(
            typed.code,
            code::TINY_BLOB..=code::BLOB | code::BLOB_COMPRESSED
        ) && typed.meta.first() == Some(&length)
    };
    let is = |code: u8| typed.code == code;
    let string = |length: usize| is(code::STRING) && typed.longest() == length;
    match name {
        "tinyint" => is(code::TINY),
        "smallint" => is(code::SHORT),
        "mediumint" => is(code::INT24),
        "int" => is(code::LONG),
        "bigint" => is(code::LONGLONG),
        "float" => is(code::FLOAT),
        "double" => is(code::DOUBLE),
        "decimal" => is(code::NEWDECIMAL) && typed.meta.map(usize::from)[..] == numbers[..],
        "bit" => {
            let [bits, bytes] = typed.meta.map(usize::from);
            is(code::BIT) && first == Some(bytes.saturating_mul(8).saturating_add(bits))
        }
        "year" => is(code::YEAR),
        "date" => is(code::DATE) || is(code::NEWDATE),
        "time" => digits(code::TIME2, code::TIME),
        "datetime" => digits(code::DATETIME2, code::DATETIME),
        "timestamp" => digits(code::TIMESTAMP2, code::TIMESTAMP),
        "char" | "binary" => is(code::STRING) && fits(column, typed, first),
        "varchar" | "varbinary" => match typed.code {
            code::VARCHAR | code::VAR_STRING => fits(column, typed, first),
            code => code == code::VARCHAR_COMPRESSED,
        },
        "tinytext" | "tinyblob" => blob(1),
        "text" | "blob" => blob(2),
        "mediumtext" | "mediumblob" => blob(3),
        "longtext" | "longblob" => blob(4),
        "json" => is(code::JSON),
        "enum" => is(code::ENUM),
        "set" => is(code::SET),
        "uuid" | "inet6" => string(16),
        "inet4" => string(4),
        "vector" => is(code::VECTOR) || is(code::VARCHAR),
        "geometry" | "point" | "linestring" | "polygon" | "multipoint" | "multilinestring"
        | "multipolygon" | "geometrycollection" | "geomcollection" => is(code::GEOMETRY),
        _ => false,
    }
}

/// So many characters are so many bytes.
fn fits(column: &LayoutColumn, typed: Typed, characters: Option<usize>) -> bool {
    let longest = match &column.charset {
        Some(name) => charset::longest(name),
        None => Some(1),
    };
    match longest {
        Some(longest) => {
            characters.map(|count| count.saturating_mul(longest)) == Some(typed.longest())
        }
        None => true,
    }
}

/// The numbers in the first parentheses.
fn numbers(kind: &str) -> Vec<usize> {
    let within = kind
        .split_once('(')
        .and_then(|(_, rest)| rest.split_once(')'));
    within.map_or_else(Vec::new, |(numbers, _)| {
        numbers
            .split(',')
            .filter_map(|number| number.trim().parse().ok())
            .collect()
    })
}

/// What an ENUM or SET chooses from: `enum('a','it''s')`.
pub(super) fn choices(kind: &str) -> Option<Vec<String>> {
    let (_, list) = kind.split_once('(')?;
    let mut rest = list.strip_suffix(')').unwrap_or(list).chars().peekable();
    let mut values = Vec::new();
    while let Some(next) = rest.next() {
        if next != '\'' {
            continue;
        }
        let mut value = String::new();
        loop {
            match rest.next()? {
                '\'' if rest.peek() == Some(&'\'') => {
                    rest.next();
                    value.push('\'');
                }
                '\'' => break,
                other => value.push(other),
            }
        }
        values.push(value);
    }
    Some(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(kind: &str, charset: Option<&str>) -> LayoutColumn {
        LayoutColumn {
            name: "c".into(),
            kind: kind.into(),
            charset: charset.map(Into::into),
        }
    }

    fn typed(code: u8, meta: u16) -> Typed {
        Typed {
            code,
            meta: meta.to_le_bytes(),
        }
    }

    #[test]
    fn a_column_agrees_with_its_own_type_only() {
        let utf8 = Some("utf8mb4");
        let columns = [
            (
                column("bigint(20) unsigned", None),
                typed(code::LONGLONG, 0),
            ),
            (column("int", None), typed(code::LONG, 0)),
            (
                column("decimal(10,2)", None),
                typed(code::NEWDECIMAL, 0x020A),
            ),
            (column("datetime(6)", None), typed(code::DATETIME2, 6)),
            (column("datetime", None), typed(code::DATETIME2, 0)),
            (column("varchar(255)", utf8), typed(code::VARCHAR, 1020)),
            (column("char(36)", Some("ascii")), typed(code::STRING, 36)),
            (column("binary(16)", None), typed(code::STRING, 16)),
            (column("json", None), typed(code::JSON, 4)),
            (column("longtext", utf8), typed(code::BLOB, 4)),
            (column("text", utf8), typed(code::BLOB, 2)),
            (column("enum('a','b')", utf8), typed(code::ENUM, 0x01F7)),
            (column("bit(9)", None), typed(code::BIT, 0x0101)),
            (column("tinyint(1)", None), typed(code::TINY, 0)),
        ];
        for (place, (column, _)) in columns.iter().enumerate() {
            for (other, (_, typed)) in columns.iter().enumerate() {
                assert_eq!(
                    agrees(column, *typed),
                    place == other,
                    "{} {typed:?}",
                    column.kind
                );
            }
        }
        assert!(!agrees(&column("hologram", None), typed(code::LONG, 0)));
    }

    #[test]
    fn choices_are_read_with_their_quotes() {
        assert_eq!(
            choices("enum('a','it''s','','x,y)')"),
            Some(vec![
                "a".into(),
                "it's".into(),
                String::new(),
                "x,y)".into()
            ])
        );
        assert_eq!(choices("enum('a"), None);
    }
}
