//! Which files `encode.schemas` and `encode.envelope` name: paths and patterns, looked up when they are going to be read.
//!
//! Rule: whatever is named must be a schema's file; nothing that was matched is left out silently.

use std::collections::HashSet;
use std::fmt;
use std::fs;
use std::path::{Path, PathBuf};

use glob::{MatchOptions, Pattern};
use headwater_encode::{SchemaError, Schemas, UnknownMembers};

use super::problem::{ConfigError, Located, Problem};
use super::written::Item;

/// As shells have it: an editor's and a mounted volume's own files begin with a dot, and are nobody's schemas.
const MATCHING: MatchOptions = MatchOptions {
    case_sensitive: true,
    require_literal_separator: true,
    require_literal_leading_dot: true,
};

/// The language of the schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum SchemaKind {
    Avro,
    Protobuf,
}

impl SchemaKind {
    /// The word of `encode.format`.
    pub(super) fn format(self) -> &'static str {
        match self {
            Self::Avro => "avro",
            Self::Protobuf => "protobuf",
        }
    }

    /// What a user may write as a list's item.
    pub(super) fn example(self) -> &'static str {
        match self {
            Self::Avro => "schemas/*.avsc",
            Self::Protobuf => "schemas/*.proto",
        }
    }

    fn endings(self) -> &'static [&'static str] {
        match self {
            Self::Avro => &["avsc"],
            Self::Protobuf => &["proto", "desc", "binpb", "pb"],
        }
    }
}

/// The schemas that a configuration names; nothing of them was read yet.
#[derive(Clone, Debug)]
pub struct SchemaFiles {
    pub(super) kind: SchemaKind,
    /// Where relative paths begin; empty for the working folder.
    pub(super) folder: PathBuf,
    /// At least one item.
    pub(super) list: Located<Vec<Located<Item>>>,
    pub(super) envelope: Option<Located<PathBuf>>,
    pub(super) unknown_members: UnknownMembers,
}

impl SchemaFiles {
    /// The files, each once and in a fixed order, or everything that is wrong with what was named.
    pub fn find(&self) -> Result<Schemas, ConfigError> {
        let mut problems = Vec::new();
        let mut files = Vec::new();
        for item in self.list.value() {
            match self.item(item.value()) {
                Ok(found) => files.extend(found),
                Err(whats) => problems.extend(
                    whats
                        .iter()
                        .map(|what| Problem::new(item.place(), item.key(), what)),
                ),
            }
        }
        let envelope = self.envelope.as_ref();
        if let Some(envelope) = envelope {
            let shown = format!("\"{}\"", envelope.value().display());
            if let Err(what) = self.fits(envelope.value(), &shown) {
                problems.push(Problem::new(envelope.place(), envelope.key(), what));
            }
        }
        if !problems.is_empty() {
            return Err(ConfigError::new(problems));
        }
        Ok(Schemas {
            files: each_once(files),
            envelope: envelope.map(|it| it.value().clone()),
            unknown_members: self.unknown_members,
        })
    }

    /// The error that tells what is wrong with the files themselves.
    pub fn refuse(&self, errors: &[SchemaError]) -> ConfigError {
        let told = errors.iter().map(|error| self.told(error));
        ConfigError::new(told.map(Problem::without_place).collect())
    }

    /// The error with the key that named its file.
    pub fn told(&self, error: &SchemaError) -> String {
        match &self.envelope {
            Some(envelope) if self.is_envelope(error) => {
                format!("{error} ({}, {})", envelope.key(), envelope.place())
            }
            _ => format!("{error} ({}, {})", self.list.key(), self.list.place()),
        }
    }

    /// Whether the error is about the envelope, and not about a payload's schema.
    pub fn is_envelope(&self, error: &SchemaError) -> bool {
        let envelope = self.envelope.as_ref();
        envelope.is_some_and(|envelope| *envelope.value() == error.file)
    }

    fn item(&self, item: &Item) -> Result<Vec<PathBuf>, Vec<String>> {
        let Item { shown, text } = item;
        let path = self.folder.join(text);
        // A file of exactly this name is meant, even if its name would be a pattern too.
        if !text.contains(['*', '?', '[']) || path.is_file() {
            self.fits(&path, shown).map_err(|what| vec![what])?;
            return Ok(vec![path]);
        }
        let found = self
            .matches(text)
            .map_err(|what| vec![format!("{shown} {what}")])?;
        if found.is_empty() {
            let what = format!(
                "{shown} matches no file; relative paths begin at the configuration's folder"
            );
            return Err(vec![what]);
        }
        let unfit = found.iter().filter_map(|file| {
            let named = format!("{shown} matches {}, which", file.display());
            self.fits(file, &named).err()
        });
        let unfit: Vec<String> = unfit.collect();
        if unfit.is_empty() {
            Ok(found)
        } else {
            Err(unfit)
        }
    }

    fn matches(&self, text: &str) -> Result<Vec<PathBuf>, String> {
        let pattern = if self.folder.as_os_str().is_empty() || Path::new(text).is_absolute() {
            text.to_owned()
        } else {
            let Some(folder) = self.folder.to_str() else {
                return Err("is a pattern, and the configuration's folder has a name that is not UTF-8; name the \
                            files one by one, or by an absolute pattern"
                    .to_owned());
            };
            format!("{}/{text}", Pattern::escape(folder))
        };
        let found = glob::glob_with(&pattern, MATCHING).map_err(|error| {
            format!(
                "is no pattern: {}; write [*] where * itself is meant",
                error.msg
            )
        })?;
        found.collect::<Result<_, _>>().map_err(|error| {
            format!(
                "leads to {}, which cannot be read: {}",
                error.path().display(),
                error.error()
            )
        })
    }

    /// Whether a schema can be in this file. `named` begins the sentence that says why not.
    fn fits(&self, file: &Path, named: &dyn fmt::Display) -> Result<(), String> {
        let endings = self.kind.endings();
        let example = self.kind.example();
        match fs::metadata(file) {
            Err(error) => Err(format!(
                "{named} cannot be read: {error}; relative paths begin at the configuration's folder"
            )),
            Ok(found) if found.is_dir() => Err(format!(
                "{named} is a folder; files are wanted, or a pattern such as {example:?}"
            )),
            Ok(found) if !found.is_file() => Err(format!("{named} is no plain file")),
            Ok(_) => {
                let ending = file.extension().and_then(|ending| ending.to_str());
                if ending.is_some_and(|ending| endings.contains(&ending)) {
                    return Ok(());
                }
                let wanted = match endings {
                    [only] => format!(".{only} is"),
                    _ => format!("one of .{} is", endings.join(", .")),
                };
                Err(format!(
                    "{named} has the wrong ending for encode.format = \"{}\"; {wanted} wanted",
                    self.kind.format()
                ))
            }
        }
    }
}

/// Sorted, so that the same files give the same errors; a file that was named in several ways is taken under the first.
fn each_once(mut files: Vec<PathBuf>) -> Vec<PathBuf> {
    files.sort();
    let mut seen = HashSet::new();
    files.retain(|file| seen.insert(fs::canonicalize(file).unwrap_or_else(|_| file.clone())));
    files
}
