//! Which schema encodes an event: namespace, format and event type make its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headwater_core::event::Event;
use headwater_core::failure::{Failure, Kind};
use headwater_core::nearest::distance;

use crate::error::SchemaError;
use crate::unfit::cut;

/// How many known names a failure lists.
const NEAREST: usize = 3;
/// How much of a wanted name is looked at and told.
const SHOWN: usize = 300;

/// A schema's plan, and where it comes from.
#[derive(Debug)]
pub struct Bound<P> {
    /// `<namespace>.<avro|proto>.<EventType>`.
    pub name: Box<str>,
    pub file: PathBuf,
    pub plan: P,
}

/// All schemas of an encoder, loaded and checked once.
#[derive(Debug)]
pub struct Bindings<P> {
    /// The middle of every name.
    format: &'static str,
    bound: BTreeMap<Box<str>, Bound<P>>,
    /// The name that is looked up, reused.
    wanted: String,
}

impl<P> Bindings<P> {
    pub fn new(format: &'static str) -> Bindings<P> {
        Bindings {
            format,
            bound: BTreeMap::new(),
            wanted: String::new(),
        }
    }

    /// Takes a schema; its name must be that of an event type, and no other file may have it.
    pub fn add(&mut self, name: &str, file: &Path, plan: P) -> Result<(), SchemaError> {
        if !self.is_event_type(name) {
            let advice = self.advice(name);
            return Err(SchemaError::new(
                file,
                format!("{name} is not the name of an event type's schema: {advice}"),
            ));
        }
        if let Some(before) = self.bound.get(name) {
            return Err(SchemaError::new(
                file,
                format!(
                    "{name} is in {} already; one file for each name is wanted",
                    before.file.display()
                ),
            ));
        }
        let bound = Bound {
            name: name.into(),
            file: file.to_owned(),
            plan,
        };
        self.bound.insert(name.into(), bound);
        Ok(())
    }

    /// A namespace, the format and a simple name, each segment an identifier.
    pub fn is_event_type(&self, name: &str) -> bool {
        let segments: Vec<&str> = name.split('.').collect();
        segments.len() >= 3
            && segments[segments.len() - 2] == self.format
            && segments.iter().all(|segment| is_identifier(segment))
    }

    /// How a schema's name becomes one of an event type.
    pub fn advice(&self, name: &str) -> String {
        let format = self.format;
        let wanted = format!("<namespace>.{format}.<EventType> is wanted");
        let word = if format == "avro" {
            "namespace"
        } else {
            "package"
        };
        let mut rows: Vec<&str> = name.split('.').collect();
        rows.pop();
        if let Some(&"avro" | &"proto") = rows.last() {
            rows.pop();
        }
        if !name.split('.').all(is_identifier) {
            return format!("{wanted}, of the letters A to Z, digits and _");
        }
        if rows.is_empty() {
            return format!(
                "{wanted}; its {word} must be the namespace of the rows with .{format} behind it"
            );
        }
        let rows = rows.join(".");
        format!("{wanted}; for rows of namespace {rows} its {word} must be {rows}.{format}")
    }

    pub fn find(&mut self, event: &Event<'_>) -> Result<&Bound<P>, Failure> {
        self.wanted.clear();
        self.wanted
            .extend([&*event.namespace, ".", self.format, ".", &*event.event_type]);
        match self.bound.get(self.wanted.as_str()) {
            Some(bound) => Ok(bound),
            None => Err(self.unknown()),
        }
    }

    fn unknown(&self) -> Failure {
        // Columns can be of any length, and a comparison takes both lengths.
        let wanted = cut(&self.wanted, SHOWN);
        let mut names: Vec<&str> = self.names().collect();
        names.sort_by_cached_key(|name| distance(wanted, name));
        let configured = match names.len() {
            0 => "Configured are none".to_owned(),
            all if all <= NEAREST => format!("Configured: {}", names.join(", ")),
            all => format!(
                "Configured are {all}; the nearest: {}",
                names[..NEAREST].join(", ")
            ),
        };
        let detail =
            format!("there is no schema {wanted}: add its file to encode.schemas. {configured}");
        Failure::new(Kind::UnknownType, detail)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bound.keys().map(|name| &**name)
    }
}

/// What is said about the envelope among the payloads' schemas.
pub fn is_envelope(name: &str) -> String {
    format!(
        "{name} is the envelope, which is built in: take it out of encode.schemas; another one is given as encode.envelope"
    )
}

fn is_identifier(segment: &str) -> bool {
    let mut chars = segment.chars();
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    chars.next().is_some_and(letter) && chars.all(|c| letter(c) || c.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use headwater_core::event::Text;

    use super::*;
    use crate::tests::event;

    #[test]
    fn a_type_without_schema_is_told_with_the_nearest_and_in_part_only() {
        let mut bindings = Bindings::new("avro");
        for number in 0..1000 {
            let name = format!("port.cargo.avro.Crate{number}");
            bindings.add(&name, Path::new("x"), ()).expect("taken");
        }
        let mut event = event("{}");
        event.event_type = Text::Plain("Crate7x");
        let failure = bindings.find(&event).expect_err("none has it");
        assert!(failure.detail.contains("port.cargo.avro.Crate7x: "));
        assert!(
            failure
                .detail
                .contains("1000; the nearest: port.cargo.avro.Crate7, ")
        );

        let long = "x".repeat(1_000_000);
        event.event_type = Text::Plain(&long);
        let failure = bindings.find(&event).expect_err("none has it");
        assert!(failure.detail.len() < 1000, "{}", failure.detail.len());
    }
}
