//! A payload's JSON text, indexed: one pass finds every value, so that members can be taken in any order without a tree.
//!
//! Rule: the index is a reused list of places in the text; reading a row allocates nothing once it has grown.

mod read;
mod text;
mod way;

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroU32;

pub use read::{Limits, Malformed};
pub use text::Text;
pub use way::Step;

use crate::buffer;

/// Objects with more members than this are searched for equal names with a hash table.
const FEW: usize = 16;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Object,
    Array,
    Text,
    /// A number without point and exponent.
    Integer,
    /// Any other number.
    Decimal,
    True,
    False,
    Null,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Object => "OBJECT",
            Kind::Array => "ARRAY",
            Kind::Text => "STRING",
            Kind::Integer | Kind::Decimal => "NUMBER",
            Kind::True | Kind::False => "BOOLEAN",
            Kind::Null => "NULL",
        })
    }
}

/// One value, or the name of a member.
#[derive(Debug, Clone, Copy)]
struct Node {
    kind: Kind,
    /// Its text, quotes included.
    start: u32,
    end: u32,
    /// The node after it and all that is inside it.
    next: u32,
    /// Elements of an array, members of an object, bytes of a text without its escapes.
    size: u32,
}

/// The index of one text at a time.
#[derive(Debug, Default)]
pub struct Document {
    nodes: Vec<Node>,
    open: Vec<u32>,
}

impl Document {
    pub fn new() -> Document {
        Document::default()
    }

    /// Reads the one value that the text begins with; none if it is blank.
    pub fn read<'d>(
        &'d mut self,
        text: &'d str,
        limits: &Limits,
    ) -> Result<Option<Value<'d>>, Malformed> {
        self.index(text, limits)?;
        Ok(self.first(text))
    }

    /// The same, and nothing but blanks may follow the value.
    pub fn read_whole<'d>(
        &'d mut self,
        text: &'d str,
        limits: &Limits,
    ) -> Result<Option<Value<'d>>, Malformed> {
        let end = self.index(text, limits)?;
        read::check_end(text, end)?;
        Ok(self.first(text))
    }

    /// Where the value ends.
    fn index(&mut self, text: &str, limits: &Limits) -> Result<usize, Malformed> {
        buffer::empty(&mut self.nodes);
        buffer::empty(&mut self.open);
        read::read(text, limits, &mut self.nodes, &mut self.open)
    }

    fn first<'d>(&'d self, text: &'d str) -> Option<Value<'d>> {
        (!self.nodes.is_empty()).then_some(Value {
            text,
            nodes: &self.nodes,
            at: 0,
        })
    }
}

/// A value in a document.
#[derive(Clone, Copy)]
pub struct Value<'d> {
    text: &'d str,
    nodes: &'d [Node],
    at: u32,
}

/// Where a value stands in its document: it can be kept while the document is not borrowed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Spot(NonZeroU32);

impl fmt::Debug for Value<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.raw())
    }
}

impl<'d> Value<'d> {
    fn node(self) -> &'d Node {
        &self.nodes[self.at as usize]
    }

    pub fn kind(self) -> Kind {
        self.node().kind
    }

    pub fn spot(self) -> Spot {
        // Counted from one, so that a place may be absent without taking more room.
        Spot(NonZeroU32::MIN.saturating_add(self.at))
    }

    /// How many values and names of the document come before it.
    pub fn place(self) -> usize {
        self.at as usize
    }

    /// Another value of the same document.
    #[must_use]
    pub fn at(self, spot: Spot) -> Value<'d> {
        Value {
            at: spot.0.get() - 1,
            ..self
        }
    }

    pub fn is_null(self) -> bool {
        self.kind() == Kind::Null
    }

    /// Its JSON text as it was written.
    pub fn raw(self) -> &'d str {
        let node = self.node();
        &self.text[node.start as usize..node.end as usize]
    }

    /// The byte of the text at which it begins.
    pub fn begins_at(self) -> usize {
        self.node().start as usize
    }

    /// How many elements or members it has; equal names count each.
    pub fn len(self) -> usize {
        match self.kind() {
            Kind::Object | Kind::Array => self.node().size as usize,
            _ => 0,
        }
    }

    pub fn text(self) -> Option<Text<'d>> {
        (self.kind() == Kind::Text).then(|| self.as_text())
    }

    fn as_text(self) -> Text<'d> {
        let node = self.node();
        let raw = &self.text[node.start as usize + 1..node.end as usize - 1];
        Text::new(raw, node.size as usize)
    }

    /// The number's own characters.
    pub fn number(self) -> Option<&'d str> {
        matches!(self.kind(), Kind::Integer | Kind::Decimal).then(|| self.raw())
    }

    pub fn bool(self) -> Option<bool> {
        match self.kind() {
            Kind::True => Some(true),
            Kind::False => Some(false),
            _ => None,
        }
    }

    /// The elements of an array, the names and values of an object, in turn.
    fn children(self) -> Children<'d> {
        let has_any = matches!(self.kind(), Kind::Object | Kind::Array);
        Children {
            of: self,
            at: self.at + 1,
            end: if has_any {
                self.node().next
            } else {
                self.at + 1
            },
        }
    }

    pub fn elements(self) -> impl Iterator<Item = Value<'d>> {
        self.children()
    }

    /// Every member as it was written, equal names included.
    pub fn members(self) -> impl Iterator<Item = (Text<'d>, Value<'d>)> {
        let mut children = self.children();
        std::iter::from_fn(move || Some((children.next()?.as_text(), children.next()?)))
    }

    /// The members as a map holds them: of equal names the last value, at the place of the first.
    pub fn entries(self) -> Entries<'d> {
        if self.has_equal_names() {
            Entries::Merged(self.merged().into_iter())
        } else {
            Entries::AsWritten(self.children())
        }
    }

    fn has_equal_names(self) -> bool {
        if self.len() > FEW {
            return self.merged().len() < self.len();
        }
        let mut names = [None; FEW];
        for (index, (name, _)) in self.members().enumerate() {
            if names[..index]
                .iter()
                .flatten()
                .any(|before| *before == name)
            {
                return true;
            }
            names[index] = Some(name);
        }
        false
    }

    fn merged(self) -> Vec<(Text<'d>, Value<'d>)> {
        let mut places: HashMap<Cow<'d, [u8]>, usize> = HashMap::with_capacity(self.len());
        let mut merged = Vec::with_capacity(self.len());
        for (name, value) in self.members() {
            let place = *places.entry(name.bytes()).or_insert(merged.len());
            if place == merged.len() {
                merged.push((name, value));
            } else {
                merged[place].1 = value;
            }
        }
        merged
    }
}

#[derive(Debug, Clone)]
struct Children<'d> {
    of: Value<'d>,
    at: u32,
    end: u32,
}

impl<'d> Iterator for Children<'d> {
    type Item = Value<'d>;

    fn next(&mut self) -> Option<Value<'d>> {
        if self.at >= self.end {
            return None;
        }
        let child = Value {
            at: self.at,
            ..self.of
        };
        self.at = child.node().next;
        Some(child)
    }
}

/// The members of an object without equal names.
#[derive(Debug)]
pub enum Entries<'d> {
    #[expect(private_interfaces, reason = "made here only")]
    AsWritten(Children<'d>),
    Merged(std::vec::IntoIter<(Text<'d>, Value<'d>)>),
}

impl Entries<'_> {
    /// How many are still to come.
    pub fn count_left(&self) -> usize {
        match self {
            Entries::AsWritten(children) => children.of.len(),
            Entries::Merged(merged) => merged.len(),
        }
    }
}

impl<'d> Iterator for Entries<'d> {
    type Item = (Text<'d>, Value<'d>);

    fn next(&mut self) -> Option<Self::Item> {
        match self {
            Entries::AsWritten(children) => Some((children.next()?.as_text(), children.next()?)),
            Entries::Merged(merged) => merged.next(),
        }
    }
}

#[cfg(test)]
mod tests;
