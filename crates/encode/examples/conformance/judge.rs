//! What one golden case demands, and whether the encoders do it.

use std::collections::HashMap;
use std::ops::Deref;
use std::path::Path;

use headwater_core::disposition::{Disposition, classify, skipped};
use headwater_core::event::{Event, Outbox};
use headwater_core::failure::Failure;
use headwater_encode::{Avro, Encoder, Protobuf, SchemaError, UnknownMembers};
use serde::Deserialize;
use serde_json::value::RawValue;
use serde_json::{Map, Value as Json};

use super::{decoded, record};

/// Settings of the reference, and what they are called here.
const OUR_NAMES: [(&str, &str); 5] = [
    ("table.include.list", "source.table"),
    ("payload.schemas", "encode.schemas"),
    ("payload.descriptors", "encode.schemas"),
    ("action.event.schema", "encode.envelope"),
    ("action.event.descriptor", "encode.envelope"),
];

#[derive(Debug, PartialEq, Eq)]
pub enum Verdict {
    Passed,
    Failed(String),
    /// It describes something that only Kafka Connect can show.
    ConnectOnly,
}

/// Judges a case, given as it stands in its file.
pub fn judge(line: &str, base: &Map<String, Json>) -> Verdict {
    let case = match Case::read(line) {
        Ok(case) => case,
        Err(error) => return Verdict::Failed(error.to_string()),
    };
    let applies_to = case["applies_to"].as_str().unwrap_or("any");
    let is_strange = applies_to != "any" && !record::is_known(&case["record"]);
    if applies_to.contains("connect") || is_strange {
        return Verdict::ConnectOnly;
    }
    let format = case["format"].as_str().unwrap_or_default();
    let formats: Vec<&str> = match case["encoders"].as_array() {
        Some(encoders) => encoders.iter().filter_map(Json::as_str).collect(),
        None => vec![format],
    };
    let judged: Result<(), String> = formats.iter().try_for_each(|format| {
        let outcome = outcome(&case, base, format);
        compare(&case, format, &outcome).map_err(|what| format!("{format}: {what}"))
    });
    match judged {
        Ok(()) if formats.is_empty() => Verdict::Failed("it names no encoder".into()),
        Ok(()) => Verdict::Passed,
        Err(what) => Verdict::Failed(what),
    }
}

/// A case, and its schemas with every character that they have there: the order of members and the digits of numbers
/// matter in defaults.
struct Case<'l> {
    json: Json,
    schema: Option<&'l RawValue>,
}

impl<'l> Case<'l> {
    fn read(line: &'l str) -> serde_json::Result<Case<'l>> {
        #[derive(Deserialize)]
        struct Raw<'l> {
            #[serde(borrow)]
            schema: Option<&'l RawValue>,
        }
        Ok(Case {
            json: serde_json::from_str(line)?,
            schema: serde_json::from_str::<Raw<'l>>(line)?.schema,
        })
    }

    /// The text of the payload's schema: an object is one itself.
    fn schema(&self, format: &str) -> String {
        let Some(mut raw) = self.schema else {
            return String::new();
        };
        if self["format"] == "disposition" {
            let both: HashMap<&str, &RawValue> =
                serde_json::from_str(raw.get()).unwrap_or_default();
            raw = both.get(format).copied().unwrap_or(raw);
        }
        serde_json::from_str(raw.get()).unwrap_or_else(|_| raw.get().to_owned())
    }
}

impl Deref for Case<'_> {
    type Target = Json;

    fn deref(&self) -> &Json {
        &self.json
    }
}

#[derive(Debug)]
enum Outcome {
    Published(Published),
    Skipped,
    Failed(String),
    /// It could not be judged.
    Unknown(String),
}

#[derive(Debug)]
struct Published {
    value: Vec<u8>,
    payload: Vec<u8>,
    /// Of the payload's schema.
    name: String,
    notices: Vec<String>,
}

fn outcome(case: &Case<'_>, base: &Map<String, Json>, format: &str) -> Outcome {
    let row = match record::row(case, base) {
        Ok(Some(row)) => row,
        Ok(None) => return Outcome::Skipped,
        Err(what) => return Outcome::Unknown(what),
    };
    if skipped(row.change).is_some() {
        return Outcome::Skipped;
    }
    let roles = match Outbox::ekbatan().bind(&row.table) {
        Ok(roles) => roles,
        Err(missing) => return Outcome::Failed(missing.to_string()),
    };
    match classify(&row, &roles) {
        Disposition::Skip(_) => Outcome::Skipped,
        Disposition::Fail(failure) => Outcome::Failed(failure.to_string()),
        Disposition::Keep(event) => encoded(&case.schema(format), format, &event),
    }
}

fn encoded(schema: &str, format: &str, event: &Event<'_>) -> Outcome {
    let encoder = match encoder(schema, format) {
        Ok(encoder) => encoder,
        Err(what) => return Outcome::Unknown(what),
    };
    match published(encoder, event) {
        Ok(published) => Outcome::Published(published),
        Err(failure) => Outcome::Failed(failure.to_string()),
    }
}

fn encoder(schema: &str, format: &str) -> Result<Encoder, String> {
    let broken = |error: SchemaError| format!("the case's schema is not taken: {error}");
    match format {
        "avro" => Avro::from_texts(&[(Path::new("case.avsc"), schema)], UnknownMembers::Warn)
            .map(Encoder::Avro)
            .map_err(broken),
        "protobuf" => {
            Protobuf::from_texts(&[(Path::new("case.proto"), schema)], UnknownMembers::Warn)
                .map(Encoder::Protobuf)
                .map_err(broken)
        }
        other => Err(format!("no encoder is called {other:?}")),
    }
}

fn published(mut encoder: Encoder, event: &Event<'_>) -> Result<Published, Failure> {
    let (payload, middle) = match &mut encoder {
        Encoder::Avro(avro) => (avro.payload(event)?.to_vec(), "avro"),
        Encoder::Protobuf(protobuf) => (protobuf.payload(event)?.to_vec(), "proto"),
        Encoder::Json(_) => (Vec::new(), "json"),
    };
    Ok(Published {
        payload,
        name: format!("{}.{middle}.{}", &*event.namespace, &*event.event_type),
        value: encoder.encode(event)?.to_vec(),
        notices: encoder.notices(),
    })
}

fn compare(case: &Case<'_>, format: &str, outcome: &Outcome) -> Result<(), String> {
    match case["headwater"].as_str() {
        Some("strict") => strict(case, format, outcome),
        Some("either") if matches!(outcome, Outcome::Failed(_)) => Ok(()),
        Some("same" | "either") => same(case, format, outcome),
        other => Err(format!("headwater is {other:?}, which nobody knows")),
    }
}

fn same(case: &Case<'_>, format: &str, outcome: &Outcome) -> Result<(), String> {
    match (case["expect"].as_str(), outcome) {
        (Some("ok"), Outcome::Published(published)) => {
            let bytes = [("payload", &published.payload), ("value", &published.value)];
            let bytes =
                bytes.map(|(what, got)| (case.get(format!("expect_{what}_hex")), what, got));
            for (wanted, what, got) in &bytes {
                if let Some(wanted) = wanted {
                    equal(what, wanted, format, got)?;
                }
            }
            if bytes.iter().all(|(wanted, ..)| wanted.is_none()) {
                read_back(case, &case["expect_decoded"], format, published)?;
            }
            mentions(
                &case["expect_warning_mentions"],
                &published.notices.join("; "),
            )
        }
        (Some("skip"), Outcome::Skipped) => Ok(()),
        (Some("error"), Outcome::Failed(text)) => {
            mentions(&case["expect_error_mentions"], text)?;
            mentions(&case["expect_cause_mentions"], text)
        }
        (wanted, got) => Err(format!("{wanted:?} is wanted, got {}", told(got))),
    }
}

fn strict(case: &Case<'_>, format: &str, outcome: &Outcome) -> Result<(), String> {
    match (case["headwater_expect"].as_str(), outcome) {
        (Some("ok"), Outcome::Published(published)) => {
            read_back(case, &case["headwater_decoded"], format, published)
        }
        (Some("skip"), Outcome::Skipped) => Ok(()),
        (Some("error"), Outcome::Failed(text)) => mentions(&case["headwater_error_mentions"], text),
        (wanted, got) => Err(format!("{wanted:?} is wanted, got {}", told(got))),
    }
}

/// What another library reads is what the case says, if it says anything: about the payload, or in a disposition about the
/// whole value of each format.
fn read_back(
    case: &Case<'_>,
    wanted: &Json,
    format: &str,
    published: &Published,
) -> Result<(), String> {
    let (wanted, got) = if case["format"] == "disposition" {
        let wanted = wanted.get(format).unwrap_or(wanted);
        (wanted, decoded::value(format, &published.value)?)
    } else {
        let (schema, name) = (case.schema(format), &published.name);
        let got = decoded::payload(format, &schema, name, &published.payload)?;
        (wanted, got)
    };
    if wanted.is_null() || *wanted == got {
        Ok(())
    } else {
        Err(format!("{wanted} is wanted, got {got}"))
    }
}

/// Bytes as a case gives them: one text, or one a format.
fn equal(what: &str, wanted: &Json, format: &str, got: &[u8]) -> Result<(), String> {
    let wanted = match wanted {
        Json::Object(each) => each.get(format).unwrap_or(&Json::Null),
        text => text,
    };
    match wanted.as_str() {
        Some(wanted) if record::hex(wanted).as_deref() == Some(got) => Ok(()),
        Some(wanted) => Err(format!(
            "{what} {wanted} is wanted, got {}",
            decoded::hex(got)
        )),
        None => Err(format!("the case does not say which {what} is wanted")),
    }
}

fn mentions(words: &Json, text: &str) -> Result<(), String> {
    let words = words.as_array().map(Vec::as_slice).unwrap_or_default();
    for word in words.iter().filter_map(Json::as_str) {
        let ours = OUR_NAMES.iter().find(|(theirs, _)| *theirs == word);
        let word = ours.map_or(word, |(_, ours)| *ours);
        if !text.contains(word) {
            return Err(format!("{word:?} is not said: {text}"));
        }
    }
    Ok(())
}

fn told(outcome: &Outcome) -> String {
    match outcome {
        Outcome::Published(published) => {
            format!("a payload {}", decoded::hex(&published.payload))
        }
        Outcome::Skipped => "a skip".into(),
        Outcome::Failed(text) => format!("a failure: {text}"),
        Outcome::Unknown(what) => format!("nothing: {what}"),
    }
}
