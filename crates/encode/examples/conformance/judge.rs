//! What one golden case demands, and whether the encoders do it.

use std::path::Path;

use headwater_core::disposition::{Disposition, classify, skipped};
use headwater_core::event::{Event, Outbox};
use headwater_core::failure::Failure;
use headwater_encode::{Avro, Encoder, Protobuf, SchemaError, UnknownMembers};
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

pub fn judge(case: &Json, base: &Map<String, Json>) -> Verdict {
    if case["applies_to"]
        .as_str()
        .is_some_and(|to| to.contains("connect"))
    {
        return Verdict::ConnectOnly;
    }
    let format = case["format"].as_str().unwrap_or_default();
    let formats: Vec<&str> = match case["encoders"].as_array() {
        Some(encoders) => encoders.iter().filter_map(Json::as_str).collect(),
        None => vec![format],
    };
    let judged: Result<(), String> = formats.iter().try_for_each(|format| {
        let outcome = outcome(case, base, format);
        compare(case, format, &outcome).map_err(|what| format!("{format}: {what}"))
    });
    match judged {
        Ok(()) if formats.is_empty() => Verdict::Failed("it names no encoder".into()),
        Ok(()) => Verdict::Passed,
        Err(what) => Verdict::Failed(what),
    }
}

#[derive(Debug)]
enum Outcome {
    Published {
        value: Vec<u8>,
        payload: Vec<u8>,
        notices: Vec<String>,
    },
    Skipped,
    Failed(String),
}

fn outcome(case: &Json, base: &Map<String, Json>, format: &str) -> Outcome {
    let Some(row) = record::row(case, base) else {
        return Outcome::Skipped;
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
        Disposition::Keep(event) => {
            encoded(&schema(case, format), format, &event).unwrap_or_else(Outcome::Failed)
        }
    }
}

/// The text of the payload's schema.
fn schema(case: &Json, format: &str) -> String {
    let schema = match &case["schema"] {
        Json::Object(both) if case["format"] == "disposition" => &both[format],
        schema => schema,
    };
    match schema {
        Json::String(text) => text.clone(),
        object => object.to_string(),
    }
}

fn encoded(schema: &str, format: &str, event: &Event<'_>) -> Result<Outcome, String> {
    let told = |failure: Failure| failure.to_string();
    let broken = |error: SchemaError| error.to_string();
    let (payload, mut encoder) = if format == "avro" {
        let texts = [(Path::new("case.avsc"), schema)];
        let mut avro = Avro::from_texts(&texts, UnknownMembers::Warn).map_err(broken)?;
        let payload = avro.payload(event).map_err(told)?.to_vec();
        (payload, Encoder::Avro(avro))
    } else {
        let texts = [(Path::new("case.proto"), schema)];
        let mut protobuf = Protobuf::from_texts(&texts, UnknownMembers::Warn).map_err(broken)?;
        let payload = protobuf.payload(event).map_err(told)?.to_vec();
        (payload, Encoder::Protobuf(protobuf))
    };
    Ok(Outcome::Published {
        payload,
        value: encoder.encode(event).map_err(told)?.to_vec(),
        notices: encoder.notices(),
    })
}

fn compare(case: &Json, format: &str, outcome: &Outcome) -> Result<(), String> {
    match case["headwater"].as_str() {
        Some("strict") => strict(case, format, outcome),
        Some("either") if matches!(outcome, Outcome::Failed(_)) => Ok(()),
        Some("same" | "either") => same(case, format, outcome),
        other => Err(format!("headwater is {other:?}, which nobody knows")),
    }
}

fn same(case: &Json, format: &str, outcome: &Outcome) -> Result<(), String> {
    match (case["expect"].as_str(), outcome) {
        (
            Some("ok"),
            Outcome::Published {
                value,
                payload,
                notices,
            },
        ) => {
            equal("payload", &case["expect_payload_hex"], format, payload)?;
            equal("value", &case["expect_value_hex"], format, value)?;
            mentions(&case["expect_warning_mentions"], &notices.join("; "))
        }
        (Some("skip"), Outcome::Skipped) => Ok(()),
        (Some("error"), Outcome::Failed(text)) => {
            mentions(&case["expect_error_mentions"], text)?;
            mentions(&case["expect_cause_mentions"], text)
        }
        (wanted, got) => Err(format!("{wanted:?} is wanted, got {}", told(got))),
    }
}

fn strict(case: &Json, format: &str, outcome: &Outcome) -> Result<(), String> {
    match (case["headwater_expect"].as_str(), outcome) {
        (Some("ok"), Outcome::Published { payload, .. }) => {
            let wanted = &case["headwater_decoded"];
            let got = decoded::payload(format, &schema(case, format), payload)?;
            if wanted.is_null() || *wanted == got {
                Ok(())
            } else {
                Err(format!("{wanted} is wanted, got {got}"))
            }
        }
        (Some("skip"), Outcome::Skipped) => Ok(()),
        (Some("error"), Outcome::Failed(text)) => mentions(&case["headwater_error_mentions"], text),
        (wanted, got) => Err(format!("{wanted:?} is wanted, got {}", told(got))),
    }
}

/// Bytes as a case gives them: one text, or one a format.
fn equal(what: &str, wanted: &Json, format: &str, got: &[u8]) -> Result<(), String> {
    let wanted = match wanted {
        Json::Null => return Ok(()),
        Json::Object(each) => each.get(format).and_then(Json::as_str),
        other => other.as_str(),
    };
    match wanted {
        None => Ok(()),
        Some(wanted) if record::hex(wanted).as_deref() == Some(got) => Ok(()),
        Some(wanted) => Err(format!(
            "{what} {wanted} is wanted, got {}",
            decoded::hex(got)
        )),
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
        Outcome::Published { payload, .. } => format!("a payload {}", decoded::hex(payload)),
        Outcome::Skipped => "a skip".into(),
        Outcome::Failed(text) => format!("a failure: {text}"),
    }
}
