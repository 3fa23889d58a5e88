//! A letter's value: the columns of a row as a JSON object of texts, cut where it would be too large.

use std::borrow::Cow;
use std::cmp::Reverse;
use std::fmt::Write as _;

use crate::event::{Role, Roles, Text, hyphenated};
use crate::instant::Instant;
use crate::row::{Row, Value};

/// What is shorter as JSON is not cut: little would be won by it.
const SHORT: usize = 64;

/// The columns of a row, each as it will be written.
pub struct Body<'r> {
    columns: Vec<Column<'r>>,
    cut: Vec<&'r str>,
}

struct Column<'r> {
    name: &'r str,
    text: Option<Cow<'r, str>>,
    /// Its text is base16.
    is_bytes: bool,
    unreadable: Option<&'r str>,
}

impl<'r> Body<'r> {
    pub fn of(row: &'r Row) -> Body<'r> {
        let column = |(index, name): (usize, &'r String)| {
            let cell = row.cells.get(index).unwrap_or(&Value::Absent);
            Column {
                name,
                text: text(cell),
                is_bytes: matches!(cell, Value::Bytes(bytes) if bytes.len() != 16),
                unreadable: match cell {
                    Value::Unreadable(why) => Some(why),
                    Value::Absent => Some("did not come with the row"),
                    _ => None,
                },
            }
        };
        Body {
            columns: row.table.columns.iter().enumerate().map(column).collect(),
            cut: Vec::new(),
        }
    }

    /// Something else of the letter was left out.
    pub fn cut_is_noted(&mut self, what: &'static str) {
        self.cut.push(what);
    }

    /// Shortens the payload, then the action's parameters, then the other columns, longest first, until all is no longer than that.
    pub fn cut_to(&mut self, limit: usize, roles: &Roles) {
        let mut size = self.written().len();
        for index in self.cut_order(roles) {
            if size <= limit {
                return;
            }
            let Some(column) = self.columns.get_mut(index) else {
                continue;
            };
            let Some(text) = &mut column.text else {
                continue;
            };
            let before = length(text);
            // Its name goes among those that were cut: in quotes, with a comma, and the first with the list itself.
            let noted = length(column.name) + 1 + r#","cut":[]"#.len();
            let room = (before + limit).saturating_sub(size + noted);
            *text = beginning_as_json(text, room).to_owned().into();
            self.cut.push(column.name);
            size = self.written().len();
        }
    }

    fn cut_order(&self, roles: &Roles) -> Vec<usize> {
        let first = [Role::Payload, Role::ActionParams].map(|role| roles.index(role));
        let mut others: Vec<(Reverse<usize>, usize)> = Vec::new();
        for (index, column) in self.columns.iter().enumerate() {
            let length = column.text.as_deref().map_or(0, length);
            if length > SHORT && !first.contains(&Some(index)) {
                others.push((Reverse(length), index));
            }
        }
        others.sort_unstable();
        let others = others.into_iter().map(|(_, index)| index);
        first.into_iter().flatten().chain(others).collect()
    }

    pub fn written(&self) -> Vec<u8> {
        let mut json = String::from("{");
        let columns = self.columns.iter().map(|it| (it.name, it.text.as_deref()));
        object(&mut json, "columns", columns);
        let bytes = self.columns.iter().filter(|it| it.is_bytes);
        list(&mut json, "bytes", bytes.map(|it| it.name));
        list(&mut json, "cut", self.cut.iter().copied());
        let told = |it: &Column<'r>| Some((it.name, Some(it.unreadable?)));
        let mut unreadable = self.columns.iter().filter_map(told).peekable();
        if unreadable.peek().is_some() {
            json.push(',');
            object(&mut json, "unreadable", unreadable);
        }
        json.push('}');
        json.into_bytes()
    }
}

/// A cell as text; none if it has none.
pub fn text(cell: &Value) -> Option<Cow<'_, str>> {
    Some(match cell {
        Value::Null | Value::Absent | Value::Unreadable(_) => return None,
        Value::Text(text) => Cow::Borrowed(text),
        Value::Bool(bool) => bool.to_string().into(),
        Value::Int(number) => number.to_string().into(),
        Value::Uuid(bytes) => uuid(bytes),
        Value::Micros(micros) => Instant(*micros).to_string().into(),
        // MariaDB's log does not tell a uuid from other 16 bytes.
        Value::Bytes(bytes) => match <&[u8; 16]>::try_from(bytes.as_ref()) {
            Ok(bytes) => uuid(bytes),
            Err(_) => base16(bytes).into(),
        },
    })
}

fn uuid(bytes: &[u8; 16]) -> Cow<'static, str> {
    Cow::Owned(Text::Uuid(hyphenated(bytes)).to_string())
}

fn base16(bytes: &[u8]) -> String {
    let mut text = String::with_capacity(bytes.len() * 2);
    for byte in bytes {
        // Writing to a text cannot fail.
        let _ = write!(text, "{byte:02x}");
    }
    text
}

fn object<'a>(
    json: &mut String,
    name: &str,
    members: impl Iterator<Item = (&'a str, Option<&'a str>)>,
) {
    json.push_str(&quoted(name));
    json.push_str(":{");
    for (index, (name, text)) in members.enumerate() {
        if index > 0 {
            json.push(',');
        }
        json.push_str(&quoted(name));
        json.push(':');
        match text {
            Some(text) => json.push_str(&quoted(text)),
            None => json.push_str("null"),
        }
    }
    json.push('}');
}

/// Nothing, if it would be empty.
fn list<'a>(json: &mut String, name: &str, items: impl Iterator<Item = &'a str>) {
    let items: Vec<String> = items.map(quoted).collect();
    if !items.is_empty() {
        let _ = write!(json, ",{}:[{}]", quoted(name), items.join(","));
    }
}

fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

/// How long a text is as JSON, quotes included.
fn length(text: &str) -> usize {
    2 + text.chars().map(escaped).sum::<usize>()
}

/// How many bytes JSON has for a character.
fn escaped(char: char) -> usize {
    match char {
        '"' | '\\' | '\n' | '\r' | '\t' | '\u{8}' | '\u{c}' => 2,
        '\0'..='\u{1f}' => 6,
        other => other.len_utf8(),
    }
}

/// As much of a text as is no longer than that as JSON.
fn beginning_as_json(text: &str, room: usize) -> &str {
    let mut left = room.saturating_sub(2);
    let end = text.char_indices().find(|(_, char)| {
        let length = escaped(*char);
        let is_over = length > left;
        left = left.saturating_sub(length);
        is_over
    });
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// As much of a text as is no longer than that.
pub fn beginning(text: &str, room: usize) -> &str {
    text.get(..text.floor_char_boundary(room)).unwrap_or(text)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn the_length_of_a_text_is_that_of_its_json(text in any::<String>(), room in 0_usize..60) {
            prop_assert_eq!(length(&text), quoted(&text).len());
            let cut = beginning_as_json(&text, room);
            prop_assert!(text.starts_with(cut));
            prop_assert!(length(cut) <= room.max(2));
            if let Some(next) = text[cut.len()..].chars().next() {
                prop_assert!(length(cut) + escaped(next) > room);
            }
        }
    }
}
