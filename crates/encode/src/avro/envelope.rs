//! The message around the payload: the row's columns, in the order of the envelope's schema.

use headwater_core::event::{Event, Role};
use headwater_core::failure::Failure;

use super::fingerprint::{self, Header};
use super::logical::Primitive;
use super::put;
use super::schema::{Schema, Type, TypeId};
use crate::varint;

/// The envelope that consumers of Ekbatan's topics know.
pub const BUILT_IN: &str = include_str!("../../../../schemas/action_event.avsc");
/// Its name.
pub const NAME: &str = "io.ekbatan.events.streaming.actionevent.avro.ActionEvent";

#[derive(Debug)]
pub struct Envelope {
    header: Header,
    fields: Box<[Field]>,
}

#[derive(Debug, Clone, Copy)]
struct Field {
    role: Role,
    /// A union's index of the value's branch; `None`: no union.
    index: Option<u32>,
    /// A union's index of null.
    null: Option<u32>,
}

impl Envelope {
    pub fn compile(schema: &Schema<'_>) -> Result<Envelope, String> {
        let Some((_, fields)) = schema.record() else {
            let root = schema.root_told();
            return Err(format!(
                "the envelope must be a record, and this is {root:.80}"
            ));
        };
        let outside: Vec<&str> = fields
            .iter()
            .map(|field| field.name.as_str())
            .filter(|name| Role::named(name).is_none())
            .collect();
        if !outside.is_empty() {
            return Err(format!(
                "no column fills the envelope's {}; its fields may be: {}",
                outside.join(", "),
                Role::ALL.map(Role::name).join(", ")
            ));
        }
        let compiled = fields.iter().filter_map(|field| {
            let role = Role::named(&field.name)?;
            Some(compile_field(schema, role, field.of))
        });
        Ok(Envelope {
            header: fingerprint::header(schema),
            fields: compiled.collect::<Result<_, _>>()?,
        })
    }

    /// Appends the message; `payload` is encoded already.
    pub fn encode(
        &self,
        event: &Event<'_>,
        payload: &[u8],
        out: &mut Vec<u8>,
    ) -> Result<(), Failure> {
        out.extend_from_slice(&self.header);
        for field in &self.fields {
            match field.role {
                Role::Id => field.bytes(out, event.id.as_bytes()),
                Role::Namespace => field.bytes(out, event.namespace.as_bytes()),
                Role::ActionId => field.bytes(out, event.action_id.as_bytes()),
                Role::ActionName => field.bytes(out, event.action_name.as_bytes()),
                Role::ActionParams => field.bytes(out, event.action_params.as_bytes()),
                Role::StartedDate => field.long(out, event.started_date),
                Role::CompletionDate => field.long(out, event.completion_date),
                Role::ModelId => field.optional(out, event.model_id.as_deref())?,
                Role::ModelType => field.optional(out, event.model_type.as_deref())?,
                Role::EventType => field.bytes(out, event.event_type.as_bytes()),
                Role::Payload => field.bytes(out, payload),
                Role::EventDate => field.long(out, event.event_date),
                Role::Delivered => {
                    field.begin(out);
                    out.push(u8::from(event.delivered.is_set()));
                }
            }
        }
        Ok(())
    }
}

/// Reading back.
impl Envelope {
    /// The id and the date of an event that was written with this envelope; none of other bytes.
    pub fn identify<'b>(&self, value: &'b [u8]) -> Option<(&'b str, i64)> {
        let mut rest = value.strip_prefix(self.header.as_slice())?;
        let (mut id, mut date) = (None, None);
        for field in &self.fields {
            if let Some(index) = field.index
                && varint::take_zigzag(&mut rest)? != i64::from(index)
            {
                continue; // null has no bytes
            }
            match field.role {
                Role::EventDate => date = Some(varint::take_zigzag(&mut rest)?),
                Role::StartedDate | Role::CompletionDate | Role::Delivered => {
                    varint::take(&mut rest)?;
                }
                role => {
                    let length = u64::try_from(varint::take_zigzag(&mut rest)?).ok()?;
                    let bytes = varint::take_sized(&mut rest, length)?;
                    if role == Role::Id {
                        id = Some(std::str::from_utf8(bytes).ok()?);
                    }
                }
            }
        }
        Some((id?, date?))
    }
}

impl Field {
    #[inline]
    fn begin(self, out: &mut Vec<u8>) {
        if let Some(index) = self.index {
            put::long(out, i64::from(index));
        }
    }

    #[inline]
    fn bytes(self, out: &mut Vec<u8>, bytes: &[u8]) {
        self.begin(out);
        put::bytes(out, bytes);
    }

    #[inline]
    fn long(self, out: &mut Vec<u8>, value: i64) {
        self.begin(out);
        put::long(out, value);
    }

    fn optional(self, out: &mut Vec<u8>, text: Option<&str>) -> Result<(), Failure> {
        match (text, self.null) {
            (Some(text), _) => self.bytes(out, text.as_bytes()),
            (None, Some(null)) => put::long(out, i64::from(null)),
            (None, None) => {
                return Err(Failure::bad_payload(format!(
                    "column {} is null, and the envelope's field has no null branch",
                    self.role.name()
                )));
            }
        }
        Ok(())
    }
}

fn compile_field(schema: &Schema<'_>, role: Role, of: TypeId) -> Result<Field, String> {
    let wanted = match role {
        Role::StartedDate | Role::CompletionDate | Role::EventDate => Primitive::Long,
        Role::Delivered => Primitive::Boolean,
        Role::Payload => Primitive::Bytes,
        _ => Primitive::Text,
    };
    let is = |id: TypeId, wanted| matches!(schema.get(id), Type::Primitive(found, _) if *found == wanted);
    if is(of, wanted) {
        let (index, null) = (None, None);
        return Ok(Field { role, index, null });
    }
    if let Type::Union(branches) = schema.get(of) {
        let index = |wanted| branches.iter().zip(0..).find(|(id, _)| is(**id, wanted));
        if let Some((_, found)) = index(wanted) {
            return Ok(Field {
                role,
                index: Some(found),
                null: index(Primitive::Null).map(|(_, null)| null),
            });
        }
    }
    Err(format!(
        "the envelope's field {} is {}, which cannot hold its column: \"{}\" is wanted",
        role.name(),
        schema.told(of),
        wanted.name()
    ))
}
