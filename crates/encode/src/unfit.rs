//! Why a payload does not fit its schema, with the path to the value: built only when a row fails.

use std::fmt::{self, Write};

use headwater_core::failure::Failure;

use crate::document::Value;

/// How much of a value a message shows.
const SHOWN: usize = 40;

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
        let mut text = root.to_owned();
        for step in self.0.steps.iter().rev() {
            match step {
                // A member's name may be as long as a payload.
                Step::Field(name) => text.extend([".", cut(name, 4 * SHOWN)]),
                // Writing to a text cannot fail.
                Step::Index(index) => {
                    let _ = write!(text, "[{index}]");
                }
            }
        }
        format!("{text}: {}", self.0.what)
    }
}

impl fmt::Display for Unfit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.told("payload"))
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
