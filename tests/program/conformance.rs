//! The golden cases of the wire contract, judged by the same judge as the conformance program.

#[path = "../../crates/encode/examples/conformance/decoded.rs"]
mod decoded;
#[path = "../../crates/encode/examples/conformance/judge.rs"]
mod judge;
#[path = "../../crates/encode/examples/conformance/record.rs"]
mod record;

use std::path::Path;

use judge::{Verdict, judge};
use serde_json::{Map, Value as Json, json};

const CASES: usize = 211;
/// Cases that only Kafka Connect can show.
const CONNECT_ONLY: usize = 0;

fn fixture(name: &str) -> String {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/fixtures/contract");
    std::fs::read_to_string(folder.join(name)).expect(name)
}

fn base_row() -> Map<String, Json> {
    serde_json::from_str(&fixture("base_row.json")).expect("a row")
}

fn id(case: &str) -> String {
    let case: Json = serde_json::from_str(case).expect("a case");
    case["id"].as_str().expect("an id").to_owned()
}

#[test]
fn every_golden_case_holds() {
    let (cases, base) = (fixture("cases.jsonl"), base_row());
    let judged: Vec<(String, Verdict)> = cases
        .lines()
        .map(|case| (id(case), judge(case, &base)))
        .collect();
    let failed: Vec<String> = judged
        .iter()
        .filter_map(|(id, verdict)| match verdict {
            Verdict::Failed(what) => Some(format!("{id}: {what}")),
            _ => None,
        })
        .collect();
    assert!(
        failed.is_empty(),
        "{} failed:\n{}",
        failed.len(),
        failed.join("\n")
    );
    let connect_only = judged
        .iter()
        .filter(|(_, verdict)| *verdict == Verdict::ConnectOnly);
    assert_eq!((judged.len(), connect_only.count()), (CASES, CONNECT_ONLY));
}

#[test]
fn the_judge_finds_each_kind_of_difference() {
    let base = base_row();
    let find = |id: &str| -> Json {
        let cases = fixture("cases.jsonl");
        let line = cases.lines().find(|line| self::id(line) == id).expect(id);
        serde_json::from_str(line).expect("a case")
    };
    let with = |id: &str, key: &str, value: Json| {
        let mut case = find(id);
        case[key] = value;
        judge(&case.to_string(), &base)
    };
    for (id, key, value) in [
        ("A001-string", "expect_payload_hex", "00".into()),
        ("A001-string", "expect", "error".into()),
        ("A001-string", "expect_warning_mentions", json!(["colour"])),
        (
            "A004-string-from-number",
            "expect_error_mentions",
            json!(["nowhere"]),
        ),
        ("A004-string-from-number", "expect", "ok".into()),
        (
            "A121-decimal-number-goes-through-double",
            "headwater_decoded",
            json!({ "qty": 1 }),
        ),
        (
            "P046-enum-unknown-name-dropped",
            "headwater_expect",
            "ok".into(),
        ),
        (
            "D001-insert-pg",
            "expect_value_hex",
            json!({ "protobuf": "00" }),
        ),
        ("D007-update", "expect", "ok".into()),
        ("D027-sentinel", "expect", "error".into()),
        // What cannot be judged has not passed.
        (
            "A004-string-from-number",
            "schema",
            json!({ "type": "wrong" }),
        ),
        ("A001-string", "expect_payload_hex", json!(7)),
        (
            "D001-insert-pg",
            "expect_value_hex",
            json!({ "avro": "00" }),
        ),
        ("A001-string", "format", "xml".into()),
        ("A001-string", "headwater", "perhaps".into()),
        ("D007-update", "record", json!({ "shape": "unheard-of" })),
    ] {
        let verdict = with(id, key, value);
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "{id} with another {key}: {verdict:?}"
        );
    }
    // Without bytes, what a reader gets is compared.
    let mut decoded = find("A001-string");
    decoded
        .as_object_mut()
        .expect("a case")
        .remove("expect_payload_hex");
    assert_eq!(judge(&decoded.to_string(), &base), Verdict::Passed);
    decoded["expect_decoded"] = json!({ "qty": "another" });
    assert!(matches!(
        judge(&decoded.to_string(), &base),
        Verdict::Failed(_)
    ));
    assert_eq!(
        with("D001-insert-pg", "applies_to", "connect".into()),
        Verdict::ConnectOnly
    );
    let mut foreign = find("D007-update");
    foreign["record"] = json!({ "shape": "heartbeat" });
    foreign["applies_to"] = "reference".into();
    assert_eq!(judge(&foreign.to_string(), &base), Verdict::ConnectOnly);
}

#[test]
fn without_bytes_a_case_is_judged_by_what_a_reader_gets() {
    let (cases, base) = (fixture("cases.jsonl"), base_row());
    let mut judged = 0;
    for line in cases.lines() {
        let mut case: Json = serde_json::from_str(line).expect("a case");
        if case["expect"] != "ok" || case["headwater"] == "strict" {
            continue;
        }
        let keys = case.as_object_mut().expect("a case");
        keys.retain(|key, _| !key.ends_with("_hex"));
        let verdict = judge(&case.to_string(), &base);
        assert_eq!(verdict, Verdict::Passed, "{}", id(line));
        case["expect_decoded"] = json!({ "qty": "another" });
        let verdict = judge(&case.to_string(), &base);
        assert!(matches!(verdict, Verdict::Failed(_)), "{}", id(line));
        judged += 1;
    }
    assert_eq!(judged, 113);
}

#[test]
fn a_date_is_judged_in_the_unit_that_its_case_names() {
    let (cases, base) = (fixture("cases.jsonl"), base_row());
    let first = |line: &&str| id(line) == "D001-insert-pg";
    let line = cases.lines().find(first).expect("is there");
    let judged = |date: Json, unit: &str, micros: i64| {
        let mut case: Json = serde_json::from_str(line).expect("a case");
        let keys = case.as_object_mut().expect("a case");
        keys.retain(|key, _| !key.ends_with("_hex"));
        case["encoders"] = json!(["avro"]);
        case["row"]["event_date"] = date;
        case["record"]["column_types"] =
            json!({ "event_date": { "type": "INT64", "logical_name": unit } });
        case["expect_decoded"]["avro"]["event_date"] = micros.into();
        judge(&case.to_string(), &base)
    };
    for (date, unit, micros) in [
        (
            json!(1_781_234_567_450_i64),
            "Timestamp",
            1_781_234_567_450_000,
        ),
        (json!(-1), "NanoTimestamp", 0),
        (json!(-1), "MicroTimestamp", -1),
        (json!(2), "Date", 172_800_000_000),
        (json!("1970-01-01T00:00:00Z"), "ZonedTimestamp", 0),
        (
            json!("1970-01-01T01:30:00.1234567+02:00"),
            "ZonedTimestamp",
            -1_799_876_544,
        ),
        (
            json!("1969-12-31T22:00:00-01:30"),
            "ZonedTimestamp",
            -1_800_000_000,
        ),
    ] {
        let unit = format!("io.debezium.time.{unit}");
        let verdict = judged(date.clone(), &unit, micros);
        assert_eq!(verdict, Verdict::Passed, "{date} in {unit}");
    }
    for date in ["yesterday", "1970-01-01T00:00:00", "1970-02-30T00:00:00Z"] {
        let verdict = judged(date.into(), "io.debezium.time.ZonedTimestamp", 0);
        assert!(matches!(verdict, Verdict::Failed(_)), "{date}");
    }
}
