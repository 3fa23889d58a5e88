//! What a message's descriptor asks for, arranged for writing: fields in the order of their numbers, names in one sorted list.
//!
//! Rule: made once, when the encoder is made; a row only reads it. Messages refer to each other by index, so they may be recursive.

mod compile;

use super::scalar::Scalar;
use super::wire::Tag;
use crate::names::Names;
use crate::notice::Place;

pub use compile::Compiling;

/// Which of a field's names a member has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Spelling {
    /// As in the schema.
    Own,
    /// As in JSON: lower camel case, or `json_name`.
    Json,
}

/// An event type's message, which is the first, and every message inside it.
#[derive(Debug)]
pub struct Plan {
    pub messages: Vec<Message>,
}

#[derive(Debug)]
pub struct Message {
    /// Its full name.
    pub name: Box<str>,
    pub place: Place,
    /// Ascending by number.
    pub fields: Vec<Field>,
    /// Its fields, each by its two names.
    pub names: Names<(usize, Spelling)>,
    /// The fields of each oneof, of which at most one may have a value.
    pub oneofs: Vec<Vec<usize>>,
}

#[derive(Debug)]
pub struct Field {
    pub name: Box<str>,
    /// Without a value of its own a message cannot be written.
    pub required: bool,
    pub tag: Tag,
    pub shape: Shape,
    pub kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    /// One value. With implicit presence, the default is not written.
    One {
        implicit: bool,
    },
    List {
        packed: bool,
    },
    Map {
        key: Scalar,
    },
}

#[derive(Debug)]
pub enum Kind {
    Scalar(Scalar),
    Enum(Box<Enum>),
    Message(usize),
    /// A message between two tags instead of behind its length.
    Group(usize),
    Known(Known),
}

/// Messages that have a JSON form of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Known {
    Timestamp,
    Duration,
    FieldMask,
    Struct,
    Value,
    ListValue,
    Any,
    /// A message around one scalar.
    Wrapper(Scalar),
}

#[derive(Debug)]
pub struct Enum {
    pub name: Box<str>,
    /// Sorted by name.
    pub values: Vec<EnumValue>,
    /// Numbers without a name are accepted.
    pub open: bool,
    /// `google.protobuf.NullValue`, which JSON's null stands for.
    pub is_null: bool,
}

#[derive(Debug)]
pub struct EnumValue {
    pub name: Box<str>,
    pub number: i32,
    /// Declared first. Another name for its number is not the default.
    pub is_default: bool,
}

impl Kind {
    /// JSON's null is a value of it, and does not mean "absent".
    pub fn takes_null(&self) -> bool {
        match self {
            Kind::Known(Known::Value) => true,
            Kind::Enum(declared) => declared.is_null,
            _ => false,
        }
    }
}
