//! Why a payload does not fit its schema, with the path to the value: built only when a row fails.

use std::fmt::{self, Write};

use headwater_core::failure::Failure;
use headwater_core::nearest::nearest;

use crate::document::{self, Text, Value};

/// How much of a value a message shows.
const SHOWN: usize = 40;
/// How much of a member's name: one may be as long as a payload.
pub const NAME: usize = 160;
/// How many of an enum's names a message lists.
const LISTED: usize = 20;
/// How many members a message looks at to find one that was meant.
const LOOKED_AT: usize = 100;

/// A value that does not fit. The path grows from the inside out while the error travels up.
#[derive(Debug)]
pub struct Unfit(Box<Inner>);

#[derive(Debug)]
struct Inner {
    /// From the value outwards.
    steps: Vec<Step>,
    what: String,
}

#[derive(Debug)]
enum Step {
    Field(Box<str>),
    Index(usize),
}

impl Unfit {
    pub fn new(what: impl Into<String>) -> Unfit {
        Unfit(Box::new(Inner {
            steps: Vec::new(),
            what: what.into(),
        }))
    }

    /// The usual sentence: the declared type, what it needs, and what was found.
    pub fn mismatch(
        declared: impl fmt::Display,
        needs: impl fmt::Display,
        got: Value<'_>,
    ) -> Unfit {
        Unfit::new(format!(
            "{declared} {needs}, got {} ({})",
            got.kind(),
            Shown(got)
        ))
    }

    /// The value is a member of an object, or an entry of a map.
    #[must_use]
    pub fn in_field(mut self, name: &str) -> Unfit {
        self.0.steps.push(Step::Field(name.into()));
        self
    }

    /// The value is an element of a list.
    #[must_use]
    pub fn at_index(mut self, index: usize) -> Unfit {
        self.0.steps.push(Step::Index(index));
        self
    }

    pub fn into_failure(self, root: &str) -> Failure {
        Failure::bad_payload(format!("Failed to encode payload: {}", self.told(root)))
    }

    /// The sentence, with the path beginning at `root`.
    pub fn told(&self, root: &str) -> String {
        let mut path = root.to_owned();
        for step in self.0.steps.iter().rev() {
            match step {
                Step::Field(name) => add_field(&mut path, name),
                Step::Index(index) => add_index(&mut path, *index),
            }
        }
        format!("{path}: {}", self.0.what)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told("payload"))
    }
}

/// The path to a value of a document, beginning at `root`.
pub fn path(root: &str, value: Value<'_>) -> String {
    let mut path = root.to_owned();
    for step in value.way() {
        match step {
            document::Step::Member(name) => add_field(&mut path, &name.lossy()),
            document::Step::Element(index) => add_index(&mut path, index),
        }
    }
    path
}

fn add_field(path: &mut String, name: &str) {
    path.extend([".", cut(name, NAME)]);
}

fn add_index(path: &mut String, index: usize) {
    // Writing to a text cannot fail.
    let _ = write!(path, "[{index}]");
}

/// An enum's names between commas, not without end.
pub fn listed<'n>(names: impl ExactSizeIterator<Item = &'n str>) -> String {
    let more = if names.len() > LISTED { ", ..." } else { "" };
    let names: Vec<&str> = names.take(LISTED).collect();
    format!("{}{more}", names.join(", "))
}

/// What a message about a missing field ends with: the member without a field that was probably meant.
pub fn probably_meant<'d>(field: &str, unknown: impl Iterator<Item = Text<'d>>) -> String {
    let names: Vec<String> = unknown
        .take(LOOKED_AT)
        .map(|name| cut(&name.lossy(), NAME).to_owned())
        .collect();
    match nearest(field, names.iter().map(String::as_str)) {
        Some(name) => format!("; the payload has {name}, which is no field"),
        None => String::new(),
    }
}

/// A value's JSON text, cut.
pub struct Shown<'d>(pub Value<'d>);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = self.0.raw();
        let shown = cut(text, SHOWN);
        let more = if shown.len() < text.len() { "..." } else { "" };
        write!(f, "{shown}{more}")
    }
}

/// At most so many characters.
pub fn cut(text: &str, characters: usize) -> &str {
    match text.char_indices().nth(characters) {
        Some((end, _)) => &text[..end],
        None => text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_without_end_are_listed_only_so_far() {
        assert_eq!(listed(["A", "B"].into_iter()), "A, B");
        let many: Vec<String> = (0..10_000).map(|n| format!("N{n}")).collect();
        let told = listed(many.iter().map(String::as_str));
        assert!(told.ends_with(", N19, ..."), "{told}");
    }
}
