//! From a descriptor to a plan.

use std::collections::HashMap;

use prost_reflect::{EnumDescriptor, FieldDescriptor, Kind as Declared, MessageDescriptor, Syntax};

use super::{Enum, EnumValue, Field, Kind, Known, Message, Plan, Shape, Spelling};
use crate::names::{Guesses, Names};
use crate::notice::Place;
use crate::protobuf::scalar::Scalar;
use crate::protobuf::wire::{Tag, Wire};

/// Makes the plans of one encoder: their places and guesses share one count.
#[derive(Debug, Default)]
pub struct Compiling {
    pub guesses: Guesses,
    places: u32,
}

impl Compiling {
    /// What is wrong, if the descriptor is not one that can be written.
    pub fn plan(&mut self, root: &MessageDescriptor) -> Result<Plan, String> {
        let mut walk = Walk {
            found: HashMap::new(),
            waiting: Vec::new(),
        };
        walk.index(root);
        let mut messages = Vec::new();
        while let Some(descriptor) = walk.waiting.get(messages.len()).cloned() {
            messages.push(self.message(&descriptor, &mut walk)?);
        }
        Ok(Plan { messages })
    }

    fn message(
        &mut self,
        descriptor: &MessageDescriptor,
        walk: &mut Walk,
    ) -> Result<Message, String> {
        let mut declared: Vec<FieldDescriptor> = descriptor.fields().collect();
        declared.sort_by_key(FieldDescriptor::number);
        let fields: Result<Vec<Field>, String> =
            declared.iter().map(|field| walk.field(field)).collect();
        let place_of = |field: &FieldDescriptor| {
            let number = field.number();
            declared.partition_point(|other| other.number() < number)
        };
        // In the order of declaration: it decides which of two equal names counts.
        let mut by_index: Vec<&FieldDescriptor> = declared.iter().collect();
        by_index.sort_by(|a, b| a.path().cmp(b.path()));
        let names = by_index.into_iter().flat_map(|field| {
            let place = place_of(field);
            [
                (field.name(), (place, Spelling::Own)),
                (field.json_name(), (place, Spelling::Json)),
            ]
        });
        let names = Names::new(names, &mut self.guesses);
        let oneofs = descriptor.oneofs().filter(|oneof| !oneof.is_synthetic());
        self.places += 1;
        Ok(Message {
            name: descriptor.full_name().into(),
            place: Place(self.places),
            fields: fields?,
            names,
            oneofs: oneofs
                .map(|oneof| oneof.fields().map(|field| place_of(&field)).collect())
                .collect(),
        })
    }
}

/// The messages of one event type, as they are met.
struct Walk {
    found: HashMap<String, usize>,
    waiting: Vec<MessageDescriptor>,
}

impl Walk {
    fn index(&mut self, descriptor: &MessageDescriptor) -> usize {
        let next = self.waiting.len();
        let name = descriptor.full_name().to_owned();
        let index = *self.found.entry(name).or_insert(next);
        if index == next {
            self.waiting.push(descriptor.clone());
        }
        index
    }

    fn field(&mut self, field: &FieldDescriptor) -> Result<Field, String> {
        let (shape, declared) = match map_entry(field)? {
            Some((key, value)) => (Shape::Map { key }, value),
            None if field.is_list() => {
                let packed = is_packed(field);
                (Shape::List { packed }, field.kind())
            }
            None => {
                let implicit = !field.supports_presence();
                (Shape::One { implicit }, field.kind())
            }
        };
        let kind = match &declared {
            Declared::Message(message) if field.is_group() => Kind::Group(self.index(message)),
            Declared::Message(message) => match known(message)? {
                Some(known) => Kind::Known(known),
                None => Kind::Message(self.index(message)),
            },
            Declared::Enum(declared) => Kind::Enum(Box::new(enumeration(declared))),
            scalar => Kind::Scalar(Scalar::of(scalar).ok_or("a type that is not known")?),
        };
        let wire = match (&kind, shape) {
            (Kind::Group(_), _) => Wire::GroupStart,
            (Kind::Message(_) | Kind::Known(_), _)
            | (_, Shape::Map { .. } | Shape::List { packed: true }) => Wire::Sized,
            (Kind::Scalar(scalar), _) => scalar.wire(),
            (Kind::Enum(_), _) => Wire::Varint,
        };
        Ok(Field {
            name: field.name().into(),
            required: field.is_required(),
            tag: Tag::new(field.number(), wire),
            shape,
            kind,
        })
    }
}

/// prost-reflect's own answer comes before it has read the options of a `.proto` text.
fn is_packed(field: &FieldDescriptor) -> bool {
    let options = field.field_descriptor_proto().options.as_ref();
    let declared = options.and_then(|options| options.packed);
    let is_packable = match field.kind() {
        Declared::Enum(_) => true,
        kind => Scalar::of(&kind).is_some_and(|scalar| scalar.wire() != Wire::Sized),
    };
    is_packable && declared.unwrap_or(field.parent_file().syntax() == Syntax::Proto3)
}

fn map_entry(field: &FieldDescriptor) -> Result<Option<(Scalar, Declared)>, String> {
    let Declared::Message(entry) = field.kind() else {
        return Ok(None);
    };
    if !field.is_map() {
        return Ok(None);
    }
    let key = entry.get_field(1).and_then(|key| Scalar::of(&key.kind()));
    match (key, entry.get_field(2)) {
        (Some(key), Some(value)) => Ok(Some((key, value.kind()))),
        _ => Err(format!("{} is not a map's entry", entry.full_name())),
    }
}

/// By the full name, as the reference does.
fn known(message: &MessageDescriptor) -> Result<Option<Known>, String> {
    Ok(Some(match message.full_name() {
        "google.protobuf.Timestamp" => Known::Timestamp,
        "google.protobuf.Duration" => Known::Duration,
        "google.protobuf.FieldMask" => Known::FieldMask,
        "google.protobuf.Struct" => Known::Struct,
        "google.protobuf.Value" => Known::Value,
        "google.protobuf.ListValue" => Known::ListValue,
        "google.protobuf.Any" => Known::Any,
        "google.protobuf.BoolValue"
        | "google.protobuf.Int32Value"
        | "google.protobuf.UInt32Value"
        | "google.protobuf.Int64Value"
        | "google.protobuf.UInt64Value"
        | "google.protobuf.StringValue"
        | "google.protobuf.BytesValue"
        | "google.protobuf.FloatValue"
        | "google.protobuf.DoubleValue" => {
            let value = message.get_field(1);
            let scalar = value.and_then(|value| Scalar::of(&value.kind()));
            let not_known = || format!("{} is not the well-known type", message.full_name());
            Known::Wrapper(scalar.ok_or_else(not_known)?)
        }
        _ => return Ok(None),
    }))
}

fn enumeration(declared: &EnumDescriptor) -> Enum {
    let first = declared.default_value();
    let mut values: Vec<EnumValue> = declared
        .values()
        .map(|value| EnumValue {
            name: value.name().into(),
            number: value.number(),
            is_default: value.name() == first.name(),
        })
        .collect();
    values.sort_by(|a, b| a.name.cmp(&b.name));
    Enum {
        name: declared.full_name().into(),
        values,
        open: declared.parent_file().syntax() == Syntax::Proto3,
        is_null: declared.full_name() == "google.protobuf.NullValue",
    }
}
