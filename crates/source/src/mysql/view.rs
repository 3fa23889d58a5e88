//! The table's events in the order of their dates, by one statement in one transaction: all of them as one moment saw them.
//!
//! Rule: no row stays in memory, and nothing is read twice, whoever drops a question.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use bytestring::ByteString;
use headwater_core::event::Role;
use headwater_core::instant::{self, Instant};
use headwater_core::row::{Change, Row, Table, Value};
use headwater_core::window::{Key, Window};

use super::answer::Cells;
use super::facts::{self, Facts};
use super::session::{Session, application};
use super::{Flavor, LayoutColumn, Settings, ident, json, literal, resume, verdict};
use crate::Error;
use crate::part::{self, NoPart, Part, one_of};

/// While Kafka is away nothing is read, and the server must wait with its next row.
const UNREAD: Duration = Duration::from_hours(24);

/// The columns of the table as they are today.
pub(super) struct Shape {
    pub(super) table: Arc<Table>,
    kinds: Vec<Kind>,
    /// Which cell is the event's date, and which its id.
    date: Option<usize>,
    id: Option<usize>,
}

impl Shape {
    pub(super) fn of(facts: &Facts, settings: &Settings) -> Result<Shape, Error> {
        let columns = &resume::fit_table(facts.table.as_ref(), settings)?
            .layout
            .columns;
        let kind = |column| Kind::of(column, settings.flavor);
        let place = |role: Role| columns.iter().position(|it| it.name == role.name());
        Ok(Shape {
            date: place(Role::EventDate),
            id: place(Role::Id),
            kinds: columns.iter().map(kind).collect(),
            table: Arc::new(Table {
                schema: settings.schema.clone(),
                name: settings.table.clone(),
                columns: columns.iter().map(|it| it.name.clone()).collect(),
            }),
        })
    }

    /// All columns, from the table.
    pub(super) fn select(&self) -> String {
        let names: Vec<String> = self.table.columns.iter().map(|name| ident(name)).collect();
        format!(
            "SELECT {} FROM {}.{}",
            names.join(", "),
            ident(&self.table.schema),
            ident(&self.table.name)
        )
    }

    pub(super) fn row(&self, cells: Cells) -> Row {
        Row {
            table: Arc::clone(&self.table),
            change: Change::Read,
            cells: values(cells, &self.kinds),
        }
    }

    fn key(&self, cells: &Cells) -> Key {
        Key {
            event_date: self.word(self.date, cells),
            id: self.word(self.id, cells),
        }
    }

    /// A cell as a literal that the column can be compared with.
    fn word(&self, place: Option<usize>, cells: &Cells) -> Option<String> {
        let place = place?;
        let bytes = cells.get(place)?.as_ref()?;
        Some(match self.kinds.get(place) {
            Some(Kind::Bytes) => hexadecimal(bytes),
            _ => literal(&String::from_utf8_lossy(bytes)),
        })
    }
}

fn hexadecimal(bytes: &[u8]) -> String {
    format!("X'{:x}'", Bytes::copy_from_slice(bytes))
}

/// Which database this is.
pub async fn which(settings: &Settings) -> Result<String, Error> {
    let mut session = Session::open(settings).await?;
    let server = facts::server(&mut session).await?;
    session.close().await;
    let (schema, identity) = (&settings.schema, server.identity);
    Ok(format!("schema {schema} of server {identity}"))
}

/// A part of the table, of today.
pub async fn part(settings: &Settings, window: &Window) -> Result<Part, NoPart> {
    let mut view = View::open(settings).await?;
    NoPart::unless_there(&view.shape.table.columns, window)?;
    view.ask(window).await?;
    Ok(Part::mysql(view))
}

/// A part of the table, as one moment saw it.
pub(crate) struct View {
    session: Session,
    shape: Shape,
}

impl View {
    /// What is committed now. Nothing of it is read before `ask`.
    pub(super) async fn open(settings: &Settings) -> Result<View, Error> {
        let mut session = Session::open_as(settings, &application(settings), UNREAD).await?;
        // Sorting a large table takes its time.
        session.limit(Duration::ZERO).await?;
        let wait = format!("SET SESSION net_write_timeout = {}", UNREAD.as_secs());
        session.run(&wait).await?;
        let facts = Facts::read(&mut session).await?;
        let shape = Shape::of(&facts, session.settings())?;
        let view = "START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY";
        session.run(view).await?;
        Ok(View { session, shape })
    }

    /// Lets the server find the rows of a window and bring them into their order.
    pub(super) async fn ask(&mut self, window: &Window) -> Result<(), Error> {
        let asked = self.session.begin_rows(&query(&self.shape, window)).await?;
        let settings = self.session.settings();
        asked
            .map(drop)
            .map_err(|refusal| verdict::of(&refusal, settings))
    }

    /// Which cell of a row is its id.
    pub(super) fn id(&self) -> Option<usize> {
        self.shape.id
    }

    /// The next row, or none after the last one. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Result<Option<(Row, Key)>, Error> {
        let next = self.session.next_row().await?;
        let next = next.map_err(|refusal| verdict::of(&refusal, self.session.settings()))?;
        let Some(cells) = next else {
            return Ok(None);
        };
        let key = self.shape.key(&cells);
        Ok(Some((self.shape.row(cells), key)))
    }
}

/// A row without a date is no event that could be published, but it is not passed over either: it comes first.
fn query(shape: &Shape, window: &Window) -> String {
    let date = ident(Role::EventDate.name());
    let id = ident(Role::Id.name());
    let mut wanted = vec![format!("{} IS NOT NULL", ident(Role::EventType.name()))];
    if let Some(from) = window.from {
        wanted.push(format!("{date} >= '{}'", plain(from)));
    }
    if let Some(to) = window.to {
        wanted.push(format!("{date} < '{}'", plain(to)));
    }
    wanted.extend(window.after.as_ref().map(|key| behind(key, &date, &id)));
    for (column, value) in &window.equal {
        wanted.push(format!(
            "CAST({} AS CHAR) = {}",
            ident(column),
            literal(value)
        ));
    }
    if !window.ids.is_empty() {
        wanted.push(one_of_the_ids(shape, &window.ids));
    }
    format!(
        "{} WHERE {} ORDER BY {date}, {id}",
        shape.select(),
        wanted.join(" AND ")
    )
}

/// Which rows stand behind this one: what is null stands first. Ids that are null have no order, so all of them may come again.
fn behind(key: &Key, date: &str, id: &str) -> String {
    let of_its_date = match &key.id {
        Some(last) => format!("{id} > {last}"),
        None => "TRUE".to_owned(),
    };
    match &key.event_date {
        Some(at) => format!("{date} >= {at} AND ({date} > {at} OR {of_its_date})"),
        None => format!("({date} IS NOT NULL OR {of_its_date})"),
    }
}

/// In the column's own type, so that an index serves; an id that this type cannot have is no row's.
fn one_of_the_ids(shape: &Shape, ids: &[String]) -> String {
    let kind = shape.id.and_then(|place| shape.kinds.get(place));
    let literal = |text: &String| match kind {
        Some(Kind::Bytes) => part::uuid(text).map(|digits| format!("X'{digits}'")),
        Some(Kind::Uuid) => part::uuid(text).map(|_| literal(text)),
        Some(Kind::Int) => text.parse::<i64>().ok().map(|number| number.to_string()),
        _ => Some(literal(text)),
    };
    one_of(&ident(Role::Id.name()), ids.iter().filter_map(literal))
}

/// These servers know no zone in a date; every session is in UTC.
fn plain(moment: Instant) -> String {
    moment.to_string().replace('T', " ").replace('Z', "")
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
    let mut rest = text;
    let (year, month, day) = (
        number(&mut rest, b'-')?,
        number(&mut rest, b'-')?,
        number(&mut rest, b' ')?,
    );
    let mut seconds = 0;
    let mut fraction = 0;
    if !rest.is_empty() {
        let (hours, minutes) = (number(&mut rest, b':')?, number(&mut rest, b':')?);
        seconds = hours * 3600 + minutes * 60 + number(&mut rest, b'.')?;
        let digits = rest.len().min(6);
        let shift = 10_i64.pow(6 - u32::try_from(digits).ok()?);
        let mut digits = rest.get(..digits)?;
        fraction = if digits.is_empty() {
            0
        } else {
            number(&mut digits, b'.')? * shift
        };
    }
    let days = instant::days(year, month, day)?;
    Some((days * 86_400 + seconds) * 1_000_000 + fraction)
}

/// The number up to a separator, or to the end; what is left stands behind the separator.
fn number(rest: &mut &[u8], separator: u8) -> Option<i64> {
    let end = rest.iter().position(|byte| *byte == separator);
    let digits = rest.get(..end.unwrap_or(rest.len()))?;
    *rest = end.map_or(&[], |end| rest.get(end + 1..).unwrap_or_default());
    // Longer ones are in no date, and could not be added up.
    let is_number = (1..=6).contains(&digits.len()) && digits.iter().all(u8::is_ascii_digit);
    is_number.then(|| {
        let each = digits.iter().map(|digit| i64::from(digit - b'0'));
        each.fold(0, |number, digit| number * 10 + digit)
    })
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
