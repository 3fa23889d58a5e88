//! A field's default, written to bytes when its schema is loaded.
//!
//! Stricter than Java where Java would fail or lose something only at the first row that needs the default: a symbol that
//! the enum lacks, bytes beyond 255, a fixed of another size, a number outside of its type.

use super::logical::Primitive;
use super::number;
use super::put;
use super::schema::{Schema, Type, TypeId};
use crate::document::{Kind, Text, Value};

/// Records without an end, each the default inside the other, stop here.
const DEPTH: usize = 64;

pub struct Unwritable(pub String);

pub fn encode(schema: &Schema<'_>, of: TypeId, default: Value<'_>) -> Result<Vec<u8>, Unwritable> {
    let mut out = Vec::new();
    let mut writer = Writer { schema, depth: 0 };
    if writer.any(of, default, &mut out).is_some() {
        Ok(out)
    } else {
        let (shown, of) = (default.raw(), schema.told(of));
        Err(Unwritable(format!(
            "the default {shown:.80} is not a value of its type {of:.200}"
        )))
    }
}

struct Writer<'s> {
    schema: &'s Schema<'s>,
    depth: usize,
}

impl Writer<'_> {
    fn any(&mut self, of: TypeId, json: Value<'_>, out: &mut Vec<u8>) -> Option<()> {
        match self.schema.get(of) {
            Type::Primitive(primitive, _) => primitive_value(*primitive, json, out),
            Type::Fixed { size, .. } => {
                let bytes = code_points(json.text()?)?;
                (bytes.len() == *size as usize).then(|| out.extend(bytes))
            }
            Type::Enum { symbols, .. } => {
                let symbol = json.text()?.to_str().ok()?;
                let place = symbols.iter().position(|known| **known == *symbol)?;
                put::long(out, i64::try_from(place).ok()?);
                Some(())
            }
            Type::Array(items) => {
                (json.kind() == Kind::Array).then_some(())?;
                put::count(out, json.len());
                for element in json.elements() {
                    self.any(*items, element, out)?;
                }
                put::end(out);
                Some(())
            }
            Type::Map(values) => self.map(*values, json, out),
            Type::Record { .. } => {
                self.depth += 1;
                (self.depth < DEPTH).then_some(())?;
                self.record(of, json, out)?;
                self.depth -= 1;
                Some(())
            }
            Type::Union(branches) => self.union(branches, json, out),
            Type::Mentioned(_) => None,
        }
    }

    /// Avro Java 1.12 lets a default match any branch.
    fn union(&mut self, branches: &[TypeId], json: Value<'_>, out: &mut Vec<u8>) -> Option<()> {
        let (start, depth) = (out.len(), self.depth);
        for (branch, index) in branches.iter().zip(0..) {
            put::long(out, index);
            if self.any(*branch, json, out).is_some() {
                return Some(());
            }
            out.truncate(start);
            self.depth = depth;
        }
        None
    }

    fn map(&mut self, values: TypeId, json: Value<'_>, out: &mut Vec<u8>) -> Option<()> {
        (json.kind() == Kind::Object).then_some(())?;
        let entries = java_order(json)?;
        put::count(out, entries.len());
        for (name, value) in &entries {
            put::bytes(out, name.as_bytes());
            self.any(values, *value, out)?;
        }
        put::end(out);
        Some(())
    }

    fn record(&mut self, of: TypeId, json: Value<'_>, out: &mut Vec<u8>) -> Option<()> {
        let Type::Record { fields, .. } = self.schema.get(of) else {
            return None;
        };
        (json.kind() == Kind::Object).then_some(())?;
        for field in fields {
            let value = super::member::member(json, &field.name).or(field.default)?;
            self.any(field.of, value, out)?;
        }
        Some(())
    }
}

fn primitive_value(primitive: Primitive, json: Value<'_>, out: &mut Vec<u8>) -> Option<()> {
    match primitive {
        Primitive::Null => json.is_null().then_some(()),
        Primitive::Boolean => json.bool().map(|value| out.push(u8::from(value))),
        Primitive::Int => integer(json)
            .and_then(|value| i32::try_from(value).ok())
            .map(|value| put::long(out, i64::from(value))),
        Primitive::Long => integer(json).map(|value| put::long(out, value)),
        Primitive::Float => {
            let wide = floating(json)?;
            #[expect(
                clippy::cast_possible_truncation,
                reason = "rounding is what a float does"
            )]
            let value = wide as f32;
            let is_kept = value.is_finite() || !wide.is_finite();
            is_kept.then(|| out.extend(value.to_le_bytes()))
        }
        Primitive::Double => floating(json).map(|value| out.extend(value.to_le_bytes())),
        Primitive::Bytes => {
            let bytes = code_points(json.text()?)?;
            put::bytes(out, &bytes);
            Some(())
        }
        Primitive::Text => {
            let text = json.text()?.to_str().ok()?;
            put::bytes(out, text.as_bytes());
            Some(())
        }
    }
}

fn integer(json: Value<'_>) -> Option<i64> {
    (json.kind() == Kind::Integer).then(|| number::whole(json.raw()))?
}

/// A number, or one of the three names that Java knows for what JSON has no numbers for.
fn floating(json: Value<'_>) -> Option<f64> {
    match json.number() {
        Some(number) => number.parse().ok().filter(|value: &f64| value.is_finite()),
        None => match json.text()?.plain()? {
            "NaN" => Some(f64::NAN),
            "Infinity" => Some(f64::INFINITY),
            "-Infinity" => Some(f64::NEG_INFINITY),
            _ => None,
        },
    }
}

/// In a default bytes are written as the characters with their numbers.
fn code_points(text: Text<'_>) -> Option<Vec<u8>> {
    let text = text.to_str().ok()?;
    text.chars()
        .map(|character| u8::try_from(character).ok())
        .collect()
}

/// Java keeps a map's default in a hash table, and writes it in that table's order: so do we, to write the same bytes.
fn java_order<'d>(json: Value<'d>) -> Option<Vec<(String, Value<'d>)>> {
    let mut entries: Vec<(String, Value<'d>)> = Vec::new();
    for (name, value) in json.entries() {
        entries.push((name.to_str().ok()?.into_owned(), value));
    }
    let mut buckets = 16;
    while entries.len() * 4 > buckets * 3 {
        buckets *= 2;
    }
    entries.sort_by_key(|(name, _)| {
        let hash = name.bytes().fold(1_u32, |hash, byte| {
            let byte = i32::from(byte.cast_signed()).cast_unsigned();
            hash.wrapping_mul(31).wrapping_add(byte)
        });
        (hash ^ (hash >> 16)) as usize & (buckets - 1)
    });
    Some(entries)
}
