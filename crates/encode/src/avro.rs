//! An event as Avro: the envelope in single-object encoding, and inside it the payload, again so.

mod base64;
mod comments;
mod decimal;
mod default;
mod envelope;
mod fingerprint;
mod instant;
mod leaf;
mod logical;
mod member;
mod number;
mod plan;
mod put;
mod schema;
mod union;
mod uuid;
mod value;

use std::path::Path;

use headwater_core::band::ShortId;
use headwater_core::event::Event;
use headwater_core::failure::Failure;

use crate::bindings::{self, Bindings};
use crate::buffer;
use crate::document::{Document, Kind, Limits, Value};
use crate::notice::{Notices, UnknownMembers};
use crate::unfit::Unfit;
use crate::{SchemaError, Schemas};
use envelope::Envelope;
use plan::{Compiling, Plan};
use schema::Schema;
use value::Desk;

#[derive(Debug)]
pub struct Avro {
    bindings: Bindings<Plan>,
    envelope: Envelope,
    notices: Notices,
    document: Document,
    desk: Desk,
    payload: Vec<u8>,
    message: Vec<u8>,
}

impl Avro {
    pub fn load(schemas: &Schemas) -> Result<Avro, SchemaError> {
        let mut texts = Vec::with_capacity(schemas.files.len());
        for file in &schemas.files {
            texts.push((file.as_path(), text_of(file)?));
        }
        let texts: Vec<(&Path, &str)> = texts.iter().map(|(file, text)| (*file, &**text)).collect();
        let envelope = match &schemas.envelope {
            Some(file) => compiled(file, &text_of(file)?, Envelope::compile)?,
            None => built_in()?,
        };
        Avro::new(&texts, envelope, schemas.unknown_members)
    }

    /// Of schemas in memory, with the built-in envelope; the paths are what errors name.
    pub fn from_texts(
        texts: &[(&Path, &str)],
        unknown_members: UnknownMembers,
    ) -> Result<Avro, SchemaError> {
        Avro::new(texts, built_in()?, unknown_members)
    }

    fn new(
        texts: &[(&Path, &str)],
        envelope: Envelope,
        unknown_members: UnknownMembers,
    ) -> Result<Avro, SchemaError> {
        let mut bindings = Bindings::new("avro");
        let mut compiling = Compiling::default();
        for (file, text) in texts {
            let (name, plan) = compiled(file, text, |schema| compile(schema, &mut compiling))?;
            bindings.add(&name, file, plan)?;
        }
        Ok(Avro {
            bindings,
            envelope,
            notices: Notices::new(unknown_members),
            document: Document::new(),
            desk: Desk::new(compiling.guesses),
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
        self.payload(event)?;
        buffer::empty(&mut self.message);
        self.envelope
            .encode(event, &self.payload, &mut self.message)?;
        Ok(&self.message)
    }

    /// Only what goes into the envelope's field `payload`.
    pub fn payload(&mut self, event: &Event<'_>) -> Result<&[u8], Failure> {
        buffer::empty(&mut self.payload);
        let bound = self.bindings.find(event)?;
        let unfit = |unfit: Unfit| unfit.into_failure(&bound.name);
        let read = self.document.read(&event.payload, &Limits::REFERENCE);
        let read = read.map_err(|malformed| unfit(Unfit::new(malformed.to_string())))?;
        let object = object(read).map_err(unfit)?;
        self.payload.extend_from_slice(&bound.plan.header);
        let (out, desk, notices) = (&mut self.payload, &mut self.desk, &mut self.notices);
        value::encode((&bound.plan, &bound.name), object, out, desk, notices).map_err(unfit)?;
        Ok(&self.payload)
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

fn object(read: Option<Value<'_>>) -> Result<Value<'_>, Unfit> {
    match read {
        Some(object) if object.kind() == Kind::Object => Ok(object),
        Some(other) => Err(not_an_object(&other.kind().to_string())),
        None => Err(not_an_object("MISSING")),
    }
}

fn not_an_object(kind: &str) -> Unfit {
    Unfit::new(format!("the payload is not a JSON object but {kind}"))
}

fn text_of(file: &Path) -> Result<String, SchemaError> {
    std::fs::read_to_string(file)
        .map_err(|error| SchemaError::new(file, format!("cannot be read: {error}")))
}

fn built_in() -> Result<Envelope, SchemaError> {
    let file = Path::new("schemas/action_event.avsc");
    compiled(file, envelope::BUILT_IN, Envelope::compile)
}

/// Reads a schema's text and makes something of it.
fn compiled<T>(
    file: &Path,
    text: &str,
    compile: impl FnOnce(&Schema<'_>) -> Result<T, String>,
) -> Result<T, SchemaError> {
    // Editors put a mark there, which Java passes over.
    let text = comments::blanked(text.strip_prefix('\u{FEFF}').unwrap_or(text));
    let mut document = Document::new();
    let schema = schema::read(file, &text, &mut document)?;
    compile(&schema).map_err(|what| SchemaError::new(file, what))
}

fn compile(schema: &Schema<'_>, compiling: &mut Compiling) -> Result<(String, Plan), String> {
    let Some((name, _)) = schema.record() else {
        let root = schema.root_told();
        return Err(format!(
            "a payload's schema must be a record, and this is {root:.200}"
        ));
    };
    if name == envelope::NAME {
        return Err(bindings::is_envelope(name));
    }
    Ok((name.to_owned(), Plan::compile(schema, compiling)?))
}

#[cfg(test)]
mod tests;
