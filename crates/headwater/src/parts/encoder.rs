//! What encodes a configuration's events: its schemas are found and read here, and all that is wrong with them is told at once.

use headwater_encode::{Avro, Encoder, Json, Protobuf, SchemaError, Schemas};

use crate::config::{Config, ConfigError, Encode, SchemaFiles};

/// So many broken files are looked for; whoever has more of them has another trouble.
const TOLD: usize = 20;

/// Schemas that cannot be used.
pub struct Broken<'c> {
    pub named: &'c SchemaFiles,
    pub errors: Vec<SchemaError>,
}

/// Why there is no encoder.
pub enum NoEncoder<'c> {
    /// What the configuration names is not there.
    Config(ConfigError),
    Broken(Broken<'c>),
}

impl From<NoEncoder<'_>> for ConfigError {
    fn from(reason: NoEncoder<'_>) -> ConfigError {
        match reason {
            NoEncoder::Config(error) => error,
            NoEncoder::Broken(Broken { named, errors }) => named.refuse(&errors),
        }
    }
}

pub fn encoder(config: &Config) -> Result<Encoder, NoEncoder<'_>> {
    match config.encode() {
        Encode::Json(style) => Ok(Encoder::Json(Json::new(*style))),
        Encode::Avro(named) => load(named, |schemas| Avro::load(schemas).map(Encoder::Avro)),
        Encode::Protobuf(named) => load(named, |schemas| {
            Protobuf::load(schemas).map(Encoder::Protobuf)
        }),
    }
}

fn load(
    named: &SchemaFiles,
    load: impl Fn(&Schemas) -> Result<Encoder, SchemaError>,
) -> Result<Encoder, NoEncoder<'_>> {
    let schemas = named.find().map_err(NoEncoder::Config)?;
    load(&schemas).map_err(|first| {
        NoEncoder::Broken(Broken {
            named,
            errors: all(first, schemas, load),
        })
    })
}

/// Leaves out what is broken and reads the rest again, so that the next broken file is told too.
fn all(
    first: SchemaError,
    mut schemas: Schemas,
    load: impl Fn(&Schemas) -> Result<Encoder, SchemaError>,
) -> Vec<SchemaError> {
    let mut errors = vec![first];
    while let Some(last) = errors.last()
        && errors.len() < TOLD
        && leave_out(&mut schemas, last)
        && !schemas.files.is_empty()
    {
        match load(&schemas) {
            // A file that imports a broken one tells of it again.
            Err(error) if !errors.contains(&error) => errors.push(error),
            _ => break,
        }
    }
    errors
}

/// Whether the error's file was among them; else leaving it out would change nothing.
fn leave_out(schemas: &mut Schemas, error: &SchemaError) -> bool {
    if schemas.envelope.as_ref() == Some(&error.file) {
        schemas.envelope = None;
        return true;
    }
    let before = schemas.files.len();
    schemas.files.retain(|file| *file != error.file);
    schemas.files.len() < before
}

#[cfg(test)]
mod tests {
    use headwater_encode::{JsonStyle, UnknownMembers};

    use super::*;

    /// Stands for reading: files are broken by their names.
    fn read(schemas: &Schemas) -> Result<Encoder, SchemaError> {
        let files = schemas.envelope.iter().chain(&schemas.files);
        let mut broken = files.filter(|file| file.to_string_lossy().contains("bad"));
        match broken.next() {
            Some(file) => Err(SchemaError::at_line(file, 3, "is no schema")),
            None => Ok(Encoder::Json(Json::new(JsonStyle::Embedded))),
        }
    }

    fn told(envelope: Option<&str>, files: &[&str]) -> Vec<String> {
        let schemas = Schemas {
            files: files.iter().map(Into::into).collect(),
            envelope: envelope.map(Into::into),
            unknown_members: UnknownMembers::Warn,
        };
        let first = read(&schemas).expect_err("broken");
        let errors = all(first, schemas, read);
        errors.iter().map(ToString::to_string).collect()
    }

    #[test]
    fn every_broken_file_is_told_once() {
        let what = |file: &str| format!("{file}:3: is no schema");
        assert_eq!(
            told(Some("bad_envelope"), &["a", "bad1", "b", "bad2"]),
            ["bad_envelope", "bad1", "bad2"].map(what)
        );
        assert_eq!(told(None, &["bad1"]), ["bad1"].map(what));
    }

    #[test]
    fn the_number_of_broken_files_that_are_told_is_bounded() {
        let files: Vec<String> = (0..100).map(|number| format!("bad{number}")).collect();
        let files: Vec<&str> = files.iter().map(String::as_str).collect();
        assert_eq!(told(None, &files).len(), TOLD);
    }
}
