//! Descriptor sets, as `protoc --descriptor_set_out --include_imports` writes them.

use std::collections::HashMap;
use std::path::Path;

use prost_reflect::prost::Message;
use prost_reflect::prost_types::{FileDescriptorProto, FileDescriptorSet};
use prost_reflect::{DescriptorPool, MessageDescriptor};
use protox::file::{FileResolver, GoogleFileResolver};

use crate::SchemaError;

/// The top-level messages of all files in the set.
pub fn messages(file: &Path, bytes: &[u8]) -> Result<Vec<MessageDescriptor>, SchemaError> {
    let fail = |what: String| SchemaError::new(file, what);
    let set = FileDescriptorSet::decode(bytes).map_err(|e| {
        fail(format!(
            "is not a descriptor set: {e}; make it with protoc --descriptor_set_out"
        ))
    })?;
    if set.file.is_empty() {
        return Err(fail("is a descriptor set without files".to_owned()));
    }
    let mut pool = DescriptorPool::new();
    let names: Vec<String> = set.file.iter().map(|file| file.name().to_owned()).collect();
    for descriptor in imports_first(set).map_err(fail)? {
        let name = descriptor.name().to_owned();
        if descriptor.syntax() == "editions" {
            return Err(fail(format!(
                "{name} uses an edition; write syntax = \"proto3\" or \"proto2\""
            )));
        }
        pool.add_file_descriptor_proto(descriptor)
            .map_err(|e| fail(format!("{name}: {e}")))?;
    }
    let own = pool
        .files()
        .filter(|file| names.iter().any(|name| name == file.name()));
    Ok(own
        .flat_map(|file| file.messages().collect::<Vec<_>>())
        .collect())
}

/// The same files, each after those that it imports; the well-known ones are added where the set lacks them.
fn imports_first(set: FileDescriptorSet) -> Result<Vec<FileDescriptorProto>, String> {
    let mut waiting: HashMap<String, FileDescriptorProto> = HashMap::new();
    let mut order = Vec::new();
    for file in set.file {
        order.push(file.name().to_owned());
        waiting.insert(file.name().to_owned(), file);
    }
    let google = GoogleFileResolver::new();
    let mut sorted: Vec<FileDescriptorProto> = Vec::new();
    for name in order {
        // The files that are begun, each imported by the one before it, with how many imports of each were looked at.
        let mut begun: Vec<(FileDescriptorProto, usize)> = waiting
            .remove(&name)
            .map(|file| (file, 0))
            .into_iter()
            .collect();
        while let Some((file, looked_at)) = begun.last_mut() {
            let Some(import) = file.dependency.get(*looked_at).cloned() else {
                sorted.extend(begun.pop().map(|(file, _)| file));
                continue;
            };
            *looked_at += 1;
            if let Some(next) = waiting.remove(&import) {
                begun.push((next, 0));
            } else if begun.iter().any(|(file, _)| file.name() == import) {
                let chain: Vec<&str> = begun.iter().map(|(file, _)| file.name()).collect();
                return Err(format!(
                    "files import each other in a circle: {} -> {import}",
                    chain.join(" -> ")
                ));
            } else if !sorted.iter().any(|file| file.name() == import) {
                let Ok(known) = google.open_file(&import) else {
                    let by = begun.last().map_or("", |(file, _)| file.name());
                    return Err(format!(
                        "{by} imports {import}, which is not in the set: make it with protoc --include_imports"
                    ));
                };
                begun.push((known.into(), 0));
            }
        }
    }
    Ok(sorted)
}
