//! The outbox's definition, as a table map (and perhaps a layout) tells it.
//!
//! With `binlog_row_metadata = FULL` the map names the columns. Without, it has their types alone, and the names are those
//! that `init` read, if those columns can have been these.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

mod layout;
mod metadata;
mod typed;

use std::sync::Arc;

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::row::{Table, Value};

use super::charset::Charset;
use super::flavor::Flavor;
use super::position::{Layout, LayoutColumn};
use super::reader::{Malformed, Reader};
use super::statement::Outbox;
use super::value::Kind;
use metadata::Metadata;
pub(super) use typed::{Typed, code, decimal};

/// One definition of the outbox.
#[derive(Debug)]
pub(super) struct Definition {
    /// With all columns: a route may want any of them.
    pub table: Arc<Table>,
    pub columns: Vec<Column>,
    /// The column that tells when a row of the past ended.
    pub row_end: Option<usize>,
}

#[derive(Debug, PartialEq, Eq)]
pub(super) struct Column {
    pub length: Length,
    /// None: the log has no name for it.
    pub kind: Option<Kind>,
    pub is_json: bool,
}

/// How long a cell is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Length {
    Fixed(usize),
    /// A number of so many bytes stands before it.
    Counted(usize),
}

/// Why a table map is of no use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Unfit {
    Malformed(Malformed),
    /// It does not name its columns, and nobody else did.
    Nameless,
    /// They are not those of the layout: the sentence says where.
    Changed(String),
    /// A type that Headwater does not know, so that no column behind it can be found.
    Unknown(u8),
}

impl From<Malformed> for Unfit {
    fn from(malformed: Malformed) -> Unfit {
        Unfit::Malformed(malformed)
    }
}

/// Reads the columns of a table map.
pub(super) fn define(
    flavor: Flavor,
    outbox: Outbox<'_>,
    columns: &[u8],
    layout: Option<&Layout>,
) -> Result<Definition, Unfit> {
    let mut reader = Reader(columns);
    let count = reader.count()?;
    let codes = reader.take(count)?;
    let mut more = Reader(reader.counted()?);
    let types = codes
        .iter()
        .map(|code| Typed::read(*code, &mut more))
        .collect::<Result<Vec<Typed>, Unfit>>()?;
    reader.skip(count.div_ceil(8))?; // which may be null
    let metadata = Metadata::read(reader, &types, flavor)?;
    let layout = match (&metadata.names, layout) {
        (Some(_), _) => None,
        (None, Some(layout)) => {
            layout::verify(layout, &types).map_err(Unfit::Changed)?;
            Some(layout)
        }
        (None, None) => return Err(Unfit::Nameless),
    };
    let name = |place: usize| {
        let named = metadata.names.as_ref().and_then(|names| names.get(place));
        let told = layout.and_then(|layout| layout.columns.get(place));
        named.copied().or(told.map(|told| told.name.as_str()))
    };
    let row_end = (flavor == Flavor::MariaDb)
        .then(|| row_end(&types, &name))
        .flatten();
    let mut table = Vec::new();
    let mut all = Vec::with_capacity(types.len());
    for (place, typed) in types.into_iter().enumerate() {
        let told = layout.and_then(|layout| layout.columns.get(place));
        let name = name(place);
        all.push(Column {
            length: typed.length()?,
            kind: name.map(|_| kind(typed, &metadata, place, told)),
            is_json: typed.code == code::JSON,
        });
        table.extend(name.map(str::to_owned));
    }
    Ok(Definition {
        table: Arc::new(Table {
            schema: outbox.schema.to_owned(),
            name: outbox.table.to_owned(),
            columns: table,
        }),
        columns: all,
        row_end,
    })
}

/// MariaDB's tables WITH SYSTEM VERSIONING have two hidden columns: an update of theirs also inserts what was before it, with
/// the time at which that ended.
fn row_end<'a>(types: &[Typed], name: &impl Fn(usize) -> Option<&'a str>) -> Option<usize> {
    let find = |wanted: &str| {
        let hidden = |typed: &Typed| typed.code == code::TIMESTAMP2 && typed.meta == [6, 0];
        let mut places = types.iter().enumerate().filter(|(_, typed)| hidden(typed));
        places.find(|(place, _)| name(*place) == Some(wanted))
    };
    find("row_start")?;
    find("row_end").map(|(place, _)| place)
}

fn kind(typed: Typed, metadata: &Metadata<'_>, place: usize, told: Option<&LayoutColumn>) -> Kind {
    let charset = || {
        let from_layout = || match told {
            Some(LayoutColumn {
                charset: Some(name),
                ..
            }) => Charset::named(name),
            // `information_schema` has none for what is no text.
            Some(_) => Charset::Binary,
            None => Charset::Untold,
        };
        let collation = metadata.collations.get(place).copied().flatten();
        collation.map_or_else(from_layout, Charset::of_collation)
    };
    let names = |told: fn(&str) -> Option<Vec<String>>, layout: Option<&LayoutColumn>| {
        if let Some(values) = metadata.values.get(place).and_then(Option::as_ref) {
            return converted(values, &charset());
        }
        let values = layout.and_then(|column| told(&column.kind))?;
        Some(values.into_iter().map(ByteString::from).collect())
    };
    match typed.code {
        code::TINY | code::SHORT | code::INT24 | code::LONG | code::LONGLONG => Kind::Int {
            unsigned: metadata
                .unsigned
                .get(place)
                .copied()
                .flatten()
                .unwrap_or_else(|| {
                    told.is_some_and(|told| told.kind.to_ascii_lowercase().contains("unsigned"))
                }),
        },
        code::YEAR => Kind::Year,
        code::BIT => Kind::Bit {
            is_flag: typed.meta == [1, 0],
        },
        code::DATE | code::NEWDATE => Kind::Date,
        code::DATETIME2 => Kind::DateTime(typed.meta.first().copied().unwrap_or_default()),
        code::TIMESTAMP2 => Kind::Timestamp(typed.meta.first().copied().unwrap_or_default()),
        code::DATETIME => Kind::OldDateTime,
        code::TIMESTAMP => Kind::OldTimestamp,
        code::STRING => match charset() {
            Charset::Binary => Kind::Padded {
                length: typed.longest(),
            },
            charset => Kind::Text(charset),
        },
        code::VARCHAR | code::VAR_STRING | code::TINY_BLOB..=code::BLOB => Kind::Text(charset()),
        code::JSON => Kind::Json,
        code::ENUM => names(layout::choices, told).map_or(Kind::Unnamed, Kind::Enum),
        code::SET => names(layout::choices, told).map_or(Kind::Unnamed, Kind::Set),
        code => Kind::Other(type_name(code)),
    }
}

fn type_name(code: u8) -> &'static str {
    match code {
        code::FLOAT => "FLOAT",
        code::DOUBLE => "DOUBLE",
        code::NEWDECIMAL => "DECIMAL",
        code::TIME | code::TIME2 => "TIME",
        code::GEOMETRY => "GEOMETRY",
        code::VECTOR => "VECTOR",
        code::BLOB_COMPRESSED | code::VARCHAR_COMPRESSED => "COMPRESSED",
        _ => "NULL",
    }
}

/// Names of choices, in UTF-8; none if one cannot be read.
fn converted(values: &[&[u8]], charset: &Charset) -> Option<Arc<[ByteString]>> {
    values
        .iter()
        .map(|value| match charset.read(Bytes::copy_from_slice(value)) {
            Value::Text(text) => Some(text),
            Value::Bytes(bytes) => ByteString::try_from(bytes).ok(),
            _ => None,
        })
        .collect()
}
