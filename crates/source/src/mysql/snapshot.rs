//! Rows for a person to look at: the latest ones of the table, and new ones as they are written to the log.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::event::Role;
use headwater_core::instant::days;
use headwater_core::row::{Change, Row, Table, Value};

use super::facts::Facts;
use super::position::{Identity, Position};
use super::rows::Rows;
use super::session::{Cells, Session};
use super::stream::{From, Stream};
use super::verdict::{self, Refusal};
use super::{Flavor, Gtids, LayoutColumn, Log, Settings, ident, json, resume, setup};
use crate::Error;
use crate::silence::Silence;

/// What one statement of a look that nobody asked for by name may take of the server.
const STATEMENT_LIMIT: Duration = Duration::from_secs(5);

/// The latest rows of the table, the oldest of them first.
pub async fn latest(settings: &Settings, limit: u32) -> Result<Vec<Row>, Error> {
    let mut rows = Vec::new();
    let session = Session::open(settings).await?;
    read(session, limit, |row| rows.push(row)).await?;
    rows.reverse();
    Ok(rows)
}

/// Hands over the latest rows of the table one by one, the newest first. No statement may keep the server for long, and
/// no row stays in memory: each may be as large as a payload can be.
pub async fn each_latest(
    settings: &Settings,
    limit: u32,
    mut each: impl FnMut(&Row),
) -> Result<(), Error> {
    let mut session = Session::open(settings).await?;
    session.limit(STATEMENT_LIMIT).await?;
    read(session, limit, |row| each(&row)).await
}

async fn read(mut session: Session, limit: u32, mut each: impl FnMut(Row)) -> Result<(), Error> {
    let facts = Facts::read(&mut session).await?;
    let settings = session.settings().clone();
    let layout = &resume::fit_table(facts.table.as_ref(), &settings)?.layout;
    let kinds: Vec<Kind> = layout
        .columns
        .iter()
        .map(|column| Kind::of(column, settings.flavor))
        .collect();
    let names: Vec<String> = layout.columns.iter().map(|it| it.name.clone()).collect();
    let list: Vec<String> = names.iter().map(|name| ident(name)).collect();
    let ask = format!(
        "SELECT {} FROM {}.{} ORDER BY {} DESC, {} DESC LIMIT {limit}",
        list.join(", "),
        ident(&settings.schema),
        ident(&settings.table),
        ident(Role::EventDate.name()),
        ident(Role::Id.name())
    );
    let table = Arc::new(Table {
        schema: settings.schema.clone(),
        name: settings.table.clone(),
        columns: names,
    });
    let answer = session
        .each(&ask, |_, cells| {
            each(Row {
                table: Arc::clone(&table),
                change: Change::Read,
                cells: values(cells, &kinds),
            });
        })
        .await?;
    session.close().await;
    answer
        .map(drop)
        .map_err(|refusal| slow(&refusal, &settings))
}

fn values(cells: Cells, kinds: &[Kind]) -> Vec<Value> {
    let value = |(cell, kind): (Option<Bytes>, &Kind)| match cell {
        None => Value::Null,
        Some(text) => kind.read(text),
    };
    cells.into_iter().zip(kinds).map(value).collect()
}

/// What a column's text means.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    Text,
    /// MySQL's; MariaDB keeps the text that it was given.
    Json,
    Bytes,
    Int,
    Date,
    Uuid,
    Flag,
    /// No field of a message is like it; the type's name.
    Other(String),
}

impl Kind {
    fn of(column: &LayoutColumn, flavor: Flavor) -> Kind {
        let kind = column.kind.to_lowercase();
        let word = kind.split(|c: char| !c.is_ascii_alphanumeric()).next();
        match word.unwrap_or_default() {
            "datetime" | "timestamp" | "date" => Kind::Date,
            "json" if flavor == Flavor::MySql => Kind::Json,
            "bit" if kind == "bit(1)" => Kind::Flag,
            "tinyint" | "smallint" | "mediumint" | "int" | "bigint" | "year" => Kind::Int,
            "uuid" if flavor == Flavor::MariaDb => Kind::Uuid,
            "binary" | "varbinary" | "tinyblob" | "blob" | "mediumblob" | "longblob" => Kind::Bytes,
            word @ ("bit" | "float" | "double" | "decimal" | "time" | "geometry" | "point"
            | "vector" | "inet4" | "inet6") => Kind::Other(word.to_uppercase()),
            _ => Kind::Text,
        }
    }

    fn read(&self, bytes: Bytes) -> Value {
        let unreadable =
            |bytes: &Bytes| Value::Unreadable(format!("\"{}\"", String::from_utf8_lossy(bytes)));
        match self {
            Kind::Bytes => Value::Bytes(bytes),
            Kind::Text => match ByteString::try_from(bytes.clone()) {
                Ok(text) => Value::Text(text),
                Err(_) => Value::Bytes(bytes),
            },
            Kind::Json => match std::str::from_utf8(&bytes) {
                Ok(text) => Value::Text(json::retell(text).into()),
                Err(_) => unreadable(&bytes),
            },
            Kind::Flag => Value::Bool(bytes.iter().any(|byte| *byte != 0)),
            Kind::Other(name) => Value::Unreadable(format!(
                "has the type {name}, which no field of a message can hold; give the column another type"
            )),
            Kind::Int => match std::str::from_utf8(&bytes).map(str::parse) {
                Ok(Ok(number)) => Value::Int(number),
                _ => unreadable(&bytes),
            },
            Kind::Uuid => uuid(&bytes).map_or_else(|| unreadable(&bytes), Value::Uuid),
            Kind::Date => micros(&bytes).map_or_else(|| unreadable(&bytes), Value::Micros),
        }
    }
}

fn uuid(text: &[u8]) -> Option<[u8; 16]> {
    let digits: Vec<u8> = text.iter().copied().filter(|byte| *byte != b'-').collect();
    let digits = std::str::from_utf8(&digits).ok()?;
    let number = u128::from_str_radix(digits, 16).ok()?;
    (digits.len() == 32).then(|| number.to_be_bytes())
}

/// `2024-02-29 12:34:56.000001`, or less of it. What is no day of the calendar (the zero date) is none.
fn micros(text: &[u8]) -> Option<i64> {
    let text = std::str::from_utf8(text).ok()?;
    let (date, time) = text.split_once(' ').unwrap_or((text, "0:0:0"));
    let mut date = date.splitn(3, '-').map(str::parse::<i64>);
    let mut next = || date.next().and_then(Result::ok);
    let (year, month, day) = (next()?, next()?, next()?);
    let (whole, fraction) = time.split_once('.').unwrap_or((time, ""));
    let mut whole = whole.splitn(3, ':').map(str::parse::<i64>);
    let mut next = || whole.next().and_then(Result::ok);
    let seconds = next()? * 3600 + next()? * 60 + next()?;
    let fraction = format!("{fraction:0<6}").get(..6)?.parse::<i64>().ok()?;
    let days = days(year, month, day)?;
    Some((days * 86_400 + seconds) * 1_000_000 + fraction)
}

fn slow(refusal: &Refusal, settings: &Settings) -> Error {
    // Each flavor has its own number for a statement that took too long.
    if ![3024, 1969, 1205, 1317].contains(&refusal.code) {
        return verdict::of(refusal, settings);
    }
    Error::fatal(
        "finding the latest rows took the server too long: the table has no index for it, or is locked",
        format!(
            "an index makes it quick: CREATE INDEX events_latest ON {} ({}, {});",
            settings.qualified(),
            Role::EventDate.name(),
            Role::Id.name()
        ),
    )
}

/// New rows from now on, under another number than the pipeline's own. Changes nothing, and needs no lock.
pub async fn follow(settings: &Settings) -> Result<Log, Error> {
    let (position, identity) = setup::now(settings).await?;
    let mut session = Session::open(settings).await?;
    let facts = Facts::read(&mut session).await?;
    resume::fit_table(facts.table.as_ref(), settings)?;
    let Identity { flavor, layout, .. } = identity;
    let from = match &position.gtids {
        Gtids::MySql(set) if !set.has_tags() => From::After(set.clone()),
        Gtids::MariaDb(list) => From::AfterList(list.to_string()),
        _ => From::At(position.file.to_string(), position.offset),
    };
    let stream = Stream::begin(session.guest(), &from).await?;
    let (schema, table) = (&settings.schema, &settings.table);
    Ok(Log::looking(
        stream,
        Rows::new(
            flavor,
            schema,
            table,
            Position::clone(&position),
            layout,
            false,
        ),
        Silence::new(settings.silence_timeout),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kind(kind: &str, flavor: Flavor) -> Kind {
        let column = LayoutColumn {
            name: "c".into(),
            kind: kind.into(),
            charset: None,
        };
        Kind::of(&column, flavor)
    }

    #[test]
    fn a_column_is_read_as_its_type_says() {
        let read = |of: &str, text: &'static str| {
            kind(of, Flavor::MariaDb).read(Bytes::from_static(text.as_bytes()))
        };
        assert_eq!(read("tinyint(1)", "1"), Value::Int(1));
        assert_eq!(read("bigint(20) unsigned", "-7"), Value::Int(-7));
        assert_eq!(read("varchar(255)", "x"), Value::Text("x".into()));
        assert_eq!(read("longtext", "{}"), Value::Text("{}".into()));
        assert_eq!(
            read("binary(16)", "ab"),
            Value::Bytes(Bytes::from_static(b"ab"))
        );
        let uuid = "00010203-0405-0607-0809-0a0b0c0d0e0f";
        assert_eq!(
            read("uuid", uuid),
            Value::Uuid([0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15])
        );
        assert!(matches!(read("uuid", "xyz"), Value::Unreadable(_)));
    }

    #[test]
    fn a_date_is_read_and_the_zero_date_is_none() {
        for (text, wanted) in [
            ("1970-01-01 00:00:00", Some(0)),
            ("1970-01-01 00:00:00.000001", Some(1)),
            ("1969-12-31 23:59:59.5", Some(-500_000)),
            ("2024-02-29 12:00:00", Some(1_709_208_000_000_000)),
            ("2024-02-29", Some(1_709_164_800_000_000)),
            ("0001-01-01 00:00:00", Some(-62_135_596_800_000_000)),
            ("0000-00-00 00:00:00", None),
            ("2023-02-29 00:00:00", None),
            ("2024-00-10 00:00:00", None),
            ("noon", None),
        ] {
            assert_eq!(micros(text.as_bytes()), wanted, "{text}");
        }
    }
}
