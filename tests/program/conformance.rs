//! The golden cases of the wire contract, judged by the same judge as the conformance program.

#[path = "../../crates/encode/examples/conformance/decoded.rs"]
mod decoded;
#[path = "../../crates/encode/examples/conformance/judge.rs"]
mod judge;
#[path = "../../crates/encode/examples/conformance/record.rs"]
mod record;

use std::path::Path;

use judge::{Verdict, judge};
use serde_json::{Map, Value as Json};

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

fn cases() -> Vec<Json> {
    let cases = fixture("cases.jsonl");
    let case = |line: &str| serde_json::from_str(line).expect(line);
    cases.lines().map(case).collect()
}

#[test]
fn every_golden_case_holds() {
    let (cases, base) = (cases(), base_row());
    let judged: Vec<(&str, Verdict)> = cases
        .iter()
        .map(|case| (case["id"].as_str().expect("an id"), judge(case, &base)))
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
    let find = |id: &str| cases().into_iter().find(|case| case["id"] == id).expect(id);
    let with = |id: &str, key: &str, value: Json| {
        let mut case = find(id);
        case[key] = value;
        judge(&case, &base)
    };
    for (id, key, value) in [
        ("A001-string", "expect_payload_hex", "00".into()),
        ("A001-string", "expect", "error".into()),
        (
            "A001-string",
            "expect_warning_mentions",
            serde_json::json!(["colour"]),
        ),
        (
            "A004-string-from-number",
            "expect_error_mentions",
            serde_json::json!(["nowhere"]),
        ),
        ("A004-string-from-number", "expect", "ok".into()),
        (
            "A121-decimal-number-goes-through-double",
            "headwater_decoded",
            serde_json::json!({ "qty": 1 }),
        ),
        (
            "P046-enum-unknown-name-dropped",
            "headwater_expect",
            "ok".into(),
        ),
        (
            "D001-insert-pg",
            "expect_value_hex",
            serde_json::json!({ "protobuf": "00" }),
        ),
        ("D007-update", "expect", "ok".into()),
        ("D027-sentinel", "expect", "error".into()),
    ] {
        let verdict = with(id, key, value);
        assert!(
            matches!(verdict, Verdict::Failed(_)),
            "{id} with another {key}: {verdict:?}"
        );
    }
    assert_eq!(
        with("D001-insert-pg", "applies_to", "connect".into()),
        Verdict::ConnectOnly
    );
}
