//! From stored bytes to a position record, or why they are none.

use headwater_core::positions::{FORMAT, Record};
use serde_json::Value;

/// One sentence about bytes that are not a record of this pipeline.
pub(crate) fn read(bytes: &[u8], name: &str) -> Result<Record, String> {
    let value: Value =
        serde_json::from_slice(bytes).map_err(|e| format!("it is not JSON ({e})"))?;
    // A newer layout may not parse as ours at all, so its number is looked at first.
    match value.get("format").and_then(Value::as_u64) {
        Some(format) if format > u64::from(FORMAT) => {
            let by = value.get("headwater").and_then(Value::as_str);
            return Err(format!(
                "it was written by a newer Headwater (version {}, record format {format}; this one reads up to {FORMAT})",
                by.unwrap_or("unknown")
            ));
        }
        Some(_) => {}
        None => return Err("it has no record format".into()),
    }
    let record: Record =
        serde_json::from_value(value).map_err(|e| format!("it is not a position record ({e})"))?;
    if record.name != name {
        return Err(format!(
            "it belongs to the pipeline \"{}\", not to \"{name}\"",
            record.name
        ));
    }
    Ok(record)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = r#"{"format":1,"name":"shop","run":3,"source":{"system":"7"},"position":"0/1",
        "written_at":"2026-01-01T00:00:00Z","headwater":"0.1.0"}"#;

    #[test]
    fn a_record_is_read_back() {
        let record = read(GOOD.as_bytes(), "shop").unwrap();
        assert_eq!((record.run, record.event_time), (3, None));
    }

    #[test]
    fn a_record_of_a_newer_layout_names_its_writer() {
        let why = read(br#"{"format":2,"headwater":"9.9","lanes":[]}"#, "shop").unwrap_err();
        assert!(why.contains("newer Headwater (version 9.9"), "{why}");
    }

    #[test]
    fn a_record_of_another_pipeline_is_not_ours() {
        let why = read(GOOD.as_bytes(), "till").unwrap_err();
        assert!(why.contains("\"shop\", not to \"till\""), "{why}");
    }

    #[test]
    fn what_is_no_record_is_said_to_be_none() {
        for (bytes, part) in [
            ("", "not JSON"),
            ("{\"format\":1", "not JSON"),
            ("{}", "no record format"),
            ("{\"format\":1,\"name\":\"shop\"}", "not a position record"),
        ] {
            let why = read(bytes.as_bytes(), "shop").unwrap_err();
            assert!(why.contains(part), "{bytes}: {why}");
        }
    }
}
