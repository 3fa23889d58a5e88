//! Any schema with any JSON: never a panic, the same bytes twice, and what fits is read back by another reader.

use base64::Engine;
use headwater_core::instant::Instant;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{Avro, FILE, hex, oracle, written};
use crate::UnknownMembers;

/// Chances, all out of one number, so that a failing one can be played again.
struct Dice(u64);

impl Dice {
    /// splitmix64.
    fn roll(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut bits = self.0;
        bits = (bits ^ (bits >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        bits = (bits ^ (bits >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        bits ^ (bits >> 31)
    }

    fn below(&mut self, end: u64) -> u64 {
        self.roll() % end
    }

    fn small(&mut self, end: u8) -> usize {
        usize::try_from(self.below(u64::from(end))).expect("small")
    }

    fn long(&mut self) -> i64 {
        let shift = self.below(64);
        self.roll().cast_signed() >> shift
    }

    fn int(&mut self) -> i64 {
        i64::from(i32::try_from(self.long() >> 32).expect("an int"))
    }

    fn text(&mut self) -> String {
        const LETTERS: [char; 9] = ['a', 'Z', '"', '\\', '\n', '\u{1}', 'é', '€', '😀'];
        (0..self.small(12))
            .map(|_| LETTERS[self.small(9)])
            .collect()
    }
}

const PRIMITIVES: [&str; 8] = [
    "null", "boolean", "int", "long", "float", "double", "bytes", "string",
];

/// A schema's types, with names that are not used twice.
struct Types<'d> {
    dice: &'d mut Dice,
    names: u32,
}

impl Types<'_> {
    fn name(&mut self) -> String {
        self.names += 1;
        format!("N{}", self.names)
    }

    fn any(&mut self, depth: u8) -> Value {
        match self.dice.small(if depth == 0 { 14 } else { 20 }) {
            place @ 0..8 => json!(PRIMITIVES[place]),
            8 => json!({"type": "long", "logicalType": "timestamp-millis"}),
            9 => json!({"type": "int", "logicalType": "date"}),
            10 => json!({"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 3}),
            11 => json!({"type": "string", "logicalType": "uuid"}),
            12 => json!({"type": "fixed", "name": self.name(), "size": self.dice.small(5)}),
            13 => json!({"type": "enum", "name": self.name(), "symbols": ["A", "B", "Cc"]}),
            14 | 15 => json!({"type": "array", "items": self.any(depth - 1)}),
            16 => json!({"type": "map", "values": self.any(depth - 1)}),
            17 => self.union(depth),
            _ => {
                let name = self.name();
                self.record(&name, depth)
            }
        }
    }

    fn record(&mut self, name: &str, depth: u8) -> Value {
        let fields = (0..self.dice.small(6)).map(|place| {
            let of = self.any(depth.saturating_sub(1));
            let mut field = json!({"name": format!("f{place}"), "type": of});
            if field["type"][0] == "null" && self.dice.small(2) == 0 {
                field["default"] = Value::Null;
            } else if field["type"] == "long" && self.dice.small(2) == 0 {
                field["default"] = json!(7);
            }
            field
        });
        let fields: Vec<Value> = fields.collect();
        json!({"type": "record", "name": name, "fields": fields})
    }

    /// Branches that a value's kind tells apart.
    fn union(&mut self, depth: u8) -> Value {
        let object = if self.dice.small(2) == 0 {
            json!({"type": "map", "values": self.any(depth - 1)})
        } else {
            let name = self.name();
            self.record(&name, depth)
        };
        let array = json!({"type": "array", "items": self.any(depth - 1)});
        let all = [
            json!("null"),
            json!("long"),
            json!("string"),
            json!("boolean"),
            object,
            array,
        ];
        let kept: Vec<Value> = all
            .into_iter()
            .filter(|_| self.dice.small(2) == 0)
            .collect();
        if kept.is_empty() {
            json!(["null"])
        } else {
            json!(kept)
        }
    }
}

fn schema(dice: &mut Dice) -> Value {
    Types { dice, names: 0 }.record("port.cargo.avro.CrateSealed", 4)
}

/// A value that fits the type, and what a reader must get back; none for a bare null.
fn fitting(of: &Value, dice: &mut Dice) -> Option<(Value, Value)> {
    let same = |value: Value| Some((value.clone(), value));
    match (of.as_str(), of["type"].as_str(), of["logicalType"].as_str()) {
        (Some("boolean"), ..) => same(json!(dice.small(2) == 0)),
        (Some("int"), ..) | (_, _, Some("date")) => same(json!(dice.int())),
        (Some("long"), ..) => same(json!(dice.long())),
        // Eighths are kept exactly, by floats too.
        (Some("float" | "double"), ..) => {
            let eighths = i32::try_from(dice.below(1_000_000)).expect("small");
            same(json!(f64::from(eighths) / 8.0))
        }
        (Some("string"), ..) => same(json!(dice.text())),
        (Some("bytes"), _, None) => Some(bytes(usize::from(dice.roll().to_le_bytes()[0]), dice)),
        (_, _, Some("timestamp-millis")) => {
            let micros = dice.long() >> 4;
            let text = json!(Instant(micros).to_string());
            Some((text, json!(micros.div_euclid(1000))))
        }
        (_, _, Some("decimal")) => {
            let thousandths = dice.int() % 1_000_000_000;
            let digits = num_bigint::BigInt::from(thousandths).to_signed_bytes_be();
            let sign = if thousandths < 0 { "-" } else { "" };
            let (whole, rest) = (thousandths.abs() / 1000, thousandths.abs() % 1000);
            let text = format!("{sign}{whole}.{rest:03}");
            Some((json!(text), json!({ "$hex": hex(&digits) })))
        }
        (_, _, Some("uuid")) => {
            let digits = format!("{:016x}{:016x}", dice.roll(), dice.roll());
            let groups = [
                &digits[..8],
                &digits[8..12],
                &digits[12..16],
                &digits[16..20],
                &digits[20..],
            ];
            same(json!(groups.join("-")))
        }
        (_, Some("fixed"), _) => {
            let size = of["size"].as_u64().expect("a size");
            Some(bytes(usize::try_from(size).expect("small"), dice))
        }
        (_, Some("enum"), _) => same(of["symbols"][dice.small(3)].clone()),
        (_, Some("array"), _) => {
            let items: Option<Vec<_>> = (0..dice.small(4))
                .map(|_| fitting(&of["items"], dice))
                .collect();
            let (given, read): (Vec<Value>, Vec<Value>) = items?.into_iter().unzip();
            Some((json!(given), json!(read)))
        }
        (_, Some("map"), _) => object(
            (0..dice.small(4))
                .map(|_| (dice.text(), &of["values"], false))
                .collect(),
            dice,
        ),
        (_, Some("record"), _) => {
            let fields = of["fields"].as_array().expect("fields");
            let members = fields.iter().map(|field| {
                let name = field["name"].as_str().expect("a name").to_owned();
                (name, &field["type"], field.get("default").is_some())
            });
            object(members.collect(), dice)
        }
        _ => match of.as_array() {
            Some(branches) => {
                let branch = &branches[dice.small(u8::try_from(branches.len()).expect("few"))];
                if branch == "null" {
                    same(Value::Null)
                } else {
                    fitting(branch, dice)
                }
            }
            None => None,
        },
    }
}

fn bytes(length: usize, dice: &mut Dice) -> (Value, Value) {
    let bytes: Vec<u8> = (0..length).map(|_| dice.roll().to_le_bytes()[0]).collect();
    let text = base64::engine::general_purpose::STANDARD.encode(&bytes);
    (json!(text), json!({ "$hex": hex(&bytes) }))
}

fn object(members: Vec<(String, &Value, bool)>, dice: &mut Dice) -> Option<(Value, Value)> {
    let (mut given, mut read) = (serde_json::Map::new(), serde_json::Map::new());
    for (name, of, has_default) in members {
        if has_default && dice.small(2) == 0 {
            let default = if of == "long" { json!(7) } else { Value::Null };
            read.insert(name, default);
            continue;
        }
        let (value, back) = fitting(of, dice)?;
        given.insert(name.clone(), value);
        read.insert(name, back);
    }
    Some((Value::Object(given), Value::Object(read)))
}

/// Any JSON, with the names and values that the schemas have.
fn anything(dice: &mut Dice, depth: u8) -> Value {
    match dice.small(if depth == 0 { 8 } else { 12 }) {
        0 => Value::Null,
        1 => json!(dice.small(2) == 0),
        2 => json!(dice.long()),
        3 => json!(f64::from_bits(dice.roll())),
        4 => json!(dice.text()),
        5 => json!("A"),
        6 => json!("2026-06-12T03:22:47Z"),
        7 => json!("AP8Qfw=="),
        8 => (0..dice.small(4))
            .map(|_| anything(dice, depth - 1))
            .collect(),
        _ => {
            let members = (0..dice.small(7)).map(|_| {
                let name = format!("f{}", dice.small(6));
                (name, anything(dice, depth - 1))
            });
            Value::Object(members.collect())
        }
    }
}

fn loaded(schema: &Value) -> Avro {
    let texts = [(std::path::Path::new(FILE), schema.to_string())];
    let texts = texts.each_ref().map(|(file, text)| (*file, text.as_str()));
    Avro::from_texts(&texts, UnknownMembers::Warn).expect("a schema")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn what_fits_is_written_and_another_reader_reads_it_back(seed: u64) {
        let mut dice = Dice(seed);
        let schema = schema(&mut dice);
        if let Some((payload, expected)) = fitting(&schema, &mut dice) {
            let mut avro = loaded(&schema);
            let first = written(&mut avro, &payload.to_string());
            let first = first.unwrap_or_else(|failure| panic!("{schema} {payload}: {failure}"));
            prop_assert_eq!(written(&mut avro, &payload.to_string()), Ok(first.clone()));
            prop_assert_eq!(oracle::decoded(&schema.to_string(), &first), expected, "{}", schema);
        }
    }

    #[test]
    fn any_json_is_written_or_fails_and_what_is_written_is_readable(seed: u64) {
        let mut dice = Dice(seed);
        let schema = schema(&mut dice);
        let payload = anything(&mut dice, 5).to_string();
        let mut avro = loaded(&schema);
        match written(&mut avro, &payload) {
            Ok(bytes) => {
                oracle::decoded(&schema.to_string(), &bytes);
                prop_assert_eq!(written(&mut avro, &payload), Ok(bytes));
            }
            Err(failure) => prop_assert!(failure.starts_with("Failed to encode payload: port.cargo.avro.CrateSealed")),
        }
    }

    #[test]
    fn any_text_as_schema_is_taken_or_refused(seed: u64, places in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4)) {
        let mut text = schema(&mut Dice(seed)).to_string().into_bytes();
        for (place, byte) in places {
            let place = place.index(text.len());
            text[place] = byte & 0x7F;
        }
        let text = String::from_utf8(text).expect("ASCII");
        let _ = Avro::from_texts(&[(std::path::Path::new(FILE), &text)], UnknownMembers::Warn);
    }
}
