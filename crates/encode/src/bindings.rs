//! Which schema encodes an event: namespace, format and event type make its name.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use headwater_core::event::Event;
use headwater_core::failure::{Failure, Kind};
use headwater_core::nearest::distance;

use crate::error::SchemaError;

/// How many known names a failure lists.
const NEAREST: usize = 3;

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
            let wanted = format!("<namespace>.{}.<EventType>", self.format);
            return Err(SchemaError::new(
                file,
                format!("{name} is not the name of an event type's schema; {wanted} is wanted"),
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
        let mut names: Vec<&str> = self.names().collect();
        names.sort_by_key(|name| distance(&self.wanted, name));
        let configured = match names.len() {
            0 => "Configured are none".to_owned(),
            all if all <= NEAREST => format!("Configured: {}", names.join(", ")),
            all => format!(
                "Configured are {all}; the nearest: {}",
                names[..NEAREST].join(", ")
            ),
        };
        let wanted = &self.wanted;
        let detail =
            format!("there is no schema {wanted}: add its file to encode.schemas. {configured}");
        Failure::new(Kind::UnknownType, detail)
    }

    /// All names, sorted.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.bound.keys().map(|name| &**name)
    }
}

fn is_identifier(segment: &str) -> bool {
    let mut chars = segment.chars();
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    chars.next().is_some_and(letter) && chars.all(|c| letter(c) || c.is_ascii_digit())
}
