//! Another reader of what was written: apache-avro.

use apache_avro::reader::datum::GenericDatumReader;
use apache_avro::types::Value;

/// What apache-avro reads with the schema; nothing may be left over.
pub fn decoded(schema: &str, bytes: &[u8]) -> serde_json::Value {
    let schema = apache_avro::Schema::parse_str(schema).expect("a schema");
    let reader = GenericDatumReader::builder(&schema)
        .build()
        .expect("a reader");
    let mut rest = bytes;
    let value = reader.read_value(&mut rest).expect("reads");
    assert!(rest.is_empty(), "bytes are left over");
    json(&value)
}

fn bytes(bytes: &[u8]) -> serde_json::Value {
    serde_json::json!({ "$hex": super::hex(bytes) })
}

fn json(value: &Value) -> serde_json::Value {
    match value {
        Value::Null => serde_json::Value::Null,
        Value::Boolean(value) => (*value).into(),
        Value::Int(value) | Value::Date(value) | Value::TimeMillis(value) => (*value).into(),
        Value::Long(value)
        | Value::TimeMicros(value)
        | Value::TimestampMillis(value)
        | Value::TimestampMicros(value)
        | Value::TimestampNanos(value)
        | Value::LocalTimestampMillis(value)
        | Value::LocalTimestampMicros(value)
        | Value::LocalTimestampNanos(value) => (*value).into(),
        Value::Float(value) => f64::from(*value).into(),
        Value::Double(value) => (*value).into(),
        Value::String(value) | Value::Enum(_, value) => value.as_str().into(),
        Value::Uuid(value) => value.to_string().into(),
        Value::Bytes(value) | Value::Fixed(_, value) => bytes(value),
        Value::Decimal(value) => bytes(&Vec::try_from(value).expect("bytes")),
        Value::Array(items) => items.iter().map(json).collect(),
        Value::Map(entries) => {
            let entries = entries
                .iter()
                .map(|(name, value)| (name.clone(), json(value)));
            serde_json::Value::Object(entries.collect())
        }
        Value::Record(fields) => {
            let fields = fields
                .iter()
                .map(|(name, value)| (name.clone(), json(value)));
            serde_json::Value::Object(fields.collect())
        }
        Value::Union(_, value) => json(value),
        Value::Duration(value) => bytes(&<[u8; 12]>::from(*value)),
        Value::BigDecimal(_) => panic!("no schema of these tests has one"),
    }
}
