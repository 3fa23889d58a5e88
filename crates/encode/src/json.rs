//! An event as one JSON object: the 13 columns in table order.

use std::io::Write;

use headwater_core::band::ShortId;
use headwater_core::event::{Event, Flag, Role};
use headwater_core::failure::{Failure, Kind};
use headwater_core::instant::Instant;

use crate::buffer;
use crate::document::{self, Document, Limits, Value};

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
    document: Document,
    buffer: Vec<u8>,
}

impl Json {
    pub fn new(style: JsonStyle) -> Json {
        Json {
            style,
            document: Document::new(),
            buffer: Vec::new(),
        }
    }

    pub(crate) fn encode(&mut self, event: &Event<'_>) -> Result<&[u8], Failure> {
        check_event_type(&event.event_type)?;
        check_object(&mut self.document, &event.payload)?;
        if self.style == JsonStyle::Embedded {
            check_json(&mut self.document, &event.action_params)?;
        }
        let mut object = Object::open(self.style, &mut self.buffer);
        object.text(Role::Id, &event.id);
        object.text(Role::Namespace, &event.namespace);
        object.text(Role::ActionId, &event.action_id);
        object.text(Role::ActionName, &event.action_name);
        object.json(Role::ActionParams, &event.action_params);
        object.date(Role::StartedDate, event.started_date);
        object.date(Role::CompletionDate, event.completion_date);
        object.optional_text(Role::ModelId, event.model_id.as_deref());
        object.optional_text(Role::ModelType, event.model_type.as_deref());
        object.text(Role::EventType, &event.event_type);
        object.json(Role::Payload, &event.payload);
        object.date(Role::EventDate, event.event_date);
        object.flag(Role::Delivered, event.delivered);
        object.close();
        Ok(&self.buffer)
    }
}

/// Reading back.
impl Json {
    /// The id and the date of an event that was written in either style; none of other bytes.
    pub(crate) fn identify(&mut self, value: &[u8]) -> Option<(ShortId, i64)> {
        let text = std::str::from_utf8(value).ok()?;
        let value = self.document.read_whole(text, &Limits::EMBEDDED).ok()??;
        let object = Some(value).filter(|it| it.kind() == document::Kind::Object)?;
        let (mut id, mut date) = (None, None);
        for (name, value) in object.members() {
            match name.plain() {
                Some(name) if name == Role::Id.name() => {
                    id = Some(ShortId::of(&value.text()?.to_str().ok()?));
                }
                Some(name) if name == Role::EventDate.name() => {
                    date = match (value.number(), value.text()) {
                        (Some(micros), _) => micros.parse().ok(),
                        (None, Some(text)) => text.plain()?.parse().ok().map(|Instant(it)| it),
                        (None, None) => None,
                    };
                }
                _ => {}
            }
        }
        Some((id?, date?))
    }
}

/// An object under way in a buffer. Writing to a `Vec` cannot fail, so its results are not looked at.
struct Object<'b> {
    style: JsonStyle,
    buffer: &'b mut Vec<u8>,
    separator: u8,
}

impl<'b> Object<'b> {
    fn open(style: JsonStyle, buffer: &'b mut Vec<u8>) -> Object<'b> {
        buffer::empty(buffer);
        Object {
            style,
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

    /// A column that holds JSON. As text it is like any other: what it holds cannot break the message.
    fn json(&mut self, role: Role, json: &str) {
        match self.style {
            JsonStyle::Embedded => self.raw(role, json),
            JsonStyle::Debezium => self.text(role, json),
        }
    }

    fn date(&mut self, role: Role, micros: i64) {
        self.name(role);
        let _ = match self.style {
            JsonStyle::Embedded => write!(self.buffer, "\"{}\"", Instant(micros)),
            JsonStyle::Debezium => write!(self.buffer, "{micros}"),
        };
    }

    fn flag(&mut self, role: Role, flag: Flag) {
        match (self.style, flag) {
            (JsonStyle::Debezium, Flag::Number(number)) => {
                self.name(role);
                let _ = write!(self.buffer, "{number}");
            }
            (_, flag) => self.raw(role, if flag.is_set() { "true" } else { "false" }),
        }
    }

    fn optional_text(&mut self, role: Role, text: Option<&str>) {
        match text {
            Some(text) => self.text(role, text),
            None => self.raw(role, "null"),
        }
    }

    fn text(&mut self, role: Role, text: &str) {
        self.name(role);
        self.buffer.push(b'"');
        let mut copied = 0;
        for (at, byte) in text.bytes().enumerate() {
            if byte >= b' ' && byte != b'"' && byte != b'\\' {
                continue;
            }
            self.buffer.extend_from_slice(&text.as_bytes()[copied..at]);
            copied = at + 1;
            self.escape(byte);
        }
        self.buffer.extend_from_slice(&text.as_bytes()[copied..]);
        self.buffer.push(b'"');
    }

    /// As Jackson escapes what must be escaped: it has hexadecimal digits in upper case.
    fn escape(&mut self, byte: u8) {
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
fn check_object(document: &mut Document, payload: &str) -> Result<(), Failure> {
    match one_value(document, payload).map(Value::kind) {
        Ok(document::Kind::Object) => Ok(()),
        Ok(kind) => Err(format!("it is {kind}")),
        Err(what) => Err(what),
    }
    .map_err(|what| Failure::bad_payload(format!("payload is not a JSON object: {what}")))
}

fn check_json(document: &mut Document, params: &str) -> Result<(), Failure> {
    match one_value(document, params) {
        Ok(_) => Ok(()),
        Err(what) => Err(Failure::bad_payload(format!(
            "action_params is not JSON: {what}"
        ))),
    }
}

/// The text is one value, and nothing else is in it.
fn one_value<'d>(document: &'d mut Document, text: &'d str) -> Result<Value<'d>, String> {
    match document.read_whole(text, &Limits::REFERENCE) {
        Ok(Some(value)) => Ok(value),
        Ok(None) => Err("it is empty".to_owned()),
        Err(malformed) => Err(malformed.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use headwater_core::event::Text;
    use proptest::prelude::*;

    use super::*;
    use crate::tests;

    fn event<'r>(payload: &'r str, action_params: &'r str, name: &'r str) -> Event<'r> {
        Event {
            action_name: Text::Plain(name),
            action_params: Text::Plain(action_params),
            model_type: None,
            ..tests::event(payload)
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
    fn a_thousand_levels_are_written_and_a_hundred_thousand_fail_as_in_every_format() {
        let deep = |levels: usize| format!("{}1{}", "[".repeat(levels), "]".repeat(levels));
        for style in [JsonStyle::Embedded, JsonStyle::Debezium] {
            let mut json = Json::new(style);
            let fits = format!("{{\"a\":{}}}", deep(999));
            assert!(json.encode(&event(&fits, &deep(1000), "n")).is_ok());
            let payload = format!("{{\"a\":{}}}", deep(100_000));
            let failure = json.encode(&event(&payload, "{}", "n"));
            let failure = failure.expect_err("too deep").detail;
            assert!(failure.contains("deeper than 1000 levels"), "{failure}");
        }
        let params = deep(100_000);
        let failure = Json::new(JsonStyle::Embedded)
            .encode(&event("{}", &params, "n"))
            .expect_err("too deep")
            .detail;
        assert!(failure.contains("action_params is not JSON"), "{failure}");
        assert!(failure.contains("deeper than 1000 levels"), "{failure}");
    }

    #[test]
    fn a_failure_never_shows_a_payload() {
        let secret = "hush".repeat(10_000);
        for payload in [
            format!("\"{secret}\""),
            format!("[\"{secret}\"]"),
            format!("{{\"a\":\"{secret}\""),
            format!("{{\"a\":{secret}}}"),
            format!("{{}}{secret}"),
            format!("{{\"{secret}\"}}"),
        ] {
            let text = event(&payload, "{}", "n");
            let failure = Json::new(JsonStyle::Embedded)
                .encode(&text)
                .expect_err("bad");
            let params = event("{}", &payload, "n");
            let mut json = Json::new(JsonStyle::Embedded);
            let other = json.encode(&params).err();
            for failure in [Some(failure), other].into_iter().flatten() {
                assert!(!failure.detail.contains("hush"), "{failure}");
                assert!(failure.detail.len() < 200, "{failure}");
            }
        }
    }

    #[test]
    fn the_room_of_a_huge_row_is_given_back() {
        let mut json = Json::new(JsonStyle::Embedded);
        let huge = format!("{{\"a\":\"{}\"}}", "x".repeat(3 * buffer::KEPT));
        json.encode(&event(&huge, "{}", "n")).expect("encodes");
        json.encode(&event("{}", "{}", "n")).expect("encodes");
        assert!(json.buffer.capacity() <= buffer::KEPT);
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
