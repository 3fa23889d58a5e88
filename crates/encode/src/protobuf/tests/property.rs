//! Any schema and any payload: nothing panics, what is written can be read back, and twice the same gives the same.

use std::path::Path;

use proptest::collection::{btree_map, vec};
use proptest::prelude::*;
use prost_reflect::prost::Message;
use prost_reflect::{DynamicMessage, MessageDescriptor};
use serde_json::{Value, json};

use super::{event, proto3, proto3_text};
use crate::protobuf::Protobuf;
use crate::protobuf::files::{self, Shelf};

const TYPES: [&str; 30] = [
    "int32",
    "int64",
    "uint32",
    "uint64",
    "sint32",
    "sint64",
    "fixed32",
    "fixed64",
    "sfixed32",
    "sfixed64",
    "bool",
    "string",
    "bytes",
    "float",
    "double",
    "Hazard",
    "Leg",
    "CrateSealed",
    "google.protobuf.Timestamp",
    "google.protobuf.Duration",
    "google.protobuf.FieldMask",
    "google.protobuf.Struct",
    "google.protobuf.Value",
    "google.protobuf.ListValue",
    "google.protobuf.Any",
    "google.protobuf.Empty",
    "google.protobuf.Int32Value",
    "google.protobuf.StringValue",
    "google.protobuf.DoubleValue",
    "google.protobuf.BytesValue",
];
const LABELS: [&str; 4] = ["", "optional", "repeated", "map"];

#[derive(Debug, Clone)]
struct Field {
    label: &'static str,
    declared: &'static str,
    number: u32,
}

fn fields() -> impl Strategy<Value = Vec<Field>> {
    let field = (0..TYPES.len(), 0..LABELS.len());
    let numbers = proptest::sample::subsequence((1..40).collect::<Vec<u32>>(), 1..8).prop_shuffle();
    (numbers, vec(field, 8)).prop_map(|(numbers, kinds)| {
        let fields = numbers.into_iter().zip(kinds);
        fields
            .map(|(number, (declared, label))| Field {
                label: LABELS[label],
                declared: TYPES[declared],
                number,
            })
            .collect()
    })
}

fn body(fields: &[Field]) -> String {
    let declared = |(index, field): (usize, &Field)| {
        let Field {
            label,
            declared,
            number,
        } = field;
        match *label {
            "map" => format!("map<string, {declared}> f_{index} = {number};"),
            label => format!("{label} {declared} f_{index} = {number};"),
        }
    };
    let fields: String = fields.iter().enumerate().map(declared).collect();
    format!(
        "enum Hazard {{ NONE = 0; TOXIC = 4; }}\nmessage Leg {{ string port = 1; Leg next = 2; }}\nmessage CrateSealed {{ {fields} }}"
    )
}

fn descriptor(body: &str) -> MessageDescriptor {
    let text = proto3_text(body);
    let file = Path::new("crate.proto");
    let loaded = files::one(file, &[], &Shelf::memory(&[(file, &text)])).expect("a schema");
    let mut messages = loaded.messages.into_iter();
    messages
        .find(|message| message.name() == "CrateSealed")
        .expect("is there")
}

/// Any JSON; objects often have the names of fields.
fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        "[ -~]{0,8}".prop_map(Value::from),
        "\\PC{0,4}".prop_map(Value::from),
        proptest::sample::select(vec![
            "TOXIC",
            "1s",
            "2026-06-12T03:22:47Z",
            "AAAA",
            "NaN",
            "12",
            "a,b"
        ])
        .prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 40, 6, |inner| {
        let name = prop_oneof!["f_?[0-7]", "port|next|value|@type", "[a-z]{0,3}"];
        prop_oneof![
            vec(inner.clone(), 0..5).prop_map(Value::from),
            btree_map(name, inner, 0..6).prop_map(Value::from_iter),
        ]
    })
}

/// A value of the type in the form that every reader of Protobuf's JSON takes.
fn fitting(declared: &'static str, depth: u32) -> BoxedStrategy<Value> {
    let double = any::<f64>().prop_filter("no zero has a sign here", |n| {
        n.is_finite() && n.to_bits() != (-0.0_f64).to_bits()
    });
    let base64 = |bytes: Vec<u8>| {
        use base64::Engine;
        Value::from(base64::engine::general_purpose::STANDARD.encode(bytes))
    };
    match declared {
        "int32" | "sint32" | "sfixed32" | "google.protobuf.Int32Value" => {
            any::<i32>().prop_map(Value::from).boxed()
        }
        "uint32" | "fixed32" => any::<u32>().prop_map(Value::from).boxed(),
        "int64" | "sint64" | "sfixed64" => any::<i64>().prop_map(|n| json!(n.to_string())).boxed(),
        "uint64" | "fixed64" => any::<u64>().prop_map(Value::from).boxed(),
        "bool" => any::<bool>().prop_map(Value::from).boxed(),
        "string" | "google.protobuf.StringValue" => "\\PC{0,40}".prop_map(Value::from).boxed(),
        "bytes" | "google.protobuf.BytesValue" => vec(any::<u8>(), 0..200).prop_map(base64).boxed(),
        "float" => any::<f32>()
            .prop_filter("finite", |n| n.is_finite() && *n != 0.0)
            .prop_map(|n| json!(f64::from(n)))
            .boxed(),
        "double" | "google.protobuf.DoubleValue" => double.prop_map(Value::from).boxed(),
        "Hazard" => prop_oneof![
            Just(json!("NONE")),
            Just(json!("TOXIC")),
            Just(json!(4)),
            Just(json!(9))
        ]
        .boxed(),
        "google.protobuf.Timestamp" => (
            1_u32..9999,
            1_u32..13,
            1_u32..29,
            0_u32..86_400,
            0_u32..1_000_000_000,
        )
            .prop_map(|(y, m, d, s, n)| {
                json!(format!(
                    "{y:04}-{m:02}-{d:02}T{:02}:{:02}:{:02}.{n:09}Z",
                    s / 3600,
                    s / 60 % 60,
                    s % 60
                ))
            })
            .boxed(),
        "google.protobuf.Duration" => (-300_000_000_000_i64..300_000_000_000, 0_u32..1_000_000_000)
            .prop_map(|(s, n)| json!(format!("{s}.{n:09}s")))
            .boxed(),
        "google.protobuf.FieldMask" => proptest::sample::select(vec!["", "a", "fooBar", "a,b.cD"])
            .prop_map(Value::from)
            .boxed(),
        "google.protobuf.Struct" => btree_map("[a-z]{0,4}", any_json(), 0..4)
            .prop_map(Value::from_iter)
            .boxed(),
        "google.protobuf.Value" => any_json().boxed(),
        "google.protobuf.ListValue" => vec(any_json(), 0..4).prop_map(Value::from).boxed(),
        "Leg" if depth > 0 => ("\\PC{0,90}", fitting("Leg", depth - 1))
            .prop_map(|(port, next)| json!({ "port": port, "next": next }))
            .boxed(),
        _ => Just(json!({})).boxed(),
    }
}

/// A payload for the fields, some of them missing.
fn payload_for(fields: &[Field]) -> BoxedStrategy<Value> {
    let members: Vec<BoxedStrategy<Option<(String, Value)>>> = fields
        .iter()
        .enumerate()
        // prost-reflect does not take an empty Any, and another cannot be written.
        .filter(|(_, field)| field.declared != "google.protobuf.Any")
        .map(|(index, field)| {
            let value = fitting(field.declared, 3);
            let value = match field.label {
                "repeated" => vec(value, 0..5).prop_map(Value::from).boxed(),
                "map" => btree_map("\\PC{0,5}", value, 0..5)
                    .prop_map(Value::from_iter)
                    .boxed(),
                _ => value,
            };
            let name = prop_oneof![Just(format!("f_{index}")), Just(format!("f{index}"))];
            proptest::option::weighted(0.8, (name, value)).boxed()
        })
        .collect();
    members
        .prop_map(|members| members.into_iter().flatten().collect())
        .boxed()
}

fn fields_and_payload() -> impl Strategy<Value = (Vec<Field>, Value)> {
    fields().prop_flat_map(|fields| {
        let payload = payload_for(&fields);
        (Just(fields), payload)
    })
}

fn encoded(encoder: &mut Protobuf, json: &str) -> Result<Vec<u8>, String> {
    let written = encoder.payload(&event("CrateSealed", json));
    written
        .map(<[u8]>::to_vec)
        .map_err(|failure| failure.detail)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn any_payload_is_written_or_fails_the_same_way_twice(fields in fields(), payloads in vec(any_json(), 1..12)) {
        let body = body(&fields);
        let descriptor = descriptor(&body);
        let (mut one, mut other) = (proto3(&body), proto3(&body));
        for payload in payloads {
            let payload = json!({ "f_0": payload, "f1": payload, "f_2": [payload], "f3": { "port": payload }, "f_4": payload }).to_string();
            let first = encoded(&mut one, &payload);
            prop_assert_eq!(&first, &encoded(&mut one, &payload));
            prop_assert_eq!(&first, &encoded(&mut other, &payload));
            match first {
                Ok(bytes) => {
                    let read = DynamicMessage::decode(descriptor.clone(), &*bytes);
                    prop_assert!(read.is_ok_and(|message| message.unknown_fields().next().is_none()));
                }
                Err(told) => prop_assert!(told.starts_with("Failed to encode payload: port.cargo.proto.CrateSealed")),
            }
        }
    }

    #[test]
    fn what_fits_is_written_and_read_back_as_the_same_value((fields, payload) in fields_and_payload()) {
        let body = body(&fields);
        let descriptor = descriptor(&body);
        let text = payload.to_string();
        let bytes = encoded(&mut proto3(&body), &text).map_err(TestCaseError::fail)?;
        // Not from the text: serde_json does not round its doubles to the nearest.
        let wanted = DynamicMessage::deserialize(descriptor.clone(), payload);
        let wanted = wanted.map_err(|e| TestCaseError::fail(format!("{e}: {text}")))?;
        // On the wire, so that a list or map that was given, and is empty, counts as absent.
        let wanted = wanted.encode_to_vec();
        let read = |bytes: &[u8]| DynamicMessage::decode(descriptor.clone(), bytes);
        let (read, wanted) = (read(&bytes), read(&wanted));
        prop_assert!(read.is_ok() && read == wanted, "{}\n{:?}\n{:?}", text, read.map(|read| read.fields().count()), wanted.map(|read| read.fields().count()));
    }

    #[test]
    fn any_text_is_a_payload_or_fails(text in "\\PC*", body in "[\\[\\]{}:,;=>\"'#/*a-c0-9 .\\\\u+-]{0,40}") {
        let mut encoder = proto3("message CrateSealed { string a = 1; repeated double b = 2; google.protobuf.Value c = 3; }");
        let _ = encoded(&mut encoder, &text);
        let _ = encoded(&mut encoder, &format!("{{{body}}}"));
        let _ = encoded(&mut encoder, &format!("{{c:{body}}}"));
    }

    #[test]
    fn any_schema_text_is_a_schema_or_refused(text in "[a-z0-9 ={};<>,.\"]{0,80}") {
        let text = format!("syntax = \"proto3\"; package a.proto; message A {{ {text} }}");
        let _ = Protobuf::from_texts(&[(Path::new("a.proto"), &text)], crate::notice::UnknownMembers::Warn);
    }
}
