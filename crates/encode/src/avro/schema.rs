//! An `.avsc` file's types, as Avro Java 1.12 reads them.
//!
//! apache-avro's parser does not serve: it refuses what Java takes (a name before its definition, comments, letters outside
//! ASCII, a default that a logical type would not accept), takes what Java refuses (a type inside a type), and says no line.
//! A test shows it.

use std::collections::{HashMap, HashSet};
use std::path::Path;

use super::logical::{self, Logical, Primitive};
use super::member::{
    check_name, check_segment, digits, full_name, integer, lacks, logical_name, member,
    namespace_of, string,
};
use crate::document::{Document, Kind, Limits, Value};
use crate::error::SchemaError;

/// Types may stand inside each other so deep; what walks over a schema calls itself.
const DEPTH: usize = 100;

/// A place in [`Schema::types`].
pub type TypeId = u32;

#[derive(Debug)]
pub enum Type<'d> {
    Primitive(Primitive, Option<Logical>),
    Fixed {
        name: String,
        size: u32,
        logical: Option<Logical>,
    },
    Enum {
        name: String,
        symbols: Vec<String>,
    },
    Array(TypeId),
    Map(TypeId),
    Record {
        name: String,
        fields: Vec<Field<'d>>,
    },
    Union(Vec<TypeId>),
    /// Mentioned, and not yet defined.
    Mentioned(String),
}

#[derive(Debug)]
pub struct Field<'d> {
    pub name: String,
    pub of: TypeId,
    pub default: Option<Value<'d>>,
}

#[derive(Debug)]
pub struct Schema<'d> {
    pub types: Vec<Type<'d>>,
    pub root: TypeId,
}

impl<'d> Schema<'d> {
    pub fn get(&self, id: TypeId) -> &Type<'d> {
        &self.types[id as usize]
    }

    /// The root's name and fields.
    pub fn record(&self) -> Option<(&str, &[Field<'d>])> {
        match self.get(self.root) {
            Type::Record { name, fields } => Some((name, fields)),
            _ => None,
        }
    }

    /// The root in few words.
    pub fn root_told(&self) -> String {
        match self.get(self.root) {
            Type::Enum { name, .. } => format!("the enum {name}"),
            Type::Fixed { name, .. } => format!("the fixed {name}"),
            _ => self.told(self.root),
        }
    }

    /// A type in few words: the name of a named one.
    pub fn told(&self, id: TypeId) -> String {
        match self.get(id) {
            Type::Primitive(primitive, _) => format!("\"{}\"", primitive.name()),
            Type::Fixed { name, .. }
            | Type::Enum { name, .. }
            | Type::Record { name, .. }
            | Type::Mentioned(name) => format!("\"{name}\""),
            Type::Array(of) => format!("{{\"type\":\"array\",\"items\":{}}}", self.told(*of)),
            Type::Map(of) => format!("{{\"type\":\"map\",\"values\":{}}}", self.told(*of)),
            Type::Union(branches) => {
                let told: Vec<String> = branches.iter().map(|id| self.told(*id)).collect();
                format!("[{}]", told.join(","))
            }
        }
    }
}

/// Reads a schema file's text; `document` holds it while the schema is in use.
pub fn read<'d>(
    file: &Path,
    text: &'d str,
    document: &'d mut Document,
) -> Result<Schema<'d>, SchemaError> {
    let limits = Limits {
        depth: DEPTH,
        ..Limits::REFERENCE
    };
    let line_of = |at: usize| 1 + text.get(..at).unwrap_or(text).matches('\n').count();
    let root = document.read(text, &limits).map_err(|malformed| {
        let line = line_of(malformed.at);
        SchemaError::at_line(file, line, format!("not a schema: {malformed}"))
    })?;
    let Some(root) = root else {
        return Err(SchemaError::new(
            file,
            "the file is empty; an Avro schema is wanted",
        ));
    };
    let mut reader = Reader::default();
    let schema = reader.read(root);
    schema.map_err(|what| {
        let line = line_of(reader.at);
        SchemaError::at_line(file, line, format!("not an Avro schema: {what}"))
    })
}

#[derive(Default)]
struct Reader<'d> {
    types: Vec<Type<'d>>,
    /// Where each full name is, defined or only mentioned.
    names: HashMap<String, TypeId>,
    /// The JSON of each definition: Java allows the same one twice.
    definitions: HashMap<String, &'d str>,
    /// For each name that is only mentioned, where it was first: the byte, and the field.
    mentions: HashMap<TypeId, (usize, String)>,
    /// The byte at which the last type or field begins: errors are about it.
    at: usize,
    /// The record and the field that is under way.
    field: String,
}

type Read<T> = Result<T, String>;

impl<'d> Reader<'d> {
    fn read(&mut self, root: Value<'d>) -> Read<Schema<'d>> {
        let root = self.any(root, "")?;
        for (known, id) in self.types.iter().zip(0..) {
            if let Type::Mentioned(name) = known {
                let mut names: Vec<&str> = self.definitions.keys().map(String::as_str).collect();
                names.sort_unstable();
                let names = names.join(", ");
                let (at, field) = self.mentions.remove(&id).unwrap_or_default();
                self.at = at;
                return Err(format!(
                    "{field}the type {name} is not defined; defined are: {names}"
                ));
            }
        }
        Ok(Schema {
            types: std::mem::take(&mut self.types),
            root,
        })
    }

    fn add(&mut self, of: Type<'d>) -> TypeId {
        self.types.push(of);
        // There are fewer types than bytes in a text of at most 4 GiB.
        u32::try_from(self.types.len() - 1).unwrap_or(u32::MAX)
    }

    fn any(&mut self, json: Value<'d>, namespace: &str) -> Read<TypeId> {
        self.at = json.begins_at();
        match json.kind() {
            Kind::Text => self.mention(&string(json)?, namespace),
            Kind::Array => self.union(json, namespace),
            Kind::Object => self.object(json, namespace),
            kind => Err(format!(
                "a type is a name, an object or an array, not {kind}"
            )),
        }
    }

    fn mention(&mut self, name: &str, namespace: &str) -> Read<TypeId> {
        if let Some(primitive) = Primitive::named(name) {
            return Ok(self.add(Type::Primitive(primitive, None)));
        }
        let full = full_name(name, namespace);
        if let Some(id) = self.names.get(&full).or_else(|| self.names.get(name)) {
            return Ok(*id);
        }
        check_name(&full)?;
        let id = self.add(Type::Mentioned(full.clone()));
        self.mentions.insert(id, (self.at, self.field.clone()));
        self.names.insert(full, id);
        Ok(id)
    }

    fn union(&mut self, json: Value<'d>, namespace: &str) -> Read<TypeId> {
        let mut branches: Vec<TypeId> = Vec::new();
        for branch in json.elements() {
            let id = self.any(branch, namespace)?;
            if let Type::Union(_) = self.types[id as usize] {
                return Err("a union stands directly inside a union".to_owned());
            }
            if branches
                .iter()
                .any(|before| self.is_same_branch(*before, id))
            {
                let branch = branch.raw();
                return Err(format!(
                    "a union has two branches of one type: {branch:.80}"
                ));
            }
            branches.push(id);
        }
        Ok(self.add(Type::Union(branches)))
    }

    /// Readers tell branches apart by their type, named ones by their name.
    fn is_same_branch(&self, one: TypeId, other: TypeId) -> bool {
        match (&self.types[one as usize], &self.types[other as usize]) {
            (Type::Primitive(one, _), Type::Primitive(other, _)) => one == other,
            (Type::Array(_), Type::Array(_)) | (Type::Map(_), Type::Map(_)) => true,
            _ => one == other,
        }
    }

    fn object(&mut self, json: Value<'d>, namespace: &str) -> Read<TypeId> {
        let name = member(json, "type").ok_or_else(|| lacks(json, "type"))?;
        let name = string(name).map_err(|_| {
            let shown = json.raw();
            format!("\"type\" must be a name here, in {shown:.80}")
        })?;
        if let Some(primitive) = Primitive::named(&name) {
            let logical = logical_name(json)
                .and_then(|logical| logical::of_primitive(primitive, &logical, digits(json)));
            return Ok(self.add(Type::Primitive(primitive, logical)));
        }
        match &*name {
            "record" | "error" => self.record(json, namespace),
            "enum" => self.enumeration(json, namespace),
            "fixed" => self.fixed(json, namespace),
            "array" => {
                let items = member(json, "items").ok_or_else(|| lacks(json, "items"))?;
                let items = self.any(items, namespace)?;
                Ok(self.add(Type::Array(items)))
            }
            "map" => {
                let values = member(json, "values").ok_or_else(|| lacks(json, "values"))?;
                let values = self.any(values, namespace)?;
                Ok(self.add(Type::Map(values)))
            }
            named => self.mention(named, namespace),
        }
    }

    /// The place of a named type that is defined here, and its name; no name if the same definition was there before.
    fn define(&mut self, json: Value<'d>, namespace: &str) -> Read<(TypeId, Option<String>)> {
        let name = member(json, "name").ok_or_else(|| lacks(json, "name"))?;
        let space = member(json, "namespace").and_then(|space| string(space).ok());
        let full = full_name(&string(name)?, space.as_deref().unwrap_or(namespace));
        check_name(&full)?;
        if Primitive::named(&full).is_some() {
            return Err(format!("{full} is the name of a built-in type"));
        }
        if let Some(before) = self.definitions.get(&full) {
            return if *before == json.raw() {
                Ok((self.names[&full], None))
            } else {
                Err(format!("{full} is defined twice"))
            };
        }
        self.definitions.insert(full.clone(), json.raw());
        let id = match self.names.get(&full) {
            Some(id) => *id,
            None => self.add(Type::Mentioned(full.clone())),
        };
        self.names.insert(full.clone(), id);
        Ok((id, Some(full)))
    }

    fn record(&mut self, json: Value<'d>, namespace: &str) -> Read<TypeId> {
        let (id, name) = self.define(json, namespace)?;
        let Some(name) = name else { return Ok(id) };
        let listed = member(json, "fields").filter(|fields| fields.kind() == Kind::Array);
        let listed = listed.ok_or_else(|| format!("record {name} has no array \"fields\""))?;
        let inner = namespace_of(&name).to_owned();
        let mut fields: Vec<Field<'d>> = Vec::with_capacity(listed.len());
        for field in listed.elements() {
            let field = self
                .field(field, (&name, &inner))
                .map_err(|what| format!("{name}: {what}"))?;
            if fields.iter().any(|before| before.name == field.name) {
                return Err(format!("record {name} has two fields {}", field.name));
            }
            fields.push(field);
        }
        self.types[id as usize] = Type::Record { name, fields };
        Ok(id)
    }

    fn field(&mut self, json: Value<'d>, (record, namespace): (&str, &str)) -> Read<Field<'d>> {
        self.at = json.begins_at();
        let name = member(json, "name").ok_or_else(|| lacks(json, "name"))?;
        let name = string(name)?.into_owned();
        check_segment(&name)?;
        let of = member(json, "type").ok_or_else(|| format!("field {name} has no type"))?;
        let here = format!("{record}: field {name}: ");
        let around = std::mem::replace(&mut self.field, here);
        let of = self
            .any(of, namespace)
            .map_err(|what| format!("field {name}: {what}"))?;
        self.field = around;
        let default = member(json, "default");
        Ok(Field { name, of, default })
    }

    fn enumeration(&mut self, json: Value<'d>, namespace: &str) -> Read<TypeId> {
        let (id, name) = self.define(json, namespace)?;
        let Some(name) = name else { return Ok(id) };
        let listed = member(json, "symbols").filter(|symbols| symbols.kind() == Kind::Array);
        let listed = listed.ok_or_else(|| format!("enum {name} has no array \"symbols\""))?;
        let mut symbols: Vec<String> = Vec::with_capacity(listed.len());
        for symbol in listed.elements() {
            let symbol = string(symbol)?.into_owned();
            check_segment(&symbol)?;
            symbols.push(symbol);
        }
        let mut known = HashSet::new();
        if let Some(twice) = symbols.iter().find(|symbol| !known.insert(*symbol)) {
            return Err(format!("enum {name} has two symbols {twice}"));
        }
        if let Some(default) = member(json, "default")
            && !symbols.contains(&string(default)?.into_owned())
        {
            return Err(format!(
                "enum {name} has no symbol {}, its default",
                default.raw()
            ));
        }
        self.types[id as usize] = Type::Enum { name, symbols };
        Ok(id)
    }

    fn fixed(&mut self, json: Value<'d>, namespace: &str) -> Read<TypeId> {
        let (id, name) = self.define(json, namespace)?;
        let Some(name) = name else { return Ok(id) };
        let size = integer(json, "size").and_then(|size| u32::try_from(size).ok());
        let size = size.filter(|size| i32::try_from(*size).is_ok());
        let size = size.ok_or_else(|| format!("fixed {name} needs a \"size\": a whole number"))?;
        let logical =
            logical_name(json).and_then(|logical| logical::of_fixed(size, &logical, digits(json)));
        self.types[id as usize] = Type::Fixed {
            name,
            size,
            logical,
        };
        Ok(id)
    }
}
