//! The TOML file: which keys it gives, and on which lines.
//!
//! Out: every value as text in `Written`; what a text means is found out later, when `${NAME}` was replaced.

use toml::de::{DeArray, DeTable, DeValue};

use super::problem::{ConfigError, Place, Problem};
use super::reference::{self, Key, Kind};
use super::written::{Column, Condition, Written};

/// Reads the file's text. What is wrong with its keys is left in `written`; an error if it is no TOML at all.
pub(super) fn read(text: &str, written: &mut Written) -> Result<(), ConfigError> {
    match DeTable::parse(text) {
        Ok(table) => {
            Reader {
                text: text.as_bytes(),
                written,
            }
            .table("", table.get_ref());
            Ok(())
        }
        Err(error) => {
            let start = error.span().map_or(0, |span| span.start);
            let place = written.line(line(text.as_bytes(), start));
            let what = format!("is not TOML: {}", error.message());
            Err(Problem::without_key(place, what).into())
        }
    }
}

/// The line on which the byte at `offset` stands.
pub(super) fn line(text: &[u8], offset: usize) -> usize {
    let before = text.get(..offset).unwrap_or(text);
    before.split(|byte| *byte == b'\n').count()
}

struct Reader<'a> {
    text: &'a [u8],
    written: &'a mut Written,
}

impl Reader<'_> {
    fn table(&mut self, parent: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = join(parent, name.get_ref());
            let line = line(self.text, name.span().start);
            let place = self.written.line(line);
            match reference::find(&path) {
                Some(key) => self.key(key, &place, value.get_ref()),
                None if path == "route" => self.routes(&place, value.get_ref()),
                None if path == "sink.topics" => self.topics(&place, value.get_ref()),
                None if reference::is_section(&path) => match value.get_ref() {
                    DeValue::Table(table) => {
                        self.written.section(&path, line);
                        self.table(&path, table);
                    }
                    other => {
                        let wanted = format!("a table is wanted: [{path}]");
                        self.wrong_type(&place, &path, other, &wanted);
                    }
                },
                None => {
                    let nearest = reference::nearest_key(&path);
                    let what = format!("is not a known key; the nearest is {nearest}");
                    self.written.refuse(&place, &path, what);
                }
            }
        }
    }

    fn routes(&mut self, place: &Place, value: &DeValue<'_>) {
        let wanted = "[[route]] with two brackets is wanted";
        let DeValue::Array(routes) = value else {
            self.wrong_type(place, "route", value, wanted);
            return;
        };
        for route in routes {
            let line = line(self.text, route.span().start);
            let place = self.written.line(line);
            match route.get_ref() {
                DeValue::Table(table) => self.part("route", ("", line), table),
                other => self.wrong_type(&place, "route", other, wanted),
            }
        }
    }

    /// Each pattern of topics is a table of its own.
    fn topics(&mut self, place: &Place, value: &DeValue<'_>) {
        let wanted = "a table for each pattern is wanted: [sink.topics.\"orders.*\"]";
        let DeValue::Table(topics) = value else {
            self.wrong_type(place, "sink.topics", value, wanted);
            return;
        };
        for (pattern, value) in topics {
            let line = line(self.text, pattern.span().start);
            match value.get_ref() {
                DeValue::Table(table) => {
                    self.part("sink.topics", (pattern.get_ref(), line), table);
                }
                other => {
                    let path = join("sink.topics", pattern.get_ref());
                    self.wrong_type(&self.written.line(line), &path, other, wanted);
                }
            }
        }
    }

    /// One table of several.
    fn part(&mut self, section: &'static str, (name, line): (&str, usize), table: &DeTable<'_>) {
        let mut part = self.written.part();
        part.section(section, line);
        let mut reader = Reader {
            text: self.text,
            written: &mut part,
        };
        reader.table(section, table);
        let place = self.written.line(line);
        self.written.add_table(section, (name, place), part);
    }

    fn key(&mut self, key: &'static Key, place: &Place, value: &DeValue<'_>) {
        if let Some(what) = key.not_built() {
            if !is_empty(value) {
                self.written.refuse(place, key.path, what);
            }
            return;
        }
        match (key.kind, value) {
            (Kind::Map, DeValue::Table(table)) => self.map(key.path, table),
            (Kind::List, DeValue::Array(array)) => self.list(key.path, place, array),
            (Kind::Condition, DeValue::Table(_)) => {
                let condition = self.condition(key, place, value);
                let conditions = condition.into_iter().collect();
                self.written
                    .put_conditions(key.path, place.clone(), conditions);
            }
            (Kind::Conditions, DeValue::Array(array)) => self.conditions(key, place, array),
            (kind, value) => match text(kind, value) {
                Some(text) => self.written.put(key.path, place.clone(), text),
                None => self.wrong_type(place, key.path, value, &kind.wanted()),
            },
        }
    }

    /// `security.protocol = ...` is a table in a table for TOML; its writer means one name with a dot.
    fn map(&mut self, parent: &str, table: &DeTable<'_>) {
        for (name, value) in table {
            let path = join(parent, name.get_ref());
            let place = self.written.line(line(self.text, name.span().start));
            match (value.get_ref(), scalar(value.get_ref())) {
                (DeValue::Table(table), _) => self.map(&path, table),
                (_, Some(text)) => self.written.put(&path, place, text),
                (other, None) => {
                    let wanted = "a string, a whole number, true or false is wanted";
                    self.wrong_type(&place, &path, other, wanted);
                }
            }
        }
    }

    fn list(&mut self, path: &str, place: &Place, array: &DeArray<'_>) {
        let mut items = Vec::new();
        for item in array {
            let place = self.written.line(line(self.text, item.span().start));
            match item.get_ref() {
                DeValue::String(text) => items.push((place, text.to_string())),
                other => self.wrong_type(&place, path, other, &Kind::List.wanted()),
            }
        }
        if items.len() == array.len() {
            self.written.put_list(path, place.clone(), items);
        }
    }

    fn conditions(&mut self, key: &Key, place: &Place, array: &DeArray<'_>) {
        let mut conditions = Vec::new();
        for item in array {
            let place = self.written.line(line(self.text, item.span().start));
            conditions.extend(self.condition(key, &place, item.get_ref()));
        }
        self.written
            .put_conditions(key.path, place.clone(), conditions);
    }

    fn condition(&mut self, key: &Key, place: &Place, value: &DeValue<'_>) -> Option<Condition> {
        let DeValue::Table(table) = value else {
            self.wrong_type(place, key.path, value, &key.kind.wanted());
            return None;
        };
        let mut columns = Vec::new();
        self.columns(key, "", table, &mut columns);
        let place = place.clone();
        Some(Condition { place, columns })
    }

    /// `payload.customer.id = [...]` is a table in a table for TOML; its writer means a path.
    fn columns(&mut self, key: &Key, parent: &str, table: &DeTable<'_>, columns: &mut Vec<Column>) {
        for (name, value) in table {
            let path = join(parent, name.get_ref());
            let place = self.written.line(line(self.text, name.span().start));
            match value.get_ref() {
                DeValue::Table(table) => self.columns(key, &path, table, columns),
                DeValue::String(text) => {
                    columns.push((path, place.clone(), vec![(place, text.to_string())]));
                }
                DeValue::Array(array) => {
                    let patterns = self.patterns(key, array);
                    columns.push((path, place, patterns));
                }
                other => {
                    self.wrong_type(&place, &join(key.path, &path), other, &Kind::List.wanted());
                }
            }
        }
    }

    fn patterns(&mut self, key: &Key, array: &DeArray<'_>) -> Vec<(Place, String)> {
        let mut patterns = Vec::new();
        for item in array {
            let place = self.written.line(line(self.text, item.span().start));
            match item.get_ref() {
                DeValue::String(text) => patterns.push((place, text.to_string())),
                other => self.wrong_type(&place, key.path, other, &Kind::List.wanted()),
            }
        }
        patterns
    }

    fn wrong_type(&mut self, place: &Place, path: &str, value: &DeValue<'_>, wanted: &str) {
        let what = format!("has the type {}; {wanted}", value.type_str());
        self.written.refuse(place, path, what);
    }
}

fn join(parent: &str, name: &str) -> String {
    if parent.is_empty() {
        name.to_owned()
    } else {
        format!("{parent}.{name}")
    }
}

fn is_empty(value: &DeValue<'_>) -> bool {
    match value {
        DeValue::Array(array) => array.is_empty(),
        DeValue::Table(table) => table.is_empty(),
        _ => false,
    }
}

/// The value as text, if its type fits the key.
fn text(kind: Kind, value: &DeValue<'_>) -> Option<String> {
    let fits = match kind {
        Kind::Text | Kind::Path | Kind::Word { .. } => value.is_str(),
        Kind::Integer => value.is_integer(),
        Kind::Bool => value.is_bool(),
        Kind::Duration | Kind::Size => value.is_str() || value.is_integer(),
        Kind::List | Kind::Map | Kind::Condition | Kind::Conditions => false,
    };
    if fits { scalar(value) } else { None }
}

fn scalar(value: &DeValue<'_>) -> Option<String> {
    match value {
        DeValue::String(text) => Some(text.to_string()),
        DeValue::Boolean(flag) => Some(flag.to_string()),
        DeValue::Integer(number) => i64::from_str_radix(number.as_str(), number.radix())
            .ok()
            .map(|number| number.to_string()),
        _ => None,
    }
}
