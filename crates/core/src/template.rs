//! Text with places that a row fills: templates of topics, keys, headers, partitions and times.

use std::fmt::{self, Write as _};

use crate::event::{Role, Roles};
use crate::failure::{Failure, Kind};
use crate::instant::Instant;
use crate::json;
use crate::row::{Row, Table, Value};

/// A template could not be understood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BadTemplate {
    pub template: String,
    pub reason: String,
}

impl fmt::Display for BadTemplate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "template \"{}\": {}", self.template, self.reason)
    }
}

/// The table lacks a column that a template or a condition names.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoColumn {
    pub table: String,
    pub column: String,
    /// Those that there are.
    pub columns: Vec<String>,
}

impl fmt::Display for NoColumn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "no column \"{}\" in table {}; there are {}",
            self.column,
            self.table,
            self.columns.join(", ")
        )
    }
}

/// Where in a row a text stands: `column`, or `column.member.0` inside a column that holds JSON.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Place {
    column: String,
    path: Vec<String>,
    /// In the table's present definition; none before it is bound, or where an outbox may lack the column.
    index: Option<usize>,
}

impl Place {
    pub fn parse(text: &str) -> Result<Place, String> {
        let mut steps = text.trim().split('.').map(str::to_owned);
        let column = steps.next().unwrap_or_default();
        let path: Vec<String> = steps.collect();
        if column.is_empty() {
            return Err("a column is wanted, as in {model_id}".into());
        }
        if path.iter().any(String::is_empty) {
            return Err(format!(
                "\"{}\" has an empty step; {{payload.customer.id}} is how to name a member",
                text.trim()
            ));
        }
        if !path.is_empty() && Role::named(&column).is_some_and(|role| !role.may_hold_json()) {
            return Err(format!(
                "column {column} holds no JSON, so it has no members; {{payload.customer.id}} names one of the payload"
            ));
        }
        Ok(Place {
            column,
            path,
            index: None,
        })
    }

    pub fn column(name: &str) -> Place {
        Place {
            column: name.to_owned(),
            path: Vec::new(),
            index: None,
        }
    }

    /// Finds its column in a definition of the table.
    pub fn bind(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        let role = Role::named(&self.column);
        let known = table.columns.iter();
        self.index = role.and_then(|role| roles.index(role)).or_else(|| {
            let mut names = known.clone();
            names.position(|name| *name == self.column)
        });
        if self.index.is_some() || role.is_some_and(Role::may_be_missing) {
            return Ok(());
        }
        Err(NoColumn {
            table: format!("{}.{}", table.schema, table.name),
            column: self.column.clone(),
            columns: known.cloned().collect(),
        })
    }

    /// From the column's JSON to the member; empty if all of the column is meant.
    pub(crate) fn path(&self) -> &[String] {
        &self.path
    }

    pub(crate) fn cell<'r>(&self, row: &'r Row) -> &'r Value {
        static NULL: Value = Value::Null;
        static ABSENT: Value = Value::Absent;
        match self.index {
            Some(index) => row.cells.get(index).unwrap_or(&ABSENT),
            None => &NULL,
        }
    }

    /// Writes its text; false if it is null.
    pub fn write(&self, row: &Row, into: &mut String) -> Result<bool, Failure> {
        match self.cell(row) {
            Value::Null => Ok(false),
            Value::Text(text) if self.path.is_empty() => {
                into.push_str(text);
                Ok(true)
            }
            Value::Text(text) => self.write_member(text, into),
            other if !self.path.is_empty() => Err(Failure::bad_payload(format!(
                "column {} is {}, and {self} asks for a member of JSON",
                self.column,
                other.kind()
            ))),
            other => self.write_plain(other, into),
        }
    }

    fn write_member(&self, text: &str, into: &mut String) -> Result<bool, Failure> {
        let written = match json::at(text, &self.path) {
            Ok(None) => return Ok(false),
            Ok(Some(value)) => json::write(value, into),
            Err(error) => Err(error),
        };
        written.map_err(|error| {
            Failure::bad_payload(format!(
                "column {} is not JSON, and {self} asks for a member of it: {error}",
                self.column
            ))
        })
    }

    fn write_plain(&self, value: &Value, into: &mut String) -> Result<bool, Failure> {
        let written = match value {
            Value::Uuid(bytes) => {
                into.push_str(&crate::event::Text::uuid(bytes));
                Ok(())
            }
            Value::Bytes(bytes) => {
                let Ok(uuid) = <&[u8; 16]>::try_from(bytes.as_ref()) else {
                    let what = format!("holds {} bytes, and only 16 are a uuid", bytes.len());
                    return Err(self.unroutable(&what));
                };
                into.push_str(&crate::event::Text::uuid(uuid));
                Ok(())
            }
            // MySQL and MariaDB have numbers for it.
            Value::Int(number) if Role::named(&self.column) == Some(Role::Delivered) => {
                write!(into, "{}", *number != 0)
            }
            Value::Int(number) => write!(into, "{number}"),
            Value::Bool(flag) => write!(into, "{flag}"),
            Value::Micros(micros) => write!(into, "{}", Instant(*micros)),
            Value::Absent => return Err(self.unroutable("did not come with the row")),
            Value::Unreadable(what) => return Err(self.unroutable(what)),
            Value::Null | Value::Text(_) => return Ok(false),
        };
        Ok(written.is_ok())
    }

    fn unroutable(&self, what: &str) -> Failure {
        let detail = format!("column {} {what}: it has no text", self.column);
        Failure::new(Kind::Unroutable, detail)
    }
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.column)?;
        self.path.iter().try_for_each(|step| write!(f, ".{step}"))
    }
}

/// Text with places that a row fills: `{column}`, `{payload.customer.id}`; `{a|b}` is the first that is not null;
/// `{a|"text"}` has a last resort.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Template {
    parts: Vec<Part>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    Literal(String),
    /// The places to look at, in order, and what to write if all are null.
    First(Vec<Place>, Option<String>),
}

/// What a row left open.
enum Open<'t> {
    Null(&'t [Place]),
    Failed(Failure),
}

impl Template {
    pub fn parse(template: &str) -> Result<Template, BadTemplate> {
        let bad = |reason: String| BadTemplate {
            template: template.to_owned(),
            reason,
        };
        let mut parts = Vec::new();
        let mut rest = template;
        while let Some(open) = rest.find(['{', '}']) {
            let (literal, place) = rest.split_at(open);
            if !literal.is_empty() {
                parts.push(Part::Literal(literal.to_owned()));
            }
            let place = place
                .strip_prefix('{')
                .ok_or_else(|| bad("a } without its {".into()))?;
            let end = closing(place).ok_or_else(|| bad("a { without its }".into()))?;
            let (inside, after) = place.split_at(end);
            parts.push(first(inside).map_err(bad)?);
            rest = after.strip_prefix('}').unwrap_or_default();
        }
        if !rest.is_empty() {
            parts.push(Part::Literal(rest.to_owned()));
        }
        Ok(Template { parts })
    }

    /// Text without places, whatever characters it holds.
    pub fn literal(text: &str) -> Template {
        Template {
            parts: vec![Part::Literal(text.to_owned())],
        }
    }

    /// Finds its columns in a definition of the table.
    pub fn bind(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        let places = self.parts.iter_mut().flat_map(|part| match part {
            Part::Literal(_) => &mut [],
            Part::First(places, _) => places.as_mut_slice(),
        });
        places
            .into_iter()
            .try_for_each(|place| place.bind(table, roles))
    }

    /// What every row makes of it, if that is the same.
    pub fn constant(&self) -> Option<&str> {
        match self.beginning() {
            (text, true) => Some(text),
            _ => None,
        }
    }

    /// What stands in it beside its places, last resorts included.
    pub fn texts(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().filter_map(|part| match part {
            Part::Literal(text) => Some(text.as_str()),
            Part::First(_, last) => last.as_deref(),
        })
    }

    /// What every text that a row makes of it begins with, and whether that is all of it.
    pub fn beginning(&self) -> (&str, bool) {
        match self.parts.as_slice() {
            [] => ("", true),
            [Part::Literal(text)] => (text, true),
            [Part::Literal(text), ..] => (text, false),
            _ => ("", false),
        }
    }

    /// Null where a value is needed fails the row.
    pub fn render(&self, row: &Row, into: &mut String) -> Result<(), Failure> {
        self.fill(row, into).map_err(|open| match open {
            Open::Null(places) => all_null(places),
            Open::Failed(failure) => failure,
        })
    }

    /// False if a place is null.
    pub fn render_unless_null(&self, row: &Row, into: &mut String) -> Result<bool, Failure> {
        match self.fill(row, into) {
            Ok(()) => Ok(true),
            Err(Open::Null(_)) => Ok(false),
            Err(Open::Failed(failure)) => Err(failure),
        }
    }

    fn fill(&self, row: &Row, into: &mut String) -> Result<(), Open<'_>> {
        into.clear();
        for part in &self.parts {
            match part {
                Part::Literal(text) => into.push_str(text),
                Part::First(places, last) => {
                    if !write_first(places, row, into).map_err(Open::Failed)? {
                        into.push_str(last.as_deref().ok_or(Open::Null(places))?);
                    }
                }
            }
        }
        Ok(())
    }
}

/// False if all are null.
fn write_first(places: &[Place], row: &Row, into: &mut String) -> Result<bool, Failure> {
    for place in places {
        if place.write(row, into)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Where the place ends: the first `}` that is not inside quotes.
fn closing(place: &str) -> Option<usize> {
    let mut quoted = false;
    place.char_indices().find_map(|(index, char)| match char {
        '"' => {
            quoted = !quoted;
            None
        }
        '}' if !quoted => Some(index),
        _ => None,
    })
}

fn first(inside: &str) -> Result<Part, String> {
    let (names, last) = match inside.find('"') {
        None => (inside, None),
        Some(quote) => {
            let (names, text) = inside.split_at(quote);
            let text = text
                .strip_prefix('"')
                .and_then(|text| text.strip_suffix('"'))
                .filter(|text| !text.contains('"'))
                .ok_or(
                    "text in quotes must be the last in its braces, as in {model_id|\"none\"}",
                )?;
            let names = names
                .strip_suffix('|')
                .ok_or("text in quotes needs a column before it, as in {model_id|\"none\"}")?;
            (names, Some(text.to_owned()))
        }
    };
    let places = names.split('|').map(Place::parse);
    Ok(Part::First(places.collect::<Result<_, String>>()?, last))
}

fn all_null(places: &[Place]) -> Failure {
    let names: Vec<String> = places.iter().map(Place::to_string).collect();
    let verb = if names.len() == 1 { "is" } else { "are all" };
    Failure::new(
        Kind::Unroutable,
        format!("{} {verb} null, and the route needs it", names.join(", ")),
    )
}
