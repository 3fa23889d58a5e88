//! The rows of the benchmark: payloads as PostgreSQL's jsonb prints them, and schemas for them.

use apache_avro::types::Value as Avro;
use bytes::Bytes;
use headwater_core::event::{Event, Flag, Text};
use prost_reflect::{DynamicMessage, MessageDescriptor, Value as Protobuf};

pub const AVRO_ENVELOPE: &str = include_str!("../../../../schemas/action_event.avsc");
pub const PROTOBUF_ENVELOPE: &str = include_str!("../../../../schemas/action_event.proto");
pub const ENVELOPE_NAME: &str = "io.ekbatan.events.streaming.actionevent.protobuf.ActionEvent";
pub const NAME_PROTOBUF: &str = "shop.orders.proto.OrderPlaced";

pub const EMPTY_AVRO: &str =
    r#"{"type": "record", "name": "OrderPlaced", "namespace": "shop.orders.avro", "fields": []}"#;
pub const EMPTY_PROTOBUF: &str =
    r#"syntax = "proto3"; package shop.orders.proto; message OrderPlaced {}"#;

/// 450 bytes with what every library's generic path can do.
pub const PLAIN: &str = concat!(
    r#"{"gift": false, "lines": [{"sku": "TEA-0451", "name": "Assam, second flush", "count": 3, "price": 1249}, "#,
    r#"{"sku": "CUP-0007", "name": "Cup with saucer", "count": 12, "price": 899}], "state": "PLACED", "#,
    r#""modelId": "7b1f9f5e-4b0c-4c88-9d58-0c7b6f1f3a11", "buyer": {"id": 90071992, "name": "Ada Lovelace", "#,
    r#""city": "Ockham", "mail": "ada@example.org"}, "weight": 3.25, "coupon": null, "modelName": "Order", "#,
    r#""placedAt": 1781234567450789, "reference": "2026-06-12/000451"}"#
);

pub const PLAIN_AVRO: &str = r#"{"type": "record", "name": "OrderPlaced", "namespace": "shop.orders.avro", "fields": [
    {"name": "modelId", "type": "string"},
    {"name": "modelName", "type": "string"},
    {"name": "reference", "type": "string"},
    {"name": "placedAt", "type": "long"},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["DRAFT", "PLACED", "SENT"]}},
    {"name": "gift", "type": "boolean"},
    {"name": "weight", "type": "double"},
    {"name": "coupon", "type": ["null", "string"], "default": null},
    {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"},
        {"name": "mail", "type": ["null", "string"], "default": null}, {"name": "city", "type": "string"}]}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"}, {"name": "name", "type": "string"},
        {"name": "count", "type": "int"}, {"name": "price", "type": "long"}]}}}]}"#;

pub const PLAIN_PROTOBUF: &str = r#"syntax = "proto3";
package shop.orders.proto;
enum State { DRAFT = 0; PLACED = 1; SENT = 2; }
message Buyer { int64 id = 1; string name = 2; optional string mail = 3; string city = 4; }
message Line { string sku = 1; string name = 2; int32 count = 3; int64 price = 4; }
message OrderPlaced {
  string model_id = 1; string model_name = 2; string reference = 3; int64 placed_at = 4; State state = 5;
  bool gift = 6; double weight = 7; optional string coupon = 8; Buyer buyer = 9; repeated Line lines = 10;
}"#;

/// 450 bytes with dates as text and money as numbers, as Jackson writes them.
pub const RICH: &str = concat!(
    r#"{"gift": false, "lines": [{"sku": "TEA-0451", "name": "Assam, second flush", "count": 3, "price": 12.49}, "#,
    r#"{"sku": "CUP-0007", "name": "Cup with saucer", "count": 12, "price": 8.99}], "state": "PLACED", "total": 145.35, "#,
    r#""modelId": "7b1f9f5e-4b0c-4c88-9d58-0c7b6f1f3a11", "buyer": {"id": 90071992, "name": "Ada Lovelace", "#,
    r#""city": "Ockham"}, "coupon": null, "modelName": "Order", "labels": {"channel": "web"}, "#,
    r#""placedAt": "2026-06-12T03:22:47.450789Z", "reference": "2026-06-12/000451"}"#
);

pub const RICH_AVRO: &str = r#"{"type": "record", "name": "OrderPlaced", "namespace": "shop.orders.avro", "fields": [
    {"name": "modelId", "type": {"type": "string", "logicalType": "uuid"}},
    {"name": "modelName", "type": "string"},
    {"name": "reference", "type": "string"},
    {"name": "placedAt", "type": {"type": "long", "logicalType": "timestamp-micros"}},
    {"name": "total", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}},
    {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["DRAFT", "PLACED", "SENT"]}},
    {"name": "gift", "type": "boolean"},
    {"name": "labels", "type": {"type": "map", "values": "string"}},
    {"name": "coupon", "type": ["null", "string"], "default": null},
    {"name": "buyer", "type": {"type": "record", "name": "Buyer", "fields": [
        {"name": "id", "type": "long"}, {"name": "name", "type": "string"}, {"name": "city", "type": "string"}]}},
    {"name": "lines", "type": {"type": "array", "items": {"type": "record", "name": "Line", "fields": [
        {"name": "sku", "type": "string"}, {"name": "name", "type": "string"}, {"name": "count", "type": "int"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 18, "scale": 2}}]}}}]}"#;

pub const RICH_PROTOBUF: &str = r#"syntax = "proto3";
package shop.orders.proto;
import "google/protobuf/timestamp.proto";
enum State { DRAFT = 0; PLACED = 1; SENT = 2; }
message Buyer { int64 id = 1; string name = 2; string city = 3; }
message Line { string sku = 1; string name = 2; int32 count = 3; string price = 4; }
message OrderPlaced {
  string model_id = 1; string model_name = 2; string reference = 3; google.protobuf.Timestamp placed_at = 4;
  string total = 5; State state = 6; bool gift = 7; map<string, string> labels = 8; optional string coupon = 9;
  Buyer buyer = 10; repeated Line lines = 11;
}"#;

pub fn event(payload: &str) -> Event<'_> {
    Event {
        id: Text::Plain("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a"),
        namespace: Text::Plain("shop.orders"),
        action_id: Text::Plain("9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5"),
        action_name: Text::Plain("PlaceOrderAction"),
        action_params: Text::Plain(r#"{"cart": "c-4410", "coupon": null}"#),
        started_date: 1_781_234_567_000_123,
        completion_date: 1_781_234_567_450_789,
        model_id: Some(Text::Plain("7b1f9f5e-4b0c-4c88-9d58-0c7b6f1f3a11")),
        model_type: Some(Text::Plain("Order")),
        event_type: Text::Plain("OrderPlaced"),
        payload: Text::Plain(payload),
        event_date: 1_781_234_567_450_789,
        delivered: Flag::Bool(false),
    }
}

/// JSON as apache-avro's values, to be resolved against a schema.
pub fn avro_value(json: serde_json::Value) -> Avro {
    match json {
        serde_json::Value::Null => Avro::Null,
        serde_json::Value::Bool(bool) => Avro::Boolean(bool),
        serde_json::Value::Number(number) => match number.as_i64() {
            Some(whole) => Avro::Long(whole),
            None => Avro::Double(number.as_f64().expect("a number")),
        },
        serde_json::Value::String(text) => Avro::String(text),
        serde_json::Value::Array(values) => {
            Avro::Array(values.into_iter().map(avro_value).collect())
        }
        serde_json::Value::Object(members) => {
            let member = |(name, value)| (name, avro_value(value));
            Avro::Map(members.into_iter().map(member).collect())
        }
    }
}

/// The envelope as a value of apache-avro's generic path, with an empty payload.
pub fn avro_envelope(event: &Event<'_>) -> Avro {
    let text = |text: &Text<'_>| Avro::String(text.to_string());
    let optional = |value: Option<Avro>| match value {
        Some(value) => Avro::Union(1, Box::new(value)),
        None => Avro::Union(0, Box::new(Avro::Null)),
    };
    let field = |name: &str, value: Avro| (name.to_owned(), value);
    Avro::Record(vec![
        field("id", text(&event.id)),
        field("namespace", text(&event.namespace)),
        field("action_id", text(&event.action_id)),
        field("action_name", text(&event.action_name)),
        field("action_params", text(&event.action_params)),
        field("started_date", Avro::TimestampMicros(event.started_date)),
        field(
            "completion_date",
            Avro::TimestampMicros(event.completion_date),
        ),
        field("model_id", optional(event.model_id.as_ref().map(text))),
        field("model_type", optional(event.model_type.as_ref().map(text))),
        field("event_type", optional(Some(text(&event.event_type)))),
        field("payload", optional(Some(Avro::Bytes(vec![0; 10])))),
        field("event_date", Avro::TimestampMicros(event.event_date)),
        field("delivered", Avro::Boolean(event.delivered.is_set())),
    ])
}

/// The envelope as a dynamic message, with an empty payload.
pub fn protobuf_envelope(message: &MessageDescriptor, event: &Event<'_>) -> DynamicMessage {
    let mut envelope = DynamicMessage::new(message.clone());
    let timestamp = |micros: i64| {
        let of = message
            .parent_pool()
            .get_message_by_name("google.protobuf.Timestamp");
        let mut timestamp = DynamicMessage::new(of.expect("a well-known type"));
        timestamp.set_field_by_name("seconds", Protobuf::I64(micros.div_euclid(1_000_000)));
        let nanos = i32::try_from(micros.rem_euclid(1_000_000) * 1000).expect("below 1e9");
        timestamp.set_field_by_name("nanos", Protobuf::I32(nanos));
        Protobuf::Message(timestamp)
    };
    for (name, text) in [
        ("id", Some(&event.id)),
        ("namespace", Some(&event.namespace)),
        ("action_id", Some(&event.action_id)),
        ("action_name", Some(&event.action_name)),
        ("action_params", Some(&event.action_params)),
        ("model_id", event.model_id.as_ref()),
        ("model_type", event.model_type.as_ref()),
        ("event_type", Some(&event.event_type)),
    ] {
        if let Some(text) = text {
            envelope.set_field_by_name(name, Protobuf::String(text.to_string()));
        }
    }
    for (name, micros) in [
        ("started_date", event.started_date),
        ("completion_date", event.completion_date),
        ("event_date", event.event_date),
    ] {
        envelope.set_field_by_name(name, timestamp(micros));
    }
    envelope.set_field_by_name("payload", Protobuf::Bytes(Bytes::new()));
    envelope.set_field_by_name("delivered", Protobuf::Bool(event.delivered.is_set()));
    envelope
}
