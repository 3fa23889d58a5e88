//! The well-known types: messages whose JSON form is not an object of their fields.

use super::number::{self, Bad};
use super::plan::Known;
use super::scalar::Token;
use super::time::{self, Moment};
use super::value::Writer;
use super::wire::{self, Gap, Tag, Wire};
use crate::document::{Kind, Value};
use crate::unfit::{Shown, Unfit, cut};
use crate::varint;

const FIRST: Tag = Tag::new(1, Wire::Sized);
const SECOND: Tag = Tag::new(2, Wire::Sized);

/// The fields of `google.protobuf.Value`.
const NULL: Tag = Tag::new(1, Wire::Varint);
const NUMBER: Tag = Tag::new(2, Wire::Eight);
const TEXT: Tag = Tag::new(3, Wire::Sized);
const BOOL: Tag = Tag::new(4, Wire::Varint);
const STRUCT: Tag = Tag::new(5, Wire::Sized);
const LIST: Tag = Tag::new(6, Wire::Sized);

/// The reference's JSON reader takes longer numbers for text.
const NUMBER_CHARACTERS: usize = 1024;

impl Writer<'_> {
    /// Writes what is inside the message.
    pub(super) fn known(&mut self, known: Known, value: Value<'_>) -> Result<(), Unfit> {
        match known {
            Known::Timestamp => self.moment(value, time::timestamp, TIMESTAMP),
            Known::Duration => self.moment(value, time::duration, DURATION),
            Known::FieldMask => self.field_mask(value),
            Known::Struct => self.structure(value),
            Known::Value => self.any_json(value),
            Known::ListValue => self.list_value(value),
            Known::Any => any(value),
            Known::Wrapper(scalar) => {
                let tag = Tag::new(1, scalar.wire());
                self.scalar(scalar, Some(tag), true, value)
            }
        }
    }

    fn moment(
        &mut self,
        value: Value<'_>,
        read: fn(&str) -> Option<Moment>,
        (declared, needs): (&str, &str),
    ) -> Result<(), Unfit> {
        let token = Token::of(value);
        let moment = token.and_then(|token| read(&token.text()));
        let moment = moment.ok_or_else(|| Unfit::mismatch(declared, needs, value))?;
        write_moment(self.out, moment.seconds, moment.nanos);
        Ok(())
    }

    /// Paths between commas, in camel case.
    fn field_mask(&mut self, value: Value<'_>) -> Result<(), Unfit> {
        let unfit = || {
            Unfit::mismatch(
                "google.protobuf.FieldMask",
                "takes paths between commas",
                value,
            )
        };
        let token = Token::of(value).ok_or_else(unfit)?;
        if let Token::Text(text) = token {
            text.to_str().map_err(|_| unfit())?;
        }
        for path in token.text().split(',').filter(|path| !path.is_empty()) {
            FIRST.write(self.out);
            let gap = Gap::open(self.out, path.len());
            for (index, character) in path.char_indices() {
                if character.is_ascii_uppercase() && index > 0 {
                    self.out.push(b'_');
                }
                let lower = character.to_ascii_lowercase();
                self.out
                    .extend_from_slice(lower.encode_utf8(&mut [0; 4]).as_bytes());
            }
            gap.close(self.out);
        }
        Ok(())
    }

    fn structure(&mut self, value: Value<'_>) -> Result<(), Unfit> {
        if value.kind() != Kind::Object {
            return Err(Unfit::mismatch(
                "google.protobuf.Struct",
                "takes a map object",
                value,
            ));
        }
        for (name, member) in value.entries() {
            FIRST.write(self.out);
            let entry = Gap::open(self.out, member.raw().len() + name.len() + 4);
            FIRST.write(self.out);
            varint::unsigned(self.out, name.len() as u64);
            let unfit = |_| Unfit::new("a name with half of a surrogate pair in it is no text");
            name.append_to(self.out).map_err(unfit)?;
            SECOND.write(self.out);
            let inside = Gap::open(self.out, member.raw().len());
            self.deeper(member, Self::any_json)
                .map_err(|unfit| unfit.in_field(&name.lossy()))?;
            inside.close(self.out);
            entry.close(self.out);
        }
        Ok(())
    }

    fn list_value(&mut self, value: Value<'_>) -> Result<(), Unfit> {
        if value.kind() != Kind::Array {
            return Err(Unfit::mismatch(
                "google.protobuf.ListValue",
                "takes an array",
                value,
            ));
        }
        for (index, element) in value.elements().enumerate() {
            FIRST.write(self.out);
            let gap = Gap::open(self.out, element.raw().len());
            self.deeper(element, Self::any_json)
                .map_err(|unfit| unfit.at_index(index))?;
            gap.close(self.out);
        }
        Ok(())
    }

    fn any_json(&mut self, value: Value<'_>) -> Result<(), Unfit> {
        match value.kind() {
            Kind::Null => {
                NULL.write(self.out);
                self.out.push(0);
            }
            Kind::True | Kind::False => {
                BOOL.write(self.out);
                self.out.push(u8::from(value.kind() == Kind::True));
            }
            Kind::Integer | Kind::Decimal if value.raw().len() < NUMBER_CHARACTERS => {
                let number = number::json_double(value.raw());
                let unfit = |_: Bad| {
                    Unfit::mismatch(
                        "google.protobuf.Value",
                        "takes numbers in the range of a double",
                        value,
                    )
                };
                NUMBER.write(self.out);
                self.out
                    .extend_from_slice(&number.map_err(unfit)?.to_le_bytes());
            }
            Kind::Text | Kind::Integer | Kind::Decimal => {
                return self.scalar(super::scalar::Scalar::String, Some(TEXT), false, value);
            }
            Kind::Object => {
                STRUCT.write(self.out);
                let gap = Gap::open(self.out, value.raw().len());
                self.structure(value)?;
                gap.close(self.out);
            }
            Kind::Array => {
                LIST.write(self.out);
                let gap = Gap::open(self.out, value.raw().len());
                self.list_value(value)?;
                gap.close(self.out);
            }
        }
        Ok(())
    }
}

const TIMESTAMP: (&str, &str) = (
    "google.protobuf.Timestamp",
    "takes a timestamp such as \"2026-06-12T03:22:47.450789Z\", with Z or an offset, in the years 1 to 9999",
);
const DURATION: (&str, &str) = (
    "google.protobuf.Duration",
    "takes a duration in seconds such as \"-1.5s\", at most 315576000000",
);

/// Parts that are zero are left out.
pub fn write_moment(out: &mut Vec<u8>, seconds: i64, nanos: i32) {
    if seconds != 0 {
        Tag::new(1, Wire::Varint).write(out);
        wire::signed(out, seconds);
    }
    if nanos != 0 {
        Tag::new(2, Wire::Varint).write(out);
        wire::signed(out, nanos.into());
    }
}

/// Nothing says which types there are, so only the empty one can be written.
fn any(value: Value<'_>) -> Result<(), Unfit> {
    if value.kind() != Kind::Object {
        return Err(Unfit::mismatch(
            "google.protobuf.Any",
            "takes a message object",
            value,
        ));
    }
    if value.len() == 0 {
        return Ok(());
    }
    let named = value
        .entries()
        .find(|(name, _)| name.plain() == Some("@type"));
    Err(Unfit::new(match named {
        None => format!(
            "google.protobuf.Any: Missing type url (\"@type\") in {}",
            Shown(value)
        ),
        Some((_, url)) => {
            let url = Token::of(url).map_or_else(|| url.raw().into(), Token::text);
            format!(
                "google.protobuf.Any: Cannot resolve type: {}; there is no registry of types, so only {{}} can be written",
                cut(&url, 120)
            )
        }
    }))
}
