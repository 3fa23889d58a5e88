//! An event as one JSON object: the 13 columns in table order, payload and parameters embedded as JSON.

use std::io::Write;

use bytes::Bytes;
use headwater_core::event::{Event, Role};
use headwater_core::failure::Failure;
use headwater_core::instant::Instant;
use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, Visitor};

#[derive(Debug, Default)]
pub struct Json {
    buffer: Vec<u8>,
}

impl Json {
    pub fn new() -> Json {
        Json::default()
    }

    pub(crate) fn encode(&mut self, event: &Event<'_>) -> Result<Bytes, Failure> {
        check_object(&event.payload)?;
        check_json(&event.action_params)?;
        let mut object = Object::open(&mut self.buffer);
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
        object.raw(
            Role::Delivered,
            if event.delivered { "true" } else { "false" },
        );
        object.close();
        Ok(Bytes::copy_from_slice(&self.buffer))
    }
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

    fn close(self) {
        self.buffer.push(b'}');
    }
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
            delivered: false,
        }
    }

    #[test]
    fn thirteen_columns_in_table_order_with_the_json_columns_embedded() {
        let bytes = Json::new()
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
        assert_eq!(std::str::from_utf8(&bytes), Ok(expected));
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
            let failure = Json::new()
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
            assert!(Json::new().encode(&event("{}", params, "n")).is_ok());
        }
        let failure = Json::new()
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
        let bytes = Json::new()
            .encode(&event(&deep, "{}", "n"))
            .expect("is JSON");
        assert!(bytes.len() > 200_000);
    }

    proptest! {
        #[test]
        fn whatever_encodes_is_json_and_encodes_the_same_twice(name in ".*", payload in "\\PC*") {
            let mut json = Json::new();
            let object = serde_json::json!({ "text": payload }).to_string();
            let first = json.encode(&event(&object, "{}", &name)).expect("encodes");
            let second = json.encode(&event(&object, "{}", &name)).expect("encodes");
            prop_assert_eq!(&first, &second);
            let value: serde_json::Value = serde_json::from_slice(&first).expect("is JSON");
            prop_assert_eq!(&value["action_name"], &serde_json::Value::from(name));
            prop_assert_eq!(&value["payload"]["text"], &serde_json::Value::from(payload));
        }

        #[test]
        fn any_payload_text_encodes_or_fails(payload in "\\PC*") {
            let _ = Json::new().encode(&event(&payload, "{}", "n"));
        }
    }
}
