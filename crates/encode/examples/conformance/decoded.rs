//! What a reader gets back, by libraries that are not ours: apache-avro and prost-reflect.

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value as Avro;
use prost_reflect::{DescriptorPool, DynamicMessage, MapKey, Value as Protobuf};
use serde_json::{Map, Value as Json, json};

const AVRO_ENVELOPE: &str = include_str!("../../../../schemas/action_event.avsc");
const PROTOBUF_ENVELOPE: &str = include_str!("../../../../schemas/action_event.proto");

/// A payload as JSON, in the form in which cases give it; `name` is its schema's.
pub fn payload(format: &str, schema: &str, name: &str, bytes: &[u8]) -> Result<Json, String> {
    if format == "avro" {
        from_avro(schema, bytes)
    } else {
        from_protobuf(schema, name, bytes)
    }
}

/// A whole value.
pub fn value(format: &str, bytes: &[u8]) -> Result<Json, String> {
    let name = "io.ekbatan.events.streaming.actionevent.protobuf.ActionEvent";
    let schema = if format == "avro" {
        AVRO_ENVELOPE
    } else {
        PROTOBUF_ENVELOPE
    };
    payload(format, schema, name, bytes)
}

pub fn hex(bytes: &[u8]) -> String {
    let digit = |half: u8| char::from_digit(half.into(), 16);
    let digits = |byte: &u8| [digit(byte >> 4), digit(byte & 15)];
    bytes.iter().flat_map(digits).flatten().collect()
}

fn from_avro(schema: &str, bytes: &[u8]) -> Result<Json, String> {
    let mut schema: Json = serde_json::from_str(schema).map_err(|e| e.to_string())?;
    without_logical_types(&mut schema);
    let schema = apache_avro::Schema::parse(&schema).map_err(|e| e.to_string())?;
    let reader = GenericDatumReader::builder(&schema).build();
    let reader = reader.map_err(|error| error.to_string())?;
    let mut datum = bytes.get(10..).ok_or("shorter than its header")?;
    let value = reader
        .read_value(&mut datum)
        .map_err(|error| error.to_string())?;
    if datum.is_empty() {
        Ok(avro(value))
    } else {
        Err(format!("{} bytes are left over", datum.len()))
    }
}

/// Cases give what is on the wire, not what a logical type makes of it.
fn without_logical_types(schema: &mut Json) {
    match schema {
        Json::Object(object) => {
            object.remove("logicalType");
            object.values_mut().for_each(without_logical_types);
        }
        Json::Array(array) => array.iter_mut().for_each(without_logical_types),
        _ => {}
    }
}

fn avro(value: Avro) -> Json {
    match value {
        Avro::Boolean(bool) => bool.into(),
        Avro::Int(number) => number.into(),
        Avro::Long(number) => number.into(),
        Avro::Float(number) => float(f64::from(number)),
        Avro::Double(number) => float(number),
        Avro::Bytes(bytes) | Avro::Fixed(_, bytes) => json!({ "$hex": hex(&bytes) }),
        Avro::String(text) | Avro::Enum(_, text) => text.into(),
        Avro::Union(_, value) => avro(*value),
        Avro::Array(values) => values.into_iter().map(avro).collect(),
        Avro::Map(entries) => object(entries.into_iter()),
        Avro::Record(fields) => object(fields.into_iter()),
        _ => Json::Null,
    }
}

fn object(members: impl Iterator<Item = (String, Avro)>) -> Json {
    Json::Object(members.map(|(name, value)| (name, avro(value))).collect())
}

fn float(number: f64) -> Json {
    if number.is_finite() {
        number.into()
    } else if number.is_nan() {
        "NaN".into()
    } else {
        format!("{number}").replace("inf", "Infinity").into()
    }
}

fn from_protobuf(schema: &str, name: &str, bytes: &[u8]) -> Result<Json, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let file = folder.path().join("case.proto");
    std::fs::write(&file, schema).map_err(|error| error.to_string())?;
    let files = protox::compile([&file], [folder.path()]).map_err(|error| error.to_string())?;
    let pool = DescriptorPool::from_file_descriptor_set(files).map_err(|e| e.to_string())?;
    let message = pool.get_message_by_name(name);
    let message = message.ok_or_else(|| format!("the case's schema has no message {name}"))?;
    let decoded = DynamicMessage::decode(message, bytes).map_err(|error| error.to_string())?;
    Ok(message_of(&decoded))
}

fn message_of(message: &DynamicMessage) -> Json {
    let field = |(field, value): (prost_reflect::FieldDescriptor, &Protobuf)| {
        (field.name().to_owned(), protobuf(value, &field))
    };
    Json::Object(message.fields().map(field).collect::<Map<_, _>>())
}

fn protobuf(value: &Protobuf, field: &prost_reflect::FieldDescriptor) -> Json {
    match value {
        Protobuf::Bool(bool) => (*bool).into(),
        Protobuf::I32(number) => (*number).into(),
        Protobuf::I64(number) => (*number).into(),
        Protobuf::U32(number) => (*number).into(),
        Protobuf::U64(number) => (*number).into(),
        Protobuf::F32(number) => float(f64::from(*number)),
        Protobuf::F64(number) => float(*number),
        Protobuf::String(text) => text.as_str().into(),
        Protobuf::Bytes(bytes) => json!({ "$hex": hex(bytes) }),
        Protobuf::EnumNumber(number) => match field.kind() {
            prost_reflect::Kind::Enum(names) => match names.get_value(*number) {
                Some(value) => value.name().into(),
                None => (*number).into(),
            },
            _ => (*number).into(),
        },
        Protobuf::Message(message) => message_of(message),
        Protobuf::List(values) => values.iter().map(|value| protobuf(value, field)).collect(),
        Protobuf::Map(entries) => {
            let entry = |(key, value): (&MapKey, &Protobuf)| (key_of(key), of_map(value, field));
            Json::Object(entries.iter().map(entry).collect())
        }
    }
}

fn of_map(value: &Protobuf, field: &prost_reflect::FieldDescriptor) -> Json {
    match field.kind() {
        prost_reflect::Kind::Message(entry) => protobuf(value, &entry.map_entry_value_field()),
        _ => Json::Null,
    }
}

fn key_of(key: &MapKey) -> String {
    match key {
        MapKey::Bool(bool) => bool.to_string(),
        MapKey::I32(number) => number.to_string(),
        MapKey::I64(number) => number.to_string(),
        MapKey::U32(number) => number.to_string(),
        MapKey::U64(number) => number.to_string(),
        MapKey::String(text) => text.clone(),
    }
}
