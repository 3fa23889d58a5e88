//! Schema files to descriptors: `.proto` text, compiled here, or descriptor sets that protoc made.
//!
//! Rule: every listed file is compiled by itself, so one file may be listed, and imported by others under any name. What a file imports
//! is looked for among the well-known types, then in the file's own folder and those above it, then in the folders of the other listed files.

mod descriptor_set;
mod source;

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use prost_reflect::MessageDescriptor;
use prost_reflect::prost_types::FileDescriptorProto;

use crate::SchemaError;
pub use source::Shelf;

/// A listed file, read.
#[derive(Debug)]
pub struct Loaded {
    pub file: PathBuf,
    /// Its top-level messages.
    pub messages: Vec<MessageDescriptor>,
    /// The files that it imports, directly or not.
    imports: Vec<PathBuf>,
}

/// Reads every file; a file listed twice counts once.
pub fn load(files: &[PathBuf], shelf: &Shelf) -> Result<Vec<Loaded>, SchemaError> {
    let mut loaded: HashMap<PathBuf, usize> = HashMap::new();
    let mut all = Vec::new();
    for file in files {
        let identity = shelf.identity(file);
        if loaded.insert(identity, all.len()).is_none() {
            all.push(one(file, files, shelf)?);
        }
    }
    Ok(all)
}

/// Reads one file; the others say where imports may be found.
pub fn one(file: &Path, others: &[PathBuf], shelf: &Shelf) -> Result<Loaded, SchemaError> {
    if is_descriptor_set(file) {
        let bytes =
            fs::read(file).map_err(|e| SchemaError::new(file, format!("cannot be read: {e}")))?;
        return Ok(Loaded {
            file: file.to_owned(),
            messages: descriptor_set::messages(file, &bytes)?,
            imports: Vec::new(),
        });
    }
    let (messages, imports) = source::compile(file, others, shelf)?;
    Ok(Loaded {
        file: file.to_owned(),
        messages,
        imports,
    })
}

fn is_descriptor_set(file: &Path) -> bool {
    let extension = file.extension().and_then(|extension| extension.to_str());
    matches!(extension, Some("desc" | "binpb" | "pb"))
}

/// A file without an event type is only there for others.
pub fn is_imported(loaded: &Loaded, all: &[Loaded], shelf: &Shelf) -> bool {
    let identity = shelf.identity(&loaded.file);
    all.iter()
        .any(|other| other.imports.contains(&identity) && shelf.identity(&other.file) != identity)
}

/// Were two messages of one name made of the same file? Sets made with imports hold the same files again and again.
pub fn is_same(one: &MessageDescriptor, other: &MessageDescriptor) -> bool {
    let without_source = |message: &MessageDescriptor| FileDescriptorProto {
        source_code_info: None,
        ..message.parent_file_descriptor_proto().clone()
    };
    without_source(one) == without_source(other)
}
