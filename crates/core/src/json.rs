//! A value inside a JSON text, found by its path without building a tree of the rest.
//!
//! Rule: of members with the same name the last one counts, as in the databases and in Jackson.

use std::fmt;

use serde::de::{DeserializeSeed, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Result;
use serde_json::value::RawValue;

/// The value at the path, as it is written; none if a step leads nowhere. A number as a step is an array's index.
pub fn at<'j>(text: &'j str, path: &[String]) -> Result<Option<&'j RawValue>> {
    let mut found: &RawValue = serde_json::from_str(text)?;
    for step in path {
        match descend(found, step)? {
            Some(next) => found = next,
            None => return Ok(None),
        }
    }
    Ok(Some(found))
}

/// The members of an object, each name once; none if it is no object.
pub fn members(all: &RawValue) -> Result<Option<Vec<(String, &RawValue)>>> {
    if !all.get().starts_with('{') {
        return Ok(None);
    }
    let mut json = serde_json::Deserializer::from_str(all.get());
    json.deserialize_map(Members).map(Some)
}

/// Writes a string's text, and anything else as it stands; false if it is null.
pub fn write(value: &RawValue, into: &mut String) -> Result<bool> {
    let text = value.get();
    match text.strip_prefix('"').and_then(|it| it.strip_suffix('"')) {
        _ if text == "null" => return Ok(false),
        Some(plain) if !plain.contains('\\') => into.push_str(plain),
        Some(_) => into.push_str(&serde_json::from_str::<String>(text)?),
        None => into.push_str(text),
    }
    Ok(true)
}

fn descend<'j>(value: &'j RawValue, step: &str) -> Result<Option<&'j RawValue>> {
    let mut json = serde_json::Deserializer::from_str(value.get());
    match value.get().as_bytes().first() {
        Some(b'{') => json.deserialize_map(Step(step)),
        Some(b'[') => json.deserialize_seq(Step(step)),
        _ => Ok(None),
    }
}

struct Step<'s>(&'s str);

impl<'j> Visitor<'j> for Step<'_> {
    type Value = Option<&'j RawValue>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object or an array")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut found = None;
        while let Some(is_it) = map.next_key_seed(Is(self.0))? {
            if is_it {
                found = Some(map.next_value()?);
            } else {
                map.next_value::<IgnoredAny>()?;
            }
        }
        Ok(found)
    }

    fn visit_seq<A: SeqAccess<'j>>(self, mut seq: A) -> std::result::Result<Self::Value, A::Error> {
        let wanted = self.0.parse::<usize>().ok();
        let (mut index, mut found) = (0, None);
        while let Some(value) = seq.next_element()? {
            if Some(index) == wanted {
                found = Some(value);
            }
            index += 1;
        }
        Ok(found)
    }
}

/// Whether a member's name is this one; compared without a copy.
struct Is<'s>(&'s str);

impl<'j> DeserializeSeed<'j> for Is<'_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'j>>(self, json: D) -> std::result::Result<bool, D::Error> {
        json.deserialize_str(self)
    }
}

impl Visitor<'_> for Is<'_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a name")
    }

    fn visit_str<E>(self, name: &str) -> std::result::Result<bool, E> {
        Ok(name == self.0)
    }
}

struct Members;

impl<'j> Visitor<'j> for Members {
    type Value = Vec<(String, &'j RawValue)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'j>>(self, mut map: A) -> std::result::Result<Self::Value, A::Error> {
        let mut all: Self::Value = Vec::new();
        while let Some((name, value)) = map.next_entry::<String, &'j RawValue>()? {
            match all.iter_mut().find(|(known, _)| *known == name) {
                Some((_, last)) => *last = value,
                None => all.push((name, value)),
            }
        }
        Ok(all)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(text: &str, path: &str) -> Option<String> {
        let path: Vec<String> = path.split('.').map(str::to_owned).collect();
        let value = at(text, &path).expect("JSON")?;
        let mut into = String::new();
        write(value, &mut into).expect("text").then_some(into)
    }

    #[test]
    fn a_path_leads_through_members_and_indexes() {
        let text = r#" {"a": {"b": [1, {"c\"d": "x\ty"}], "0": true}, "n": null, "f": 1.50} "#;
        for (path, wanted) in [
            ("a.b.0", Some("1")),
            ("a.b.1.c\"d", Some("x\ty")),
            ("a.0", Some("true")),
            ("a.b", Some(r#"[1, {"c\"d": "x\ty"}]"#)),
            ("f", Some("1.50")),
            ("n", None),
            ("n.x", None),
            ("f.x", None),
            ("a.b.2", None),
            ("a.b.x", None),
            ("nothing.here", None),
        ] {
            assert_eq!(found(text, path).as_deref(), wanted, "{path}");
        }
    }

    fn raw(text: &str) -> &RawValue {
        serde_json::from_str(text).expect("JSON")
    }

    #[test]
    fn the_last_of_two_members_counts() {
        assert_eq!(
            found(r#"{"a":1,"a":{"b":2},"a":{"b":3}}"#, "a.b").as_deref(),
            Some("3")
        );
        let all = members(raw(r#"{"a":1,"b":2,"a":3}"#))
            .expect("JSON")
            .expect("object");
        let told: Vec<(&str, &str)> = all.iter().map(|(n, v)| (&**n, v.get())).collect();
        assert_eq!(told, [("a", "3"), ("b", "2")]);
    }

    #[test]
    fn what_is_not_json_is_an_error_wherever_it_goes_wrong() {
        let path = ["a".to_owned()];
        for text in [
            "",
            "x",
            "{",
            r#"{"a":1"#,
            r#"{"a":1} x"#,
            r#"{"a":1,"b":tru}"#,
            "{'a':1}",
        ] {
            assert!(at(text, &path).is_err(), "{text}");
        }
        assert!(members(raw("[1]")).expect("JSON").is_none());
    }

    #[test]
    fn a_value_nested_without_end_does_not_end_the_program() {
        let deep = format!("{}1{}", "[".repeat(200_000), "]".repeat(200_000));
        assert!(at(&deep, &["0".to_owned()]).is_ok_and(|it| it.is_some()));
    }
}
