//! An event as a Protobuf message, and inside it the payload as another.

mod enumeration;
mod envelope;
mod files;
mod known;
mod lenient;
mod number;
mod plan;
mod scalar;
mod time;
mod value;
mod wire;

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use headwater_core::band::ShortId;
use headwater_core::event::Event;
use headwater_core::failure::Failure;
use prost_reflect::MessageDescriptor;

use crate::bindings::{self, Bindings};
use crate::buffer;
use crate::document::{Document, Limits, Malformed, Value};
use crate::names::Guesses;
use crate::notice::{Notices, UnknownMembers};
use crate::unfit::Unfit;
use crate::{SchemaError, Schemas};
use envelope::Envelope;
use files::{Loaded, Shelf};
use plan::{Compiling, Plan};
use value::{Slot, Writer};

/// The reference's reader has no limits but its stack. Numbers and texts cost no more than their length here, so they need none;
/// no message can be nested as deep as this.
const LIMITS: Limits = Limits {
    number_characters: usize::MAX,
    name_characters: usize::MAX,
    text_characters: usize::MAX,
    ..Limits::REFERENCE
};

#[derive(Debug)]
pub struct Protobuf {
    bindings: Bindings<Plan>,
    envelope: Envelope,
    notices: Notices,
    guesses: Guesses,
    reading: Reading,
    slots: Vec<Slot>,
    payload: Vec<u8>,
    message: Vec<u8>,
}

impl Protobuf {
    pub fn load(schemas: &Schemas) -> Result<Protobuf, SchemaError> {
        let shelf = Shelf::Disk;
        let envelope = match &schemas.envelope {
            Some(file) => {
                let loaded = files::one(file, &[], &shelf)?;
                Envelope::new(file, &loaded.messages)?
            }
            None => built_in()?,
        };
        Protobuf::new(&schemas.files, &shelf, envelope, schemas.unknown_members)
    }

    /// From `.proto` texts that are not on disk; imports are found among them.
    pub fn from_texts(
        texts: &[(&Path, &str)],
        unknown_members: UnknownMembers,
    ) -> Result<Protobuf, SchemaError> {
        let files: Vec<PathBuf> = texts.iter().map(|(path, _)| (*path).to_owned()).collect();
        Protobuf::new(&files, &Shelf::memory(texts), built_in()?, unknown_members)
    }

    fn new(
        files: &[PathBuf],
        shelf: &Shelf,
        envelope: Envelope,
        unknown_members: UnknownMembers,
    ) -> Result<Protobuf, SchemaError> {
        let mut compiling = Compiling::default();
        let loaded = files::load(files, shelf)?;
        let bindings = bind(&loaded, shelf, &mut compiling)?;
        Ok(Protobuf {
            bindings,
            envelope,
            notices: Notices::new(unknown_members),
            guesses: compiling.guesses,
            reading: Reading::default(),
            slots: Vec::new(),
            payload: Vec::new(),
            message: Vec::new(),
        })
    }

    /// The id and the date of an event that was encoded with this envelope; none of other bytes.
    pub(crate) fn identify(&self, value: &[u8]) -> Option<(ShortId, i64)> {
        let (id, date) = self.envelope.identify(value)?;
        Some((ShortId::of(id), date))
    }

    pub(crate) fn encode(&mut self, event: &Event<'_>) -> Result<&[u8], Failure> {
        self.write_payload(event)?;
        buffer::empty(&mut self.message);
        self.envelope.write(event, &self.payload, &mut self.message);
        Ok(&self.message)
    }

    /// Only the payload: what the envelope has in its field `payload`.
    pub fn payload(&mut self, event: &Event<'_>) -> Result<&[u8], Failure> {
        self.write_payload(event)?;
        Ok(&self.payload)
    }

    fn write_payload(&mut self, event: &Event<'_>) -> Result<(), Failure> {
        let bound = self.bindings.find(event)?;
        buffer::empty(&mut self.payload);
        let mut writer = Writer {
            plan: &bound.plan,
            root: &bound.name,
            out: &mut self.payload,
            slots: &mut self.slots,
            guesses: &mut self.guesses,
            notices: &mut self.notices,
            level: 0,
        };
        let written = self
            .reading
            .read(&event.payload)
            .and_then(|value| writer.payload(value));
        written.map_err(|unfit| unfit.into_failure(&bound.name))
    }

    pub(crate) fn notices(&mut self) -> Vec<String> {
        self.notices.take()
    }

    pub(crate) fn unknown_members(&self) -> u64 {
        self.notices.unknown_members()
    }

    pub(crate) fn schemas(&self) -> Vec<&str> {
        self.bindings.names().collect()
    }
}

fn built_in() -> Result<Envelope, SchemaError> {
    let file = Path::new("schemas/action_event.proto");
    let shelf = Shelf::memory(&[(file, envelope::BUILT_IN)]);
    let loaded = files::one(file, &[], &shelf)?;
    Envelope::new(file, &loaded.messages)
}

/// The event types of all files. A file may also be there only because others import it.
fn bind(
    loaded: &[Loaded],
    shelf: &Shelf,
    compiling: &mut Compiling,
) -> Result<Bindings<Plan>, SchemaError> {
    let mut bindings = Bindings::new("proto");
    let mut known: HashMap<&str, &MessageDescriptor> = HashMap::new();
    for one in loaded {
        let events = one
            .messages
            .iter()
            .filter(|message| bindings.is_event_type(message.full_name()));
        let events: Vec<&MessageDescriptor> = events.collect();
        if events.is_empty() && !files::is_imported(one, loaded, shelf) {
            return Err(no_event(one, &bindings));
        }
        for message in events {
            let name = message.full_name();
            if known
                .get(name)
                .is_some_and(|before| files::is_same(before, message))
            {
                continue;
            }
            known.insert(name, message);
            let plan = compiling
                .plan(message)
                .map_err(|what| SchemaError::new(&one.file, format!("{name}: {what}")))?;
            bindings.add(name, &one.file, plan)?;
        }
    }
    Ok(bindings)
}

fn no_event(loaded: &Loaded, bindings: &Bindings<Plan>) -> SchemaError {
    let names: Vec<&str> = loaded
        .messages
        .iter()
        .map(MessageDescriptor::full_name)
        .collect();
    if names.contains(&envelope::NAME) {
        return SchemaError::new(&loaded.file, bindings::is_envelope(envelope::NAME));
    }
    let what = match names.first() {
        None => "it has no message; <namespace>.proto.<EventType> is wanted".to_owned(),
        Some(first) => format!(
            "no event type has its messages' names ({}), and no listed file imports it: {}",
            names.join(", "),
            bindings.advice(first)
        ),
    };
    SchemaError::new(&loaded.file, what)
}

/// Reads payloads: strictly, or if that fails, as the reference does.
#[derive(Debug, Default)]
struct Reading {
    strict: Document,
    lenient: Document,
    rewritten: String,
}

impl Reading {
    fn read<'d>(&'d mut self, text: &'d str) -> Result<Value<'d>, Unfit> {
        buffer::empty_text(&mut self.rewritten);
        let read = match self.strict.read(text, &LIMITS) {
            Ok(read) => read,
            Err(malformed) => {
                let unfit = |malformed: &Malformed| Unfit::new(malformed.to_string());
                lenient::rewrite(text, &mut self.rewritten).ok_or_else(|| unfit(&malformed))?;
                self.lenient
                    .read(&self.rewritten, &LIMITS)
                    .map_err(|_| unfit(&malformed))?
            }
        };
        read.ok_or_else(|| Unfit::new("the payload is empty, and a message object is wanted"))
    }
}

#[cfg(test)]
mod tests;
