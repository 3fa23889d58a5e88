//! Rows that are deliberately not published, by the user's rules.

use std::fmt;

use crate::event::Roles;
use crate::failure::Failure;
use crate::pattern::Condition;
use crate::row::{Row, Table};
use crate::template::NoColumn;

/// Which rule skipped a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rule {
    /// The condition of `skip` with this index.
    Skip(usize),
    /// None of `only` holds.
    Only,
}

impl Rule {
    /// So many conditions `skip` may have at most: each rule is counted.
    pub const MOST: usize = 31;

    /// Its place among the counts of all rules.
    pub fn index(self) -> usize {
        match self {
            Rule::Skip(index) => index.min(Rule::MOST - 1),
            Rule::Only => Rule::MOST,
        }
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Rule::Skip(index) => write!(f, "skip[{}]", index + 1),
            Rule::Only => f.write_str("only"),
        }
    }
}

/// A row is skipped if any condition of `skip` holds, or if there is an `only` and none of its conditions holds.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    skip: Vec<Condition>,
    only: Vec<Condition>,
    buffer: String,
}

impl Filter {
    pub fn new(skip: Vec<Condition>, only: Vec<Condition>) -> Filter {
        Filter {
            skip,
            only,
            buffer: String::new(),
        }
    }

    pub fn is_empty(&self) -> bool {
        self.skip.is_empty() && self.only.is_empty()
    }

    /// All its rules, in order.
    pub fn rules(&self) -> impl Iterator<Item = Rule> {
        let only = (!self.only.is_empty()).then_some(Rule::Only);
        (0..self.skip.len()).map(Rule::Skip).chain(only)
    }

    pub fn bind(&mut self, table: &Table, roles: &Roles) -> Result<(), NoColumn> {
        let mut all = self.skip.iter_mut().chain(&mut self.only);
        all.try_for_each(|condition| condition.bind(table, roles))
    }

    /// The first rule that skips the row.
    pub fn rule(&mut self, row: &Row) -> Result<Option<Rule>, Failure> {
        for (index, condition) in self.skip.iter().enumerate() {
            if condition.holds(row, &mut self.buffer)? {
                return Ok(Some(Rule::Skip(index)));
            }
        }
        for condition in &self.only {
            if condition.holds(row, &mut self.buffer)? {
                return Ok(None);
            }
        }
        Ok((!self.only.is_empty()).then_some(Rule::Only))
    }
}
