//! A payload's JSON onto the wire, by its plan.
//!
//! In: an object of the document. Out: bytes appended to the buffer, fields ascending by number.
//! Rule: what does not fit fails with its path; nothing is left out in silence but nulls, defaults with implicit presence, and members
//! without a field, which are told.

use super::plan::{Enum, Field, Kind as FieldKind, Message, Plan, Shape, Spelling};
use super::scalar::{Flaw, Scalar, Token};
use super::wire::{self, Gap, Tag, Wire};
use crate::buffer;
use crate::document::{Kind, Spot, Text, Value};
use crate::names::Guesses;
use crate::notice::{self, Lacking, Notices};
use crate::unfit::{self, Shown, Unfit, cut};

/// Messages inside messages; the payload itself does not count.
const LEVELS: usize = 100;

/// The member that a field takes its value from.
#[derive(Debug, Clone, Copy)]
pub struct Slot {
    member: Option<Spot>,
    spelling: Spelling,
}

const EMPTY: Slot = Slot {
    member: None,
    spelling: Spelling::Own,
};

/// One payload under way.
#[derive(Debug)]
pub struct Writer<'w> {
    pub plan: &'w Plan,
    /// The name that paths begin with.
    pub root: &'w str,
    pub out: &'w mut Vec<u8>,
    /// Of every message that is open, its fields' slots, one message behind the other.
    pub slots: &'w mut Vec<Slot>,
    pub guesses: &'w mut Guesses,
    pub notices: &'w mut Notices,
    pub level: usize,
}

impl Writer<'_> {
    /// Writes the whole payload.
    pub fn payload(&mut self, value: Value<'_>) -> Result<(), Unfit> {
        buffer::empty(self.slots);
        self.out.clear();
        self.message(0, value)
    }

    fn message(&mut self, index: usize, value: Value<'_>) -> Result<(), Unfit> {
        let plan = self.plan;
        let message = &plan.messages[index];
        if value.kind() != Kind::Object {
            return Err(Unfit::mismatch(
                &message.name,
                "takes a message object",
                value,
            ));
        }
        let first = self.slots.len();
        self.slots.resize(first + message.fields.len(), EMPTY);
        if self.members(message, value, first)? {
            self.other_spellings(message, value, first)?;
        }
        self.check_oneofs(message, value, first)?;
        for (index, field) in message.fields.iter().enumerate() {
            match self.slots[first + index].member {
                Some(member) => self.field(field, value.at(member))?,
                None if field.required => return Err(missing(message, field, value)),
                None => {}
            }
        }
        self.slots.truncate(first);
        Ok(())
    }

    /// Puts each member into its field's slot; of equal names the last counts. Has a field come under both of its names?
    fn members(
        &mut self,
        message: &Message,
        value: Value<'_>,
        first: usize,
    ) -> Result<bool, Unfit> {
        let mut both = false;
        let mut search = message.names.search();
        for (name, member) in value.members() {
            let Some((field, spelling)) = search.find(name, self.guesses) else {
                self.unknown_member(message, value, name)?;
                continue;
            };
            let slot = &mut self.slots[first + field];
            both |= slot.member.is_some() && slot.spelling != spelling;
            slot.member = Some(member.spot());
            slot.spelling = spelling;
        }
        Ok(both)
    }

    #[cold]
    fn unknown_member(
        &mut self,
        message: &Message,
        object: Value<'_>,
        name: Text<'_>,
    ) -> Result<(), Unfit> {
        if self.notices.refuses() {
            return Err(notice::refusal(&message.name, name));
        }
        let of = Lacking {
            place: message.place,
            name: &message.name,
            root: self.root,
            object,
        };
        self.notices.dropped(of, name);
        Ok(())
    }

    /// A field under both names: that is an error, unless the first of them did not set it.
    fn other_spellings(
        &mut self,
        message: &Message,
        value: Value<'_>,
        first: usize,
    ) -> Result<(), Unfit> {
        self.slots[first..].fill(EMPTY);
        let mut search = message.names.search();
        for (name, member) in value.entries() {
            let Some((index, _)) = search.find(name, self.guesses) else {
                continue;
            };
            if let Some(before) = self.slots[first + index].member {
                let field = &message.fields[index];
                let start = self.out.len();
                self.field(field, value.at(before))?;
                if self.out.len() > start {
                    let what = format!(
                        "field {}.{} has already been set, under its other name",
                        message.name, field.name
                    );
                    return Err(Unfit::new(what).in_field(&field.name));
                }
            }
            self.slots[first + index].member = Some(member.spot());
        }
        Ok(())
    }

    fn check_oneofs(&self, message: &Message, value: Value<'_>, first: usize) -> Result<(), Unfit> {
        for oneof in &message.oneofs {
            let mut set = oneof
                .iter()
                .map(|index| (&message.fields[*index], self.slots[first + index].member))
                .filter(|(field, member)| {
                    let is_value =
                        |member: Spot| field.kind.takes_null() || !value.at(member).is_null();
                    member.is_some_and(is_value)
                });
            if let (Some((one, _)), Some((other, _))) = (set.next(), set.next()) {
                return Err(Unfit::new(format!(
                    "cannot set field {}.{}: another field of the same oneof, {}, has already been set",
                    message.name, other.name, one.name
                ))
                .in_field(&other.name));
            }
        }
        Ok(())
    }

    fn field(&mut self, field: &Field, value: Value<'_>) -> Result<(), Unfit> {
        let written = match field.shape {
            Shape::One { .. } if value.is_null() && !field.kind.takes_null() => {
                if field.required {
                    Err(Unfit::new("is null: missing required fields"))
                } else {
                    Ok(())
                }
            }
            Shape::One { implicit } => self.one(field, implicit, value),
            _ if value.is_null() => Ok(()),
            Shape::List { packed } => self.list(field, packed, value),
            Shape::Map { key } => self.map(field, key, value),
        };
        written.map_err(|unfit| unfit.in_field(&field.name))
    }

    /// A value with its tag.
    fn one(&mut self, field: &Field, implicit: bool, value: Value<'_>) -> Result<(), Unfit> {
        match &field.kind {
            FieldKind::Scalar(scalar) => self.scalar(*scalar, Some(field.tag), implicit, value),
            FieldKind::Enum(declared) => {
                self.enumeration(declared, Some(field.tag), implicit, value)
            }
            FieldKind::Message(index) => {
                field.tag.write(self.out);
                self.sized(value, |writer, value| writer.message(*index, value))
            }
            FieldKind::Known(known) => {
                field.tag.write(self.out);
                self.sized(value, |writer, value| writer.known(*known, value))
            }
            FieldKind::Group(index) => {
                field.tag.write(self.out);
                self.deeper(value, |writer, value| writer.message(*index, value))?;
                field.tag.with(Wire::GroupEnd).write(self.out);
                Ok(())
            }
        }
    }

    fn sized<'v>(
        &mut self,
        value: Value<'v>,
        write: impl FnOnce(&mut Self, Value<'v>) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        // Names and quotes are about half of a JSON text.
        let gap = Gap::open(self.out, value.raw().len() / 2);
        self.deeper(value, write)?;
        gap.close(self.out);
        Ok(())
    }

    /// One level further in. Null is as far in as what it stands in.
    pub(super) fn deeper<'v>(
        &mut self,
        value: Value<'v>,
        write: impl FnOnce(&mut Self, Value<'v>) -> Result<(), Unfit>,
    ) -> Result<(), Unfit> {
        if self.level == LEVELS && !value.is_null() {
            return Err(Unfit::new(format!(
                "messages are nested deeper than the recursion limit of {LEVELS} levels"
            )));
        }
        self.level += 1;
        write(self, value)?;
        self.level -= 1;
        Ok(())
    }

    fn list(&mut self, field: &Field, packed: bool, value: Value<'_>) -> Result<(), Unfit> {
        if value.kind() != Kind::Array {
            return Err(Unfit::mismatch("a repeated field", "takes an array", value));
        }
        if value.len() == 0 {
            return Ok(());
        }
        let gap = packed.then(|| {
            field.tag.write(self.out);
            Gap::open(self.out, value.raw().len() / 2)
        });
        for (index, element) in value.elements().enumerate() {
            let written = if element.is_null() && !field.kind.takes_null() {
                Err(Unfit::new("elements of a repeated field cannot be null"))
            } else {
                match (&field.kind, packed) {
                    (FieldKind::Scalar(scalar), true) => self.scalar(*scalar, None, false, element),
                    (FieldKind::Enum(declared), true) => {
                        self.enumeration(declared, None, false, element)
                    }
                    _ => self.one(field, false, element),
                }
            };
            written.map_err(|unfit| unfit.at_index(index))?;
        }
        if let Some(gap) = gap {
            gap.close(self.out);
        }
        Ok(())
    }

    /// Entries in the order of the document, each with key and value whatever they are.
    fn map(&mut self, field: &Field, key: Scalar, value: Value<'_>) -> Result<(), Unfit> {
        if value.kind() != Kind::Object {
            return Err(Unfit::mismatch("a map field", "takes a map object", value));
        }
        for (name, entry) in value.entries() {
            field.tag.write(self.out);
            let gap = Gap::open(self.out, entry.raw().len() + name.len() + 4);
            let written = self
                .map_key(key, name)
                .and_then(|()| self.map_value(field, entry));
            written.map_err(|unfit| unfit.in_field(&name.lossy()))?;
            gap.close(self.out);
        }
        Ok(())
    }

    fn map_key(&mut self, key: Scalar, name: Text<'_>) -> Result<(), Unfit> {
        Tag::new(1, key.wire()).write(self.out);
        let written = key.write(Token::Text(name), self.out);
        let unfit = |flaw| key.flawed(flaw, &format!("the key {:?}", cut(&name.lossy(), 40)));
        written.map(|_| ()).map_err(unfit)
    }

    fn map_value(&mut self, field: &Field, value: Value<'_>) -> Result<(), Unfit> {
        if value.is_null() && !field.kind.takes_null() {
            return Err(Unfit::new("a map's value cannot be null"));
        }
        match &field.kind {
            FieldKind::Scalar(scalar) => {
                let tag = Tag::new(2, scalar.wire());
                self.scalar(*scalar, Some(tag), false, value)
            }
            FieldKind::Enum(declared) => {
                let tag = Tag::new(2, Wire::Varint);
                self.enumeration(declared, Some(tag), false, value)
            }
            FieldKind::Message(index) | FieldKind::Group(index) => {
                Tag::new(2, Wire::Sized).write(self.out);
                self.sized(value, |writer, value| writer.message(*index, value))
            }
            FieldKind::Known(known) => {
                Tag::new(2, Wire::Sized).write(self.out);
                self.sized(value, |writer, value| writer.known(*known, value))
            }
        }
    }

    /// `implicit`: the default is left out.
    pub(super) fn scalar(
        &mut self,
        scalar: Scalar,
        tag: Option<Tag>,
        implicit: bool,
        value: Value<'_>,
    ) -> Result<(), Unfit> {
        let Some(token) = Token::of(value) else {
            return Err(scalar.no_scalar(value));
        };
        let start = self.out.len();
        if let Some(tag) = tag {
            tag.write(self.out);
        }
        match scalar.write(token, self.out) {
            Ok(is_default) => {
                if implicit && is_default {
                    self.out.truncate(start);
                }
                Ok(())
            }
            Err(flaw) => Err(unfit_scalar(scalar, flaw, value)),
        }
    }

    fn enumeration(
        &mut self,
        declared: &Enum,
        tag: Option<Tag>,
        implicit: bool,
        value: Value<'_>,
    ) -> Result<(), Unfit> {
        let (number, is_default) = if value.is_null() {
            (0, true)
        } else {
            declared.read(value)?
        };
        if implicit && is_default {
            return Ok(());
        }
        if let Some(tag) = tag {
            tag.write(self.out);
        }
        wire::signed(self.out, number.into());
        Ok(())
    }
}

fn missing(message: &Message, field: &Field, object: Value<'_>) -> Unfit {
    let unknown = object.members().map(|(name, _)| name);
    let unknown = unknown.filter(|name| message.names.get(*name).is_none());
    let meant = unfit::probably_meant(&field.name, unknown);
    Unfit::new(format!(
        "{} is missing required fields: {}{meant}",
        message.name, field.name
    ))
}

fn unfit_scalar(scalar: Scalar, flaw: Flaw, value: Value<'_>) -> Unfit {
    scalar.flawed(flaw, &format!("{} ({})", value.kind(), Shown(value)))
}
