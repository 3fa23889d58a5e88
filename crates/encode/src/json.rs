//! An event as one JSON object: the 13 columns in table order.

use std::io::Write;

use headwater_core::event::{Event, Flag, Role};
use headwater_core::failure::{Failure, Kind};
use headwater_core::instant::Instant;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

/// How a row becomes JSON.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum JsonStyle {
    /// Payload and parameters as JSON, dates as ISO-8601 text.
    Embedded,
    /// As Debezium and Ekbatan's router write it: payload and parameters as text, dates as microseconds.
    Debezium,
}

#[derive(Debug)]
pub struct Json {
    style: JsonStyle,
    buffer: Vec<u8>,
}

impl Json {
    pub fn new(style: JsonStyle) -> Json {
        Json {
            style,
            buffer: Vec::new(),
        }
    }

    pub(crate) fn encode(&mut self, event: &Event<'_>) -> Result<&[u8], Failure> {
        check_event_type(&event.event_type)?;
        check_object(&event.payload)?;
        let object = Object::open(&mut self.buffer);
        match self.style {
            JsonStyle::Embedded => {
                check_json(&event.action_params)?;
                embedded(object, event);
            }
            JsonStyle::Debezium => debezium(object, event),
        }
        Ok(&self.buffer)
    }
}

fn embedded(mut object: Object<'_>, event: &Event<'_>) {
    object.text(Role::Id, &event.id);
    object.text(Role::Namespace, &event.namespace);
    object.text(Role::ActionId, &event.action_id);
    object.text(Role::ActionName, &event.action_name);
    object.raw(Role::ActionParams, &event.action_params);
    object.date(Role::StartedDate, event.started_date);
    object.date(Role::CompletionDate, event.completion_date);
    object.optional_text(Role::ModelId, event.model_id.as_deref());
    object.optional_text(Role::ModelType, event.model_type.as_deref());
    object.text(Role::EventType, &event.event_type);
    object.raw(Role::Payload, &event.payload);
    object.date(Role::EventDate, event.event_date);
    object.raw(Role::Delivered, boolean(event.delivered.is_set()));
    object.close();
}

/// Parameters and payload are text like any other: what they hold cannot break the message.
fn debezium(mut object: Object<'_>, event: &Event<'_>) {
    object.jackson_text(Role::Id, &event.id);
    object.jackson_text(Role::Namespace, &event.namespace);
    object.jackson_text(Role::ActionId, &event.action_id);
    object.jackson_text(Role::ActionName, &event.action_name);
    object.jackson_text(Role::ActionParams, &event.action_params);
    object.number(Role::StartedDate, event.started_date);
    object.number(Role::CompletionDate, event.completion_date);
    object.optional_jackson_text(Role::ModelId, event.model_id.as_deref());
    object.optional_jackson_text(Role::ModelType, event.model_type.as_deref());
    object.jackson_text(Role::EventType, &event.event_type);
    object.jackson_text(Role::Payload, &event.payload);
    object.number(Role::EventDate, event.event_date);
    match event.delivered {
        Flag::Bool(delivered) => object.raw(Role::Delivered, boolean(delivered)),
        Flag::Number(delivered) => object.number(Role::Delivered, delivered),
    }
    object.close();
}

fn boolean(value: bool) -> &'static str {
    if value { "true" } else { "false" }
}

/// An object under way in a buffer. Writing to a `Vec` cannot fail, so its results are not looked at.
struct Object<'b> {
    buffer: &'b mut Vec<u8>,
    separator: u8,
}

impl<'b> Object<'b> {
    fn open(buffer: &'b mut Vec<u8>) -> Object<'b> {
        buffer.clear();
        Object {
            buffer,
            separator: b'{',
        }
    }

    fn name(&mut self, role: Role) {
        self.buffer.push(self.separator);
        self.separator = b',';
        self.buffer.push(b'"');
        self.buffer.extend_from_slice(role.name().as_bytes());
        self.buffer.extend_from_slice(b"\":");
    }

    fn raw(&mut self, role: Role, json: &str) {
        self.name(role);
        self.buffer.extend_from_slice(json.as_bytes());
    }

    fn text(&mut self, role: Role, text: &str) {
        self.name(role);
        let _ = serde_json::to_writer(&mut *self.buffer, text);
    }

    fn optional_text(&mut self, role: Role, text: Option<&str>) {
        match text {
            Some(text) => self.text(role, text),
            None => self.raw(role, "null"),
        }
    }

    fn date(&mut self, role: Role, micros: i64) {
        self.name(role);
        let _ = write!(self.buffer, "\"{}\"", Instant(micros));
    }

    fn number(&mut self, role: Role, number: i64) {
        self.name(role);
        let _ = write!(self.buffer, "{number}");
    }

    fn jackson_text(&mut self, role: Role, text: &str) {
        self.name(role);
        self.buffer.push(b'"');
        let mut copied = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.buffer.extend_from_slice(&text.as_bytes()[copied..at]);
            copied = at + 1;
            self.jackson_escape(byte);
        }
        self.buffer.extend_from_slice(&text.as_bytes()[copied..]);
        self.buffer.push(b'"');
    }

    /// As Jackson escapes what must be escaped: it has hexadecimal digits in upper case.
    fn jackson_escape(&mut self, byte: u8) {
        let letter = match byte {
            b'"' | b'\\' => byte,
            0x08 => b'b',
            b'\t' => b't',
            b'\n' => b'n',
            0x0C => b'f',
            b'\r' => b'r',
            control => {
                let _ = write!(self.buffer, "\\u{control:04X}");
                return;
            }
        };
        self.buffer.extend_from_slice(&[b'\\', letter]);
    }

    fn optional_jackson_text(&mut self, role: Role, text: Option<&str>) {
        match text {
            Some(text) => self.jackson_text(role, text),
            None => self.raw(role, "null"),
        }
    }

    fn close(self) {
        self.buffer.push(b'}');
    }
}

/// Where there is a schema it would not be found; without one the consumers cannot tell the event either.
fn check_event_type(event_type: &str) -> Result<(), Failure> {
    if event_type.is_empty() {
        let what = "column event_type is empty, and consumers tell events by it";
        return Err(Failure::new(Kind::UnknownType, what));
    }
    Ok(())
}

/// A payload is an object, in every format; what is embedded must not be able to break the message around it.
fn check_object(payload: &str) -> Result<(), Failure> {
    let fail =
        |e: serde_json::Error| Failure::bad_payload(format!("payload is not a JSON object: {e}"));
    let mut json = serde_json::Deserializer::from_str(payload);
    json.deserialize_map(AnyObject).map_err(fail)?;
    json.end().map_err(fail)
}

fn check_json(params: &str) -> Result<(), Failure> {
    let fail =
        |e: serde_json::Error| Failure::bad_payload(format!("action_params is not JSON: {e}"));
    let mut json = serde_json::Deserializer::from_str(params);
    IgnoredAny::deserialize(&mut json).map_err(fail)?;
    json.end().map_err(fail)
}

struct AnyObject;

impl<'de> Visitor<'de> for AnyObject {
    type Value = ();

    fn expecting(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::event::Text;
    use proptest::prelude::*;

    use super::*;

    fn event<'r>(payload: &'r str, action_params: &'r str, name: &'r str) -> Event<'r> {
        Event {
            id: Text::Plain("3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a"),
            namespace: Text::Plain("port.cargo"),
            action_id: Text::Plain("9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5"),
            action_name: Text::Plain(name),
            action_params: Text::Plain(action_params),
            started_date: 1_781_234_567_000_123,
            completion_date: 1_781_234_567_450_789,
            model_id: Some(Text::Plain("crate-4410")),
            model_type: None,
            event_type: Text::Plain("CrateSealed"),
            payload: Text::Plain(payload),
            event_date: 1_781_234_567_450_789,
            delivered: Flag::Bool(false),
        }
    }

    #[test]
    fn thirteen_columns_in_table_order_with_the_json_columns_embedded() {
        let mut json = Json::new(JsonStyle::Embedded);
        let bytes = json
            .encode(&event(
                "{\"amount\": 77.10}",
                "{\"dock\": 12}",
                "Seal \"it\"",
            ))
            .expect("encodes");
        let expected = concat!(
            r#"{"id":"3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a","namespace":"port.cargo","#,
            r#""action_id":"9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5","action_name":"Seal \"it\"","#,
            r#""action_params":{"dock": 12},"started_date":"2026-06-12T03:22:47.000123Z","#,
            r#""completion_date":"2026-06-12T03:22:47.450789Z","model_id":"crate-4410","model_type":null,"#,
            r#""event_type":"CrateSealed","payload":{"amount": 77.10},"#,
            r#""event_date":"2026-06-12T03:22:47.450789Z","delivered":false}"#,
        );
        assert_eq!(std::str::from_utf8(bytes), Ok(expected));
    }

    #[test]
    fn debezium_style_is_what_ekbatans_router_publishes() {
        let mut json = Json::new(JsonStyle::Debezium);
        let bytes = json
            .encode(&event(
                "{\"amount\": 77.10, \"note\": \"a\\n\\\"b\\\" \u{20ac}\"}",
                "{\"dock\": 12}",
                "Seal \"it\"",
            ))
            .expect("encodes");
        let expected = concat!(
            r#"{"id":"3f0a9b62-7c1d-4e58-a6b4-0d9e8f7c6b5a","namespace":"port.cargo","#,
            r#""action_id":"9d2e4c70-51b8-4f3a-8c6d-e7f1a2b3c4d5","action_name":"Seal \"it\"","#,
            r#""action_params":"{\"dock\": 12}","started_date":1781234567000123,"#,
            r#""completion_date":1781234567450789,"model_id":"crate-4410","model_type":null,"#,
            r#""event_type":"CrateSealed","#,
            r#""payload":"{\"amount\": 77.10, \"note\": \"a\\n\\\"b\\\" €\"}","#,
            r#""event_date":1781234567450789,"delivered":false}"#,
        );
        assert_eq!(std::str::from_utf8(bytes), Ok(expected));
    }

    #[test]
    fn debezium_style_has_delivered_and_dates_as_the_database_has_them() {
        let mut json = Json::new(JsonStyle::Debezium);
        for (delivered, says) in [
            (Flag::Bool(true), "\"delivered\":true}"),
            (Flag::Number(1), "\"delivered\":1}"),
            (Flag::Number(0), "\"delivered\":0}"),
        ] {
            let event = Event {
                delivered,
                event_date: -1,
                ..event("{}", "{}", "n")
            };
            let text = String::from_utf8_lossy(json.encode(&event).expect("encodes")).into_owned();
            assert!(text.ends_with(says), "{text}");
            assert!(text.contains("\"event_date\":-1,"), "{text}");
        }
    }

    #[test]
    fn debezium_style_escapes_as_jackson_does() {
        let mut json = Json::new(JsonStyle::Debezium);
        let name = "\u{0}\u{1}\u{8}\t\n\u{b}\u{c}\r\u{1f}\"\\/\u{7f}\u{e9}\u{2028}\u{1f600}";
        let bytes = json.encode(&event("{}", "{}", name)).expect("encodes");
        let text = String::from_utf8_lossy(bytes);
        let expected = concat!(
            r#""action_name":"\u0000\u0001\b\t\n\u000B\f\r\u001F\"\\/"#,
            "\u{7f}\u{e9}\u{2028}\u{1f600}\","
        );
        assert!(text.contains(expected), "{text}");
    }

    #[test]
    fn debezium_style_refuses_the_payloads_that_every_format_refuses() {
        for payload in ["null", "[1]", "7", ""] {
            let failure = Json::new(JsonStyle::Debezium)
                .encode(&event(payload, "{}", "n"))
                .expect_err(payload);
            assert!(
                failure.detail.starts_with("payload is not a JSON object: "),
                "{failure}"
            );
        }
    }

    #[test]
    fn an_empty_event_type_fails_in_both_styles() {
        for style in [JsonStyle::Embedded, JsonStyle::Debezium] {
            let event = Event {
                event_type: Text::Plain(""),
                ..event("{}", "{}", "n")
            };
            let failure = Json::new(style).encode(&event).expect_err("no type");
            assert_eq!(failure.kind, Kind::UnknownType);
            assert!(
                failure.detail.contains("column event_type is empty"),
                "{failure}"
            );
        }
    }

    #[test]
    fn a_payload_that_is_not_one_json_object_fails() {
        for payload in [
            "null",
            "[1]",
            "7",
            "\"x\"",
            "",
            "{",
            "{} {}",
            "{\"a\":1}x",
            "{'a':1}",
            "{\"a\":}",
        ] {
            let failure = Json::new(JsonStyle::Embedded)
                .encode(&event(payload, "{}", "n"))
                .expect_err(payload);
            assert!(
                failure.detail.starts_with("payload is not a JSON object: "),
                "{failure}"
            );
        }
    }

    #[test]
    fn action_params_may_be_any_json_but_nothing_else() {
        for params in ["{}", "[1,2]", "null", "1.50"] {
            assert!(
                Json::new(JsonStyle::Embedded)
                    .encode(&event("{}", params, "n"))
                    .is_ok()
            );
        }
        let failure = Json::new(JsonStyle::Embedded)
            .encode(&event("{}", "1,\"evil\":2", "n"))
            .expect_err("two values");
        assert!(
            failure.detail.starts_with("action_params is not JSON: "),
            "{failure}"
        );
    }

    #[test]
    fn a_payload_of_a_hundred_thousand_levels_does_not_overflow_the_stack() {
        let deep = format!("{{\"a\":{}{}}}", "[".repeat(100_000), "]".repeat(100_000));
        let mut json = Json::new(JsonStyle::Embedded);
        let bytes = json.encode(&event(&deep, "{}", "n")).expect("is JSON");
        assert!(bytes.len() > 200_000);
    }

    proptest! {
        #[test]
        fn whatever_encodes_is_json_and_encodes_the_same_twice(name in ".*", payload in "\\PC*") {
            let mut json = Json::new(JsonStyle::Embedded);
            let object = serde_json::json!({ "text": payload }).to_string();
            let first = json.encode(&event(&object, "{}", &name)).expect("encodes").to_vec();
            let second = json.encode(&event(&object, "{}", &name)).expect("encodes");
            prop_assert_eq!(&first, &second);
            let value: serde_json::Value = serde_json::from_slice(&first).expect("is JSON");
            prop_assert_eq!(&value["action_name"], &serde_json::Value::from(name));
            prop_assert_eq!(&value["payload"]["text"], &serde_json::Value::from(payload));
        }

        #[test]
        fn whatever_debezium_style_writes_holds_the_texts_verbatim(name in ".*", params in ".*") {
            let mut json = Json::new(JsonStyle::Debezium);
            let bytes = json.encode(&event("{}", &params, &name)).expect("encodes");
            let value: serde_json::Value = serde_json::from_slice(bytes).expect("is JSON");
            prop_assert_eq!(&value["action_name"], &serde_json::Value::from(name));
            prop_assert_eq!(&value["action_params"], &serde_json::Value::from(params));
        }

        #[test]
        fn any_payload_text_encodes_or_fails(payload in "\\PC*") {
            let _ = Json::new(JsonStyle::Embedded).encode(&event(&payload, "{}", "n"));
        }
    }
}
