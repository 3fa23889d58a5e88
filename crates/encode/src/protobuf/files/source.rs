//! `.proto` text, compiled.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs;
use std::io;
use std::path::{Component, Path, PathBuf};
use std::rc::Rc;

use prost_reflect::MessageDescriptor;
use prost_reflect::prost_types::FileDescriptorProto;
use protox::file::{File, FileResolver, GoogleFileResolver};
use protox::{Compiler, Error};

use crate::SchemaError;

/// Where the text of files comes from.
#[derive(Debug, Clone)]
pub enum Shelf {
    Disk,
    Memory(Rc<HashMap<PathBuf, String>>),
}

impl Shelf {
    pub fn memory(texts: &[(&Path, &str)]) -> Shelf {
        let texts = texts
            .iter()
            .map(|(path, text)| ((*path).to_owned(), (*text).to_owned()));
        Shelf::Memory(Rc::new(texts.collect()))
    }

    /// The same for all ways to one file.
    pub fn identity(&self, file: &Path) -> PathBuf {
        match self {
            Shelf::Disk => fs::canonicalize(file).unwrap_or_else(|_| file.to_owned()),
            Shelf::Memory(_) => file.to_owned(),
        }
    }

    fn has(&self, file: &Path) -> bool {
        match self {
            Shelf::Disk => file.is_file(),
            Shelf::Memory(texts) => texts.contains_key(file),
        }
    }

    fn read(&self, file: &Path) -> io::Result<String> {
        let mut text = match self {
            Shelf::Disk => fs::read_to_string(file)?,
            Shelf::Memory(texts) => texts.get(file).cloned().ok_or(io::ErrorKind::NotFound)?,
        };
        // Editors put a mark at the beginning, which protoc passes over.
        if text.starts_with('\u{FEFF}') {
            text.remove(0);
        }
        Ok(text)
    }
}

/// Its top-level messages, and the files that it imports.
pub fn compile(
    file: &Path,
    others: &[PathBuf],
    shelf: &Shelf,
) -> Result<(Vec<MessageDescriptor>, Vec<PathBuf>), SchemaError> {
    let Some(name) = file.file_name().and_then(|name| name.to_str()) else {
        return Err(SchemaError::new(file, "is not the name of a .proto file"));
    };
    shelf
        .read(file)
        .map_err(|e| SchemaError::new(file, format!("cannot be read: {e}")))?;
    let opened = Rc::new(RefCell::new(Vec::new()));
    let search = Search {
        folders: folders(file, others),
        shelf: shelf.clone(),
        opened: Rc::clone(&opened),
    };
    let mut compiler = Compiler::with_file_resolver(search);
    let read = compiler.open_file(name).map(|_| ());
    read.map_err(|e| told(&e, file, &opened.borrow(), shelf))?;
    let own = compiler.descriptor_pool().get_file_by_name(name);
    let messages = own.map(|own| own.messages().collect()).unwrap_or_default();
    let imports = opened
        .borrow()
        .iter()
        .skip(1)
        .map(|opened| opened.identity.clone())
        .collect();
    Ok((messages, imports))
}

fn folders(file: &Path, others: &[PathBuf]) -> Vec<PathBuf> {
    let mut folders: Vec<PathBuf> = Vec::new();
    let own = file.ancestors().skip(1);
    let others = others.iter().filter_map(|other| other.parent());
    for folder in own.chain(others) {
        if !folders.iter().any(|known| known == folder) {
            folders.push(folder.to_owned());
        }
    }
    folders
}

/// A file that was found, under the name that an import gave it.
#[derive(Debug)]
struct Opened {
    name: String,
    path: PathBuf,
    identity: PathBuf,
}

struct Search {
    folders: Vec<PathBuf>,
    shelf: Shelf,
    opened: Rc<RefCell<Vec<Opened>>>,
}

impl FileResolver for Search {
    fn open_file(&self, name: &str) -> Result<File, Error> {
        if let Ok(known) = GoogleFileResolver::new().open_file(name) {
            return Ok(known);
        }
        let is_plain = Path::new(name)
            .components()
            .all(|part| matches!(part, Component::Normal(_)));
        let found = self
            .folders
            .iter()
            .map(|folder| folder.join(name))
            .find(|path| self.shelf.has(path));
        let Some(path) = found.filter(|_| is_plain) else {
            return Err(Error::file_not_found(name));
        };
        let identity = self.shelf.identity(&path);
        let mut opened = self.opened.borrow_mut();
        if let Some(first) = opened.iter().find(|file| file.identity == identity) {
            return Ok(File::from_file_descriptor_proto(stands_for(
                name,
                &first.name,
            )));
        }
        let text = self.shelf.read(&path).map_err(Error::new)?;
        let name = name.to_owned();
        opened.push(Opened {
            name: name.clone(),
            path,
            identity,
        });
        File::from_source(&name, &text)
    }
}

/// One file under a second name: compiled again, its messages would be there twice.
fn stands_for(name: &str, first: &str) -> FileDescriptorProto {
    FileDescriptorProto {
        name: Some(name.to_owned()),
        dependency: vec![first.to_owned()],
        public_dependency: vec![0],
        syntax: Some("proto3".to_owned()),
        ..FileDescriptorProto::default()
    }
}

fn told(error: &Error, listed: &Path, opened: &[Opened], shelf: &Shelf) -> SchemaError {
    let named = error.file();
    let at = opened.iter().find(|file| Some(&*file.name) == named);
    let path = at.map_or(listed, |file| &file.path);
    let mut what = error.to_string();
    if error.is_file_not_found() {
        what.push_str(" (looked for in the folder of the listed file, those above it, and those of the other listed files)");
    }
    // protoc only warns of it in proto2, and the compiler's words do not always say which name.
    if what.contains("JSON name") {
        what.push_str("; two fields of one message must not share a JSON name: give one a json_name of its own");
    }
    // Only the debug text has the place: `name:line:column: what`.
    let debug = format!("{error:?}");
    let place = named.and_then(|name| debug.strip_prefix(name)?.strip_prefix(':'));
    let line = place.and_then(|place| place.split(':').next()?.parse::<usize>().ok());
    if uses_edition(path, shelf) {
        what = format!("it uses an edition; write syntax = \"proto3\" or \"proto2\" ({what})");
    }
    SchemaError {
        line,
        ..SchemaError::new(path, what)
    }
}

fn uses_edition(path: &Path, shelf: &Shelf) -> bool {
    let text = shelf.read(path).unwrap_or_default();
    let is_edition = |line: &str| {
        line.strip_prefix("edition")
            .is_some_and(|rest| rest.trim_start().starts_with('='))
    };
    text.lines().any(|line| is_edition(line.trim_start()))
}
