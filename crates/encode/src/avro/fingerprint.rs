//! Which schema a message was written with: CRC-64-AVRO of the schema's parsing canonical form.
//!
//! apache-avro keeps logical types in that form, where Java and fastavro drop them: its readers could not find the schema.

use std::collections::HashSet;
use std::fmt::Write;

use super::schema::{Schema, Type, TypeId};

/// What stands before every value in single-object encoding: a mark, and the schema's fingerprint.
pub type Header = [u8; 10];

pub fn header(schema: &Schema<'_>) -> Header {
    let fingerprint = rabin(canonical(schema).as_bytes()).to_le_bytes();
    let mut header = [0xC3, 0x01, 0, 0, 0, 0, 0, 0, 0, 0];
    header[2..].copy_from_slice(&fingerprint);
    header
}

/// The parsing canonical form: full names, types and their order, and nothing else.
pub fn canonical(schema: &Schema<'_>) -> String {
    let mut form = Form {
        schema,
        text: String::new(),
        written: HashSet::new(),
    };
    form.any(schema.root);
    form.text
}

struct Form<'s> {
    schema: &'s Schema<'s>,
    text: String,
    /// Named types stand once; then only their names.
    written: HashSet<TypeId>,
}

impl Form<'_> {
    fn any(&mut self, id: TypeId) {
        match self.schema.get(id) {
            Type::Primitive(primitive, _) => self.quoted(primitive.name()),
            Type::Array(of) => self.container("{\"type\":\"array\",\"items\":", *of),
            Type::Map(of) => self.container("{\"type\":\"map\",\"values\":", *of),
            Type::Union(branches) => {
                for (place, branch) in branches.iter().enumerate() {
                    self.text.push(if place == 0 { '[' } else { ',' });
                    self.any(*branch);
                }
                self.text
                    .push_str(if branches.is_empty() { "[]" } else { "]" });
            }
            Type::Fixed { name, .. }
            | Type::Enum { name, .. }
            | Type::Record { name, .. }
            | Type::Mentioned(name) => {
                if self.written.insert(id) {
                    self.named(id, name);
                } else {
                    self.quoted(name);
                }
            }
        }
    }

    /// Names hold letters and digits only: nothing needs an escape.
    fn quoted(&mut self, name: &str) {
        self.text.extend(["\"", name, "\""]);
    }

    fn container(&mut self, opening: &str, of: TypeId) {
        self.text.push_str(opening);
        self.any(of);
        self.text.push('}');
    }

    fn named(&mut self, id: TypeId, name: &str) {
        self.text.extend(["{\"name\":\"", name, "\",\"type\":\""]);
        match self.schema.get(id) {
            Type::Fixed { size, .. } => {
                // Writing to a text cannot fail.
                let _ = write!(self.text, "fixed\",\"size\":{size}");
            }
            Type::Enum { symbols, .. } => {
                let symbols: Vec<String> = symbols.iter().map(|s| format!("\"{s}\"")).collect();
                let symbols = symbols.join(",");
                self.text.extend(["enum\",\"symbols\":[", &symbols, "]"]);
            }
            Type::Record { fields, .. } => {
                self.text.push_str("record\",\"fields\":[");
                for (place, field) in fields.iter().enumerate() {
                    let comma = if place == 0 { "" } else { "," };
                    self.text
                        .extend([comma, "{\"name\":\"", &field.name, "\",\"type\":"]);
                    self.any(field.of);
                    self.text.push('}');
                }
                self.text.push(']');
            }
            _ => {}
        }
        self.text.push('}');
    }
}

const EMPTY: u64 = 0xC15D_213A_A4D7_A795;

static TABLE: [u64; 256] = {
    let mut table = [0; 256];
    let mut byte = 0;
    while byte < 256 {
        let mut remainder = byte as u64;
        let mut bit = 0;
        while bit < 8 {
            let mask = (remainder & 1).wrapping_neg() & EMPTY;
            remainder = (remainder >> 1) ^ mask;
            bit += 1;
        }
        table[byte] = remainder;
        byte += 1;
    }
    table
};

/// CRC-64-AVRO, as Avro's specification gives it.
fn rabin(bytes: &[u8]) -> u64 {
    bytes.iter().fold(EMPTY, |crc, byte| {
        let index = crc.to_le_bytes()[0] ^ byte;
        (crc >> 8) ^ TABLE[usize::from(index)]
    })
}
