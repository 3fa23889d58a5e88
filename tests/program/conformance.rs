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
}
