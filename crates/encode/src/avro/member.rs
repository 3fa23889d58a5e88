//! What stands in a schema's JSON objects, and which names are allowed there.

use std::borrow::Cow;

use super::logical::Digits;
use super::number;
use crate::document::{Kind, Value};

/// The last of equal names counts.
pub fn member<'d>(object: Value<'d>, name: &str) -> Option<Value<'d>> {
    let is_wanted = |text: &crate::document::Text<'_>| text.to_str().is_ok_and(|text| text == name);
    let members = object.members().filter(|(text, _)| is_wanted(text));
    members.last().map(|(_, value)| value)
}

pub fn lacks(object: Value<'_>, name: &str) -> String {
    let shown = object.raw();
    format!("\"{name}\" is missing in {shown:.80}")
}

pub fn string(value: Value<'_>) -> Result<Cow<'_, str>, String> {
    let text = value.text().and_then(|text| text.to_str().ok());
    let shown = value.raw();
    text.ok_or_else(|| format!("text is wanted instead of {shown:.80}"))
}

/// A member that is a number without point and exponent.
pub fn integer(object: Value<'_>, name: &str) -> Option<i64> {
    let value = member(object, name)?;
    (value.kind() == Kind::Integer).then(|| number::whole(value.raw()))?
}

pub fn logical_name(object: Value<'_>) -> Option<Cow<'_, str>> {
    string(member(object, "logicalType")?).ok()
}

pub fn digits(object: Value<'_>) -> Digits {
    Digits {
        precision: integer(object, "precision"),
        scale: match member(object, "scale") {
            Some(_) => integer(object, "scale"),
            None => Some(0),
        },
    }
}

pub fn full_name(name: &str, namespace: &str) -> String {
    if name.contains('.') || namespace.is_empty() {
        name.to_owned()
    } else {
        format!("{namespace}.{name}")
    }
}

pub fn namespace_of(full: &str) -> &str {
    full.rsplit_once('.').map_or("", |(namespace, _)| namespace)
}

pub fn check_name(full: &str) -> Result<(), String> {
    full.split('.').try_for_each(check_segment)
}

/// Java allows the letters and digits of every script.
pub fn check_segment(segment: &str) -> Result<(), String> {
    let mut characters = segment.chars();
    let first = characters.next();
    let is_name = first.is_some_and(|first| first.is_alphabetic() || first == '_')
        && characters.all(|character| character.is_alphanumeric() || character == '_');
    if is_name {
        Ok(())
    } else {
        Err(format!(
            "\"{segment:.80}\" is not a name: letters, digits and _ are wanted, the first not a digit"
        ))
    }
}
