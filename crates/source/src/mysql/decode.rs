//! The binlog's events, read from bytes.
//!
//! In: one event without its checksum. Out: what it says. Rule: any bytes at all give an event or `Malformed`, never a
//! panic; of a foreign table's rows nothing but the table's number is looked at.
#![deny(clippy::indexing_slicing)]
#![cfg_attr(not(test), deny(clippy::arithmetic_side_effects))]

use std::borrow::Cow;

use headwater_core::row::Change;

use super::began::{self, Began};
use super::inflate;
use super::reader::{Malformed, Reader, text};

pub(super) const HEADER: usize = 19;
/// The server made it up while it sent the log: it stands in no file.
const ARTIFICIAL: u16 = 0x20;
const IGNORABLE: u16 = 0x80;

/// What stands before every event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Header {
    /// Seconds since 1970.
    pub timestamp: u32,
    pub kind: u8,
    pub server: u32,
    pub size: u32,
    /// The lower half of the offset behind the event; 0 if the event does not know it.
    pub end: u32,
    pub flags: u16,
}

impl Header {
    pub(super) fn read(event: &[u8]) -> Result<Header, Malformed> {
        let mut reader = Reader(event);
        let header = Header {
            timestamp: reader.u32()?,
            kind: reader.u8()?,
            server: reader.u32()?,
            size: reader.u32()?,
            end: reader.u32()?,
            flags: reader.u16()?,
        };
        if usize::try_from(header.size) != Ok(event.len()) {
            return Err(Malformed("it is not as long as its header says"));
        }
        Ok(header)
    }

    pub(super) fn is_artificial(&self) -> bool {
        self.flags & ARTIFICIAL != 0
    }

    pub(super) fn is_format(&self) -> bool {
        self.kind == kind::FORMAT
    }
}

/// The numbers of the events that say something.
pub(super) mod kind {
    pub const QUERY: u8 = 2;
    pub const STOP: u8 = 3;
    pub const ROTATE: u8 = 4;
    pub const FORMAT: u8 = 15;
    pub const XID: u8 = 16;
    pub const EXECUTE_LOAD: u8 = 18;
    pub const TABLE_MAP: u8 = 19;
    pub const WRITE_V1: u8 = 23;
    pub const DELETE_V1: u8 = 25;
    pub const INCIDENT: u8 = 26;
    pub const WRITE: u8 = 30;
    pub const DELETE: u8 = 32;
    pub const GTID: u8 = 33;
    pub const ANONYMOUS: u8 = 34;
    pub const XA_PREPARE: u8 = 38;
    pub const PARTIAL_UPDATE: u8 = 39;
    pub const PAYLOAD: u8 = 40;
    pub const TAGGED: u8 = 42;
    pub const MARIADB_GTID: u8 = 162;
    pub const ENCRYPTION: u8 = 164;
    pub const QUERY_COMPRESSED: u8 = 165;
    pub const WRITE_COMPRESSED_V1: u8 = 166;
    pub const DELETE_COMPRESSED_V1: u8 = 168;
    pub const WRITE_COMPRESSED: u8 = 169;
    pub const DELETE_COMPRESSED: u8 = 171;
}

#[derive(Debug)]
pub(super) enum Event<'a> {
    Format(Format),
    /// The log goes on in another file (or the server tells in which one it begins).
    Rotate {
        file: &'a str,
        offset: u64,
    },
    Began(Began),
    Query(Query<'a>),
    /// The transaction is committed.
    Xid,
    XaPrepare {
        xid: String,
        one_phase: bool,
    },
    Table(TableMap<'a>),
    Rows(RowsHead<'a>),
    /// A compressed transaction.
    Payload,
    /// The server does not know what is missing from its log here.
    Incident(String),
    Encrypted,
    /// The server was stopped.
    Stopped,
    /// It says nothing about rows.
    Other,
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Format {
    pub checksums: bool,
}

#[derive(Debug)]
pub(super) struct Query<'a> {
    /// The database that names without one belong to.
    pub schema: &'a [u8],
    pub text: Cow<'a, [u8]>,
}

/// A table gets a number for the statements that follow.
#[derive(Debug, Clone, Copy)]
pub(super) struct TableMap<'a> {
    pub id: u64,
    pub schema: &'a [u8],
    pub name: &'a [u8],
    /// Its columns, for `table.rs`.
    pub columns: &'a [u8],
}

/// Rows of one table; the rows themselves are for `walk.rs`.
#[derive(Debug, Clone, Copy)]
pub(super) struct RowsHead<'a> {
    pub table: u64,
    pub change: Change,
    /// An update whose new JSON values may be told as differences.
    pub partial: bool,
    pub compressed: bool,
    /// Which columns, and the rows.
    pub rows: &'a [u8],
}

/// The statement's last: its tables' numbers are free again. MySQL also sends it alone, with this number.
pub(super) const NO_TABLE: u64 = 0x00FF_FFFF;

/// What an event's checksum must be, over all bytes before it.
pub(super) fn checksum(header: &Header, bytes: &[u8]) -> u32 {
    // That the file is in use was written into its format after the checksum.
    const IN_USE: u8 = 1;
    const FLAGS: usize = HEADER - 2;
    if header.is_format()
        && let Some((before, [flags, rest @ ..])) = bytes.split_at_checked(FLAGS)
    {
        let mut hasher = crc32fast::Hasher::new();
        hasher.update(before);
        hasher.update(&[flags & !IN_USE]);
        hasher.update(rest);
        return hasher.finalize();
    }
    crc32fast::hash(bytes)
}

/// Reads an event's body.
pub(super) fn event<'a>(header: &Header, body: &'a [u8]) -> Result<Event<'a>, Malformed> {
    let reader = Reader(body);
    match header.kind {
        kind::QUERY => query(reader, 0, false),
        kind::QUERY_COMPRESSED => query(reader, 0, true),
        // Which file, from where to where in the statement, and what becomes of duplicates.
        kind::EXECUTE_LOAD => query(reader, 13, false),
        kind::ROTATE => rotate(reader),
        kind::FORMAT => format(reader).map(Event::Format),
        kind::XID => Ok(Event::Xid),
        kind::TABLE_MAP => table(reader).map(Event::Table),
        kind::GTID => began::named(reader).map(Event::Began),
        kind::ANONYMOUS => began::anonymous(reader).map(Event::Began),
        kind::TAGGED => began::tagged(reader).map(Event::Began),
        kind::MARIADB_GTID => began::mariadb(reader, header).map(Event::Began),
        kind::XA_PREPARE => xa_prepare(reader),
        kind::PAYLOAD => Ok(Event::Payload),
        kind::INCIDENT => incident(reader),
        kind::ENCRYPTION => Ok(Event::Encrypted),
        kind::STOP => Ok(Event::Stopped),
        kind::WRITE_V1..=kind::DELETE_V1
        | kind::WRITE..=kind::DELETE
        | kind::PARTIAL_UPDATE
        | kind::WRITE_COMPRESSED_V1..=kind::DELETE_COMPRESSED => {
            rows(header.kind, reader).map(Event::Rows)
        }
        // Variables, random seeds and files of statements; heartbeats; statements as comments; sets of GTIDs; a group's
        // certificates and views; MariaDB's checkpoints. None of them changes a row, or tells where a transaction ends.
        5 | 9 | 11 | 13 | 14 | 17 | 27..=29 | 35..=37 | 41 | 160 | 161 | 163 => Ok(Event::Other),
        _ if header.flags & IGNORABLE != 0 => Ok(Event::Other),
        _ => Ok(Event::Unknown),
    }
}

fn query(mut reader: Reader<'_>, skipped: usize, compressed: bool) -> Result<Event<'_>, Malformed> {
    reader.skip(8)?; // the session's number, and how long it took
    let schema = usize::from(reader.u8()?);
    reader.skip(2)?; // the error that it ended with
    let variables = usize::from(reader.u16()?);
    reader.skip(skipped)?;
    reader.skip(variables)?;
    let schema = reader.take(schema)?;
    reader.skip(1)?; // a zero
    let text = if compressed {
        Cow::Owned(inflate::inflate(reader.0)?)
    } else {
        Cow::Borrowed(reader.0)
    };
    Ok(Event::Query(Query { schema, text }))
}

fn rotate(mut reader: Reader<'_>) -> Result<Event<'_>, Malformed> {
    let offset = reader.u64()?;
    let file = text(reader.0)?;
    if file.is_empty() {
        return Err(Malformed("a rotation to a file without a name"));
    }
    Ok(Event::Rotate { file, offset })
}

/// The header lengths that the numbers of events imply are those that this file reads.
fn format(mut reader: Reader<'_>) -> Result<Format, Malformed> {
    if reader.u16()? != 4 {
        return Err(Malformed("a binlog of another version than 4"));
    }
    reader.skip(50 + 4)?; // the server's version; when the file was made
    if usize::from(reader.u8()?) != HEADER {
        return Err(Malformed("a binlog with headers of another length"));
    }
    let (lengths, algorithm) = match reader.0.split_last_chunk::<5>() {
        // The checksum stands here always, whatever the others have.
        Some((lengths, [algorithm, ..])) => (lengths, *algorithm),
        None => return Err(super::reader::CUT),
    };
    for (kind, expected) in [
        (kind::TABLE_MAP, 8),
        (kind::WRITE_V1, 8),
        (kind::DELETE_V1, 8),
        (kind::WRITE, 10),
        (kind::DELETE, 10),
    ] {
        let length = lengths.get(usize::from(kind).saturating_sub(1));
        // 0: the server does not write such events.
        if length.is_some_and(|length| ![0, expected].contains(length)) {
            return Err(Malformed("a binlog whose rows have other headers"));
        }
    }
    match algorithm {
        0 => Ok(Format { checksums: false }),
        1 => Ok(Format { checksums: true }),
        _ => Err(Malformed("checksums of an unknown kind")),
    }
}

fn table(mut reader: Reader<'_>) -> Result<TableMap<'_>, Malformed> {
    let id = reader.uint(6)?;
    reader.skip(2)?; // flags
    let name = |reader: &mut Reader<'_>| {
        let length = usize::from(reader.u8()?);
        let name = reader.0.get(..length).ok_or(super::reader::CUT);
        reader.skip(length.saturating_add(1))?; // and a zero
        name.map(<[u8]>::len)
    };
    let whole = reader.0;
    let schema = name(&mut reader)?;
    let schema = whole.get(1..=schema).ok_or(super::reader::CUT)?;
    let whole = reader.0;
    let length = name(&mut reader)?;
    let name = whole.get(1..=length).ok_or(super::reader::CUT)?;
    Ok(TableMap {
        id,
        schema,
        name,
        columns: reader.0,
    })
}

fn rows(kind: u8, mut reader: Reader<'_>) -> Result<RowsHead<'_>, Malformed> {
    let table = reader.uint(6)?;
    reader.skip(2)?; // flags
    let second = !matches!(
        kind,
        kind::WRITE_V1..=kind::DELETE_V1 | kind::WRITE_COMPRESSED_V1..=kind::DELETE_COMPRESSED_V1
    );
    if second {
        // Extra data, whose length counts itself.
        let extra = usize::from(reader.u16()?);
        reader.skip(
            extra
                .checked_sub(2)
                .ok_or(Malformed("extra data without a length"))?,
        )?;
    }
    let change = match kind {
        kind::WRITE_V1 | kind::WRITE | kind::WRITE_COMPRESSED_V1 | kind::WRITE_COMPRESSED => {
            Change::Insert
        }
        kind::DELETE_V1 | kind::DELETE | kind::DELETE_COMPRESSED_V1 | kind::DELETE_COMPRESSED => {
            Change::Delete
        }
        _ => Change::Update,
    };
    Ok(RowsHead {
        table,
        change,
        partial: kind == kind::PARTIAL_UPDATE,
        compressed: kind >= kind::WRITE_COMPRESSED_V1,
        rows: reader.0,
    })
}

fn xa_prepare(mut reader: Reader<'_>) -> Result<Event<'_>, Malformed> {
    let one_phase = reader.u8()? != 0;
    let format = reader.u32()?;
    let global = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    let branch = usize::try_from(reader.u32()?).unwrap_or(usize::MAX);
    let (global, branch) = (reader.take(global)?, reader.take(branch)?);
    Ok(Event::XaPrepare {
        xid: xid(global, branch, format),
        one_phase,
    })
}

/// An XA transaction's name as the server writes it in statements.
pub(super) fn xid(global: &[u8], branch: &[u8], format: u32) -> String {
    use std::fmt::Write as _;
    let hex = |bytes: &[u8]| {
        bytes.iter().fold(String::new(), |mut text, byte| {
            let _ = write!(text, "{byte:02x}");
            text
        })
    };
    // The server prints the number with its sign.
    let format = format.cast_signed();
    format!("X'{}',X'{}',{format}", hex(global), hex(branch))
}

fn incident(mut reader: Reader<'_>) -> Result<Event<'_>, Malformed> {
    let number = reader.u16()?;
    let length = usize::from(reader.u8()?);
    let message = String::from_utf8_lossy(reader.take(length)?);
    Ok(Event::Incident(format!("{message} (incident {number})")))
}
