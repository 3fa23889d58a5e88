//! The message around the payload: which of its fields holds which part of an event.

use std::path::Path;

use headwater_core::event::{Event, Role, Text};
use prost_reflect::{FieldDescriptor, Kind, MessageDescriptor};

use super::known::write_moment;
use super::wire::{self, Tag, Wire};
use crate::{SchemaError, varint};

/// The only name that an envelope may have.
pub const NAME: &str = "io.ekbatan.events.streaming.actionevent.protobuf.ActionEvent";

pub const BUILT_IN: &str = include_str!("../../../../schemas/action_event.proto");

#[derive(Debug)]
pub struct Envelope {
    /// Ascending by number.
    fields: Vec<Field>,
}

#[derive(Debug)]
struct Field {
    role: Role,
    tag: Tag,
    /// Left out when it is empty or false.
    implicit: bool,
}

impl Envelope {
    pub fn new(file: &Path, messages: &[MessageDescriptor]) -> Result<Envelope, SchemaError> {
        let Some(message) = messages.iter().find(|message| message.full_name() == NAME) else {
            let names: Vec<&str> = messages.iter().map(MessageDescriptor::full_name).collect();
            let names = match names.len() {
                0 => "no message".to_owned(),
                _ => names.join(", "),
            };
            return Err(SchemaError::new(
                file,
                format!("the envelope is the message {NAME}, and the file has {names}"),
            ));
        };
        let mut declared: Vec<FieldDescriptor> = message.fields().collect();
        declared.sort_by_key(FieldDescriptor::number);
        let mut fields = Vec::new();
        let mut wrong = Vec::new();
        for field in &declared {
            match role(field) {
                Ok((role, wire)) => fields.push(Field {
                    role,
                    tag: Tag::new(field.number(), wire),
                    implicit: !field.supports_presence(),
                }),
                Err(why) => wrong.push(format!("{} {why}", field.name())),
            }
        }
        if wrong.is_empty() {
            Ok(Envelope { fields })
        } else {
            Err(SchemaError::new(
                file,
                format!(
                    "fields of {NAME} that cannot be filled: {}",
                    wrong.join("; ")
                ),
            ))
        }
    }

    /// Appends the event with its payload.
    pub fn write(&self, event: &Event<'_>, payload: &[u8], out: &mut Vec<u8>) {
        for field in &self.fields {
            match field.role {
                Role::Id => field.text(&event.id, out),
                Role::Namespace => field.text(&event.namespace, out),
                Role::ActionId => field.text(&event.action_id, out),
                Role::ActionName => field.text(&event.action_name, out),
                Role::ActionParams => field.text(&event.action_params, out),
                Role::StartedDate => field.date(event.started_date, out),
                Role::CompletionDate => field.date(event.completion_date, out),
                Role::ModelId => field.optional(event.model_id.as_ref(), out),
                Role::ModelType => field.optional(event.model_type.as_ref(), out),
                Role::EventType => field.text(&event.event_type, out),
                Role::Payload => field.bytes(payload, out),
                Role::EventDate => field.date(event.event_date, out),
                Role::Delivered => field.flag(event.delivered.is_set(), out),
            }
        }
    }
}

/// Reading back.
impl Envelope {
    /// The id and the date of an event that was written with this envelope; none of other bytes.
    pub fn identify<'b>(&self, value: &'b [u8]) -> Option<(&'b str, i64)> {
        let tag = |role| {
            let field = self.fields.iter().find(|it| it.role == role)?;
            Some(field.tag)
        };
        let (id_tag, date_tag) = (tag(Role::Id)?, tag(Role::EventDate)?);
        let (mut id, mut date) = (None, None);
        let mut rest = value;
        while !rest.is_empty() {
            let (tag, bytes) = wire::take(&mut rest)?;
            if tag == id_tag {
                id = Some(std::str::from_utf8(bytes).ok()?);
            } else if tag == date_tag {
                date = Some(read_moment(bytes)?);
            }
        }
        Some((id?, date?))
    }
}

/// Microseconds since 1970, of a `google.protobuf.Timestamp`.
fn read_moment(bytes: &[u8]) -> Option<i64> {
    const SECONDS: Tag = Tag::new(1, Wire::Varint);
    const NANOS: Tag = Tag::new(2, Wire::Varint);
    let (mut seconds, mut nanos) = (0, 0);
    let mut rest = bytes;
    while !rest.is_empty() {
        let (tag, mut number) = wire::take(&mut rest)?;
        match tag {
            SECONDS => seconds = varint::take(&mut number)?.cast_signed(),
            NANOS => nanos = varint::take(&mut number)?.cast_signed(),
            _ => {}
        }
    }
    seconds.checked_mul(1_000_000)?.checked_add(nanos / 1000)
}

impl Field {
    fn bytes(&self, bytes: &[u8], out: &mut Vec<u8>) {
        if !(self.implicit && bytes.is_empty()) {
            wire::sized(out, self.tag, bytes);
        }
    }

    fn text(&self, text: &str, out: &mut Vec<u8>) {
        self.bytes(text.as_bytes(), out);
    }

    fn optional(&self, text: Option<&Text<'_>>, out: &mut Vec<u8>) {
        if let Some(text) = text {
            self.text(text, out);
        }
    }

    fn date(&self, micros: i64, out: &mut Vec<u8>) {
        self.tag.write(out);
        // A moment has 21 bytes at most, so its length always has one.
        let at = out.len();
        out.push(0);
        let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1000).unwrap_or_default();
        write_moment(out, micros.div_euclid(1_000_000), nanos);
        out[at] = u8::try_from(out.len() - at - 1).unwrap_or_default();
    }

    fn flag(&self, set: bool, out: &mut Vec<u8>) {
        if set || !self.implicit {
            self.tag.write(out);
            out.push(u8::from(set));
        }
    }
}

/// What a field is for, by its name; or why it cannot be filled.
fn role(field: &FieldDescriptor) -> Result<(Role, Wire), String> {
    let Some(role) = Role::named(field.name()) else {
        let names = Role::ALL.map(Role::name).join(", ");
        return Err(format!("is none of {names}"));
    };
    if field.is_list() || field.is_map() {
        return Err("is repeated".to_owned());
    }
    if field
        .containing_oneof()
        .is_some_and(|oneof| !oneof.is_synthetic())
    {
        return Err("is in a oneof".to_owned());
    }
    let may_be_null = matches!(role, Role::ModelId | Role::ModelType);
    if field.is_required() && may_be_null {
        return Err("is required, and the column may be null".to_owned());
    }
    let is_timestamp = |kind: &Kind| {
        let message = kind.as_message();
        message.is_some_and(|message| message.full_name() == "google.protobuf.Timestamp")
            && !field.is_group()
    };
    let kind = field.kind();
    let (fits, wanted, wire) = match role {
        Role::StartedDate | Role::CompletionDate | Role::EventDate => (
            is_timestamp(&kind),
            "google.protobuf.Timestamp",
            Wire::Sized,
        ),
        Role::Payload => (kind == Kind::Bytes, "bytes", Wire::Sized),
        Role::Delivered => (kind == Kind::Bool, "bool", Wire::Varint),
        _ => (kind == Kind::String, "string", Wire::Sized),
    };
    if fits {
        Ok((role, wire))
    } else {
        Err(format!("must be {wanted}"))
    }
}
