//! Which rows a route or a filter means: places of the row, and the texts that may stand there.

use crate::event::Roles;
use crate::failure::Failure;
use crate::row::{Row, Table};
use crate::template::{NoColumn, Place};

/// A text, or all that begin so: `Wallet`, `Wallet*`; `*` is any text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Pattern {
    Exact(String),
    Beginning(String),
}

impl Pattern {
    pub fn parse(text: &str) -> Pattern {
        match text.strip_suffix('*') {
            Some(beginning) => Pattern::Beginning(beginning.to_owned()),
            None => Pattern::Exact(text.to_owned()),
        }
    }

    /// Of two patterns that match the same text, the more precise one has more of this.
    pub fn precision(&self) -> (usize, bool) {
        match self {
            Pattern::Exact(text) => (text.len(), true),
            Pattern::Beginning(text) => (text.len(), false),
        }
    }

    pub fn matches(&self, text: &str) -> bool {
        match self {
            Pattern::Exact(exact) => text == exact,
            Pattern::Beginning(beginning) => text.starts_with(beginning.as_str()),
        }
    }
}

/// Holds for a row if at each place stands a text that one of its patterns matches. Null matches nothing; without any
/// place it holds for every row.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Condition {
    places: Vec<(Place, Vec<Pattern>)>,
}

impl Condition {
    pub fn new(places: Vec<(Place, Vec<Pattern>)>) -> Condition {
        Condition { places }
    }

    pub fn bind(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        let mut places = self.places.iter_mut();
        places.try_for_each(|(place, _)| place.bind(table, roles))
    }

    /// `buffer` is overwritten.
    pub fn holds(&self, row: &Row, buffer: &mut String) -> Result<bool, Failure> {
        for (place, patterns) in &self.places {
            buffer.clear();
            let holds =
                place.write(row, buffer)? && patterns.iter().any(|pattern| pattern.matches(buffer));
            if !holds {
                return Ok(false);
            }
        }
        Ok(true)
    }
}
