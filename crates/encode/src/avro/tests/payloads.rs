//! Single rules of the payload encoder that no golden case shows.

use std::path::Path;

use super::{FILE, avro, event, hex, one_field, oracle, written};
use crate::{Avro, UnknownMembers};

fn field(field_type: &str, value: &str) -> Result<String, String> {
    let mut avro = avro(&one_field(field_type));
    let bytes = written(&mut avro, &format!("{{\"qty\":{value}}}"));
    bytes.map(|bytes| hex(&bytes))
}

fn decimal(precision: u32, scale: u32) -> String {
    format!(r#"{{"type":"bytes","logicalType":"decimal","precision":{precision},"scale":{scale}}}"#)
}

#[test]
fn whole_numbers_are_taken_however_they_are_written_and_fractions_never() {
    assert_eq!(field("\"int\"", "8.0"), Ok("10".into()));
    assert_eq!(
        field("\"long\"", "9.223372036854775807E18"),
        Ok("feffffffffffffffff01".into())
    );
    assert_eq!(
        field("\"long\"", "9223372036854775807.0"),
        Ok("feffffffffffffffff01".into())
    );
    for (of, value, words) in [
        ("\"long\"", "9.3e18", "fits in a long"),
        ("\"int\"", "2147483648.0", "fits in an int"),
        ("\"int\"", "1e-1", "fits in an int"),
        ("\"long\"", "1e999", "fits in a long"),
    ] {
        let failure = field(of, value).expect_err(value);
        assert!(
            failure.contains(words) && failure.contains(value),
            "{failure}"
        );
    }
}

#[test]
fn the_edge_of_a_floats_range_is_kept_and_beyond_it_fails() {
    assert_eq!(field("\"float\"", "3.4028235e38"), Ok("ffff7f7f".into()));
    assert_eq!(
        field("\"double\"", "1.7976931348623157e308"),
        Ok("ffffffffffffef7f".into())
    );
    assert_eq!(field("\"double\"", "-0.0"), Ok("0000000000000080".into()));
    assert_eq!(field("\"float\"", "-0"), Ok("00000000".into()));
    for (of, value) in [("\"float\"", "3.5e38"), ("\"double\"", "1.8e308")] {
        assert!(field(of, value).expect_err(value).contains("range"));
    }
}

#[test]
fn a_decimal_that_cannot_be_kept_tells_scale_or_precision() {
    let huge = field(&decimal(9, 3), "1e999999999").expect_err("huge");
    assert!(
        huge.contains("precision 1000000003") && huge.contains("allows 9"),
        "{huge}"
    );
    let text = field(&decimal(9, 3), "\"1e999999999\"").expect_err("huge");
    assert!(text.contains("precision 1000000003"), "{text}");
    let wide = field(&decimal(2_000_000_000, 0), "1e999999999").expect_err("huge");
    assert!(wide.contains("10000 digits"), "{wide}");
    let fine = field(&decimal(9, 3), "1e-999999999").expect_err("tiny");
    assert!(
        fine.contains("scale 3") && fine.contains("without rounding"),
        "{fine}"
    );
    assert_eq!(field(&decimal(9, 3), "1.000e0"), Ok("0403e8".into()));
    assert_eq!(field(&decimal(1, 0), "0e999999999"), Ok("0200".into()));
}

#[test]
fn a_timestamp_outside_of_its_unit_tells_the_range() {
    let nanos = r#"{"type":"long","logicalType":"timestamp-nanos"}"#;
    let failure = field(nanos, "\"2300-01-01T00:00:00Z\"").expect_err("too late");
    assert!(
        failure.contains("range") && failure.contains("LONG/timestamp-nanos"),
        "{failure}"
    );
    let date = r#"{"type":"int","logicalType":"date"}"#;
    assert_eq!(field(date, "\"2027-02-28\""), Ok("9ac602".into()));
    let failure = field(date, "\"+999999999-01-01\"").expect_err("too late");
    assert!(failure.contains("range"), "{failure}");
    assert!(
        field(date, "1.5")
            .expect_err("a fraction")
            .contains("INT/date")
    );
}

#[test]
fn null_is_no_value_of_a_type_without_null() {
    for of in [
        "\"string\"",
        "\"null\"",
        r#"{"type":"array","items":"int"}"#,
        r#"["int"]"#,
    ] {
        let failure = field(of, "null").expect_err(of);
        assert!(
            failure.contains("null") && failure.contains("no null branch"),
            "{failure}"
        );
    }
    let failure = field(r#"["int","string"]"#, "null").expect_err("no null");
    assert!(
        failure.contains("no null branch") && failure.contains(r#"["int","string"]"#),
        "{failure}"
    );
    assert!(
        field("[\"null\"]", "7")
            .expect_err("only null")
            .contains("matches no branch")
    );
    assert!(
        field("[]", "7")
            .expect_err("no branch")
            .contains("matches no branch")
    );
}

#[test]
fn a_number_with_a_fraction_takes_the_branch_that_can_hold_it() {
    assert_eq!(
        field(r#"["int","double"]"#, "2.75"),
        Ok("020000000000000640".into())
    );
    assert_eq!(field(r#"["int","double"]"#, "2"), Ok("0004".into()));
    assert_eq!(
        field(r#"["int","long"]"#, "2147483648"),
        Ok("028080808010".into())
    );
}

#[test]
fn a_uuid_on_a_fixed_fails_alone_and_is_text_beside_text() {
    const FIXED: &str = r#"{"type":"fixed","name":"Id16","size":16,"logicalType":"uuid"}"#;
    const UUID: &str = "3F0A9B62-7C1D-4E58-A6B4-0D9E8F7C6B5A";
    let text = format!("\"{UUID}\"");
    assert!(
        field(FIXED, &text)
            .expect_err("alone")
            .contains("FIXED/uuid")
    );
    let canonical = format!("48{}", hex(UUID.to_lowercase().as_bytes()));
    let union = |branches: &str| field(&format!("[{branches}]"), &text);
    assert_eq!(
        union(&format!("{FIXED},\"string\"")),
        Ok(format!("02{canonical}"))
    );
    assert_eq!(
        union(&format!("\"null\",{FIXED},\"string\"")),
        Ok(format!("04{canonical}"))
    );
    let as_written = format!("48{}", hex(UUID.as_bytes()));
    assert_eq!(
        union(&format!("\"string\",{FIXED}")),
        Ok(format!("00{as_written}"))
    );
    assert!(
        union(&format!("{FIXED},\"long\""))
            .expect_err("no text")
            .contains("matches no branch")
    );
}

#[test]
fn a_branch_is_ranked_by_the_members_that_it_explains() {
    let union = r#"[{"type":"record","name":"A","fields":[{"name":"x","type":"int"}]},
        {"type":"record","name":"B","fields":[{"name":"x","type":"int"},{"name":"y","type":["null","int"],"default":null}]},
        {"type":"map","values":"int"}]"#;
    // x only: the map leaves nothing unfilled, and so does A, which comes first.
    assert_eq!(field(union, r#"{"x":1}"#), Ok("0002".into()));
    // x and y: the map explains both, B too, and B comes first.
    assert_eq!(field(union, r#"{"x":1,"y":2}"#), Ok("02020204".into()));
    // x, y and z: only the map explains all.
    assert_eq!(
        field(union, r#"{"x":1,"y":2,"z":3}"#),
        Ok("04060278020279040 27a0600".replace(' ', ""))
    );
}

#[test]
fn a_tie_and_a_dropped_member_are_told_once_with_their_paths() {
    let schema = one_field(
        r#"{"type":"array","items":{"type":"map","values":{"type":"record","name":"Leg","fields":[{"name":"n","type":["int","long"]}]}}}"#,
    );
    let mut avro = avro(&schema);
    for _ in 0..3 {
        written(&mut avro, r#"{"qty":[{},{"west":{"n":1,"m":2}}]}"#).expect("fits");
    }
    let notices = avro.notices();
    assert_eq!(notices.len(), 2, "{notices:?}");
    assert!(
        notices[0].starts_with("port.cargo.avro.CrateSealed.qty[1].west.n: "),
        "{notices:?}"
    );
    assert!(notices[0].contains("more than one branch"), "{notices:?}");
    assert!(
        notices[1].starts_with("port.cargo.avro.CrateSealed.qty[1].west: member m"),
        "{notices:?}"
    );
    assert!(notices[1].contains("port.cargo.avro.Leg"), "{notices:?}");
    assert_eq!(avro.unknown_members(), 3);
}

const TWO_RECORDS: &str = r#"[{"type":"record","name":"A","fields":[{"name":"a","type":"int"}]},
    {"type":"record","name":"B","fields":[{"name":"a","type":"int"},{"name":"b","type":["null","int"],"default":null}]}]"#;

#[test]
fn only_what_the_written_branch_of_a_union_lacks_is_dropped() {
    for union in [
        TWO_RECORDS.to_owned(),
        // Tried inside a trial, and written after it.
        format!(r#"[{{"type":"array","items":{TWO_RECORDS}}},"string"]"#),
    ] {
        let is_list = union.starts_with("[{\"type\":\"array\"");
        let mut avro = avro(&one_field(&union));
        let mut play = |value: &str| {
            let value = if is_list {
                format!("[{value}]")
            } else {
                value.to_owned()
            };
            written(&mut avro, &format!("{{\"qty\":{value}}}")).expect("fits");
            (avro.notices(), avro.unknown_members())
        };
        let at = if is_list {
            "port.cargo.avro.CrateSealed.qty[0]: "
        } else {
            "port.cargo.avro.CrateSealed.qty: "
        };
        let (told, dropped) = play(r#"{"a":1,"b":2}"#);
        assert_eq!((told.len(), dropped), (1, 0), "{told:?}");
        assert!(told[0].starts_with(at), "{told:?}");
        assert!(
            told[0].contains("avro.A has no field b; it was only tried"),
            "{told:?}"
        );
        let (told, dropped) = play(r#"{"a":1,"b":2,"c":3}"#);
        assert_eq!((told.len(), dropped), (2, 1), "{told:?}");
        assert!(
            told[0].contains("avro.A has no field c; it was only tried"),
            "{told:?}"
        );
        assert!(
            told[1].contains("member c is dropped: port.cargo.avro.B"),
            "{told:?}"
        );
        // A is written now, with what it lacks; B was tried.
        let (told, dropped) = play(r#"{"a":1,"d":4}"#);
        assert_eq!((told.len(), dropped), (2, 2), "{told:?}");
        assert!(
            told[0].contains("avro.B has no field d; it was only tried"),
            "{told:?}"
        );
        assert!(
            told[1].contains("member d is dropped: port.cargo.avro.A"),
            "{told:?}"
        );
        let (told, dropped) = play(r#"{"a":1,"d":4}"#);
        assert_eq!((told.len(), dropped), (0, 3), "{told:?}");
    }
}

#[test]
fn a_row_that_fails_drops_nothing() {
    let mut avro = avro(
        r#"{"type":"record","name":"port.cargo.avro.CrateSealed","fields":[
        {"name":"leg","type":{"type":"record","name":"Leg","fields":[]}},{"name":"n","type":"int"}]}"#,
    );
    written(&mut avro, r#"{"leg":{"colour":1},"n":"x"}"#).expect_err("no int");
    assert_eq!((avro.notices(), avro.unknown_members()), (vec![], 0));
    written(&mut avro, r#"{"leg":{"colour":1},"n":1}"#).expect("fits");
    assert_eq!((avro.notices().len(), avro.unknown_members()), (1, 1));
}

#[test]
fn with_fail_a_branch_that_would_drop_members_is_not_taken() {
    let schema = one_field(TWO_RECORDS);
    let texts = [(Path::new(FILE), schema.as_str())];
    let mut avro = Avro::from_texts(&texts, UnknownMembers::Fail).expect("a schema");
    assert_eq!(
        written(&mut avro, r#"{"qty":{"a":1,"b":2}}"#),
        Ok(vec![2, 2, 2, 4])
    );
    assert_eq!(written(&mut avro, r#"{"qty":{"a":1}}"#), Ok(vec![0, 2]));
    let failure = written(&mut avro, r#"{"qty":{"a":1,"c":2}}"#).expect_err("neither");
    assert!(failure.contains("matches no branch"), "{failure}");
    assert!(
        failure.contains("avro.A has no field c, and encode.unknown_members"),
        "{failure}"
    );
    assert!(avro.notices().is_empty() && avro.unknown_members() == 0);
}

#[test]
fn a_missing_field_is_told_with_the_member_that_was_probably_meant() {
    let mut avro = avro(&one_field("\"int\""));
    let failure = written(&mut avro, r#"{"colour":1,"qyt":2,"x":3}"#).expect_err("missing");
    assert!(
        failure.contains("CrateSealed.qty: Missing field: "),
        "{failure}"
    );
    assert!(
        failure.ends_with("; the payload has qyt, which is no field"),
        "{failure}"
    );
    let failure = written(&mut avro, "{}").expect_err("missing");
    assert!(failure.ends_with("without a default"), "{failure}");
    let long = format!("{{\"{}\":1}}", "q".repeat(40_000));
    assert!(written(&mut avro, &long).expect_err("missing").len() < 500);
}

#[test]
fn a_bare_null_takes_nothing_and_says_so() {
    for (value, kind) in [("null", "NULL (null)"), ("7", "NUMBER (7)")] {
        let failure = field("\"null\"", value).expect_err(value);
        assert!(
            failure.contains("takes no value, not even null"),
            "{failure}"
        );
        assert!(failure.ends_with(kind), "{failure}");
    }
}

#[test]
fn with_fail_a_member_without_field_fails_with_its_path() {
    let schema = one_field(r#"{"type":"record","name":"Leg","fields":[]}"#);
    let texts = [(Path::new(FILE), schema.as_str())];
    let mut avro = Avro::from_texts(&texts, UnknownMembers::Fail).expect("a schema");
    let failure = written(&mut avro, r#"{"qty":{"colour":1}}"#).expect_err("unknown");
    assert!(
        failure.contains("port.cargo.avro.CrateSealed.qty: "),
        "{failure}"
    );
    assert!(failure.contains("colour"), "{failure}");
}

#[test]
fn members_are_found_in_any_order_and_with_escapes_in_their_names() {
    let fields: Vec<String> = ["bb", "a", "ccc", "ab", "aa"]
        .map(|name| format!(r#"{{"name":"{name}","type":"int"}}"#))
        .to_vec();
    let schema = format!(
        r#"{{"type":"record","name":"port.cargo.avro.CrateSealed","fields":[{}]}}"#,
        fields.join(",")
    );
    let mut avro = avro(&schema);
    for payload in [
        r#"{"a":2,"aa":5,"ab":4,"bb":1,"ccc":3}"#,
        r#"{"ccc":3,"bb":1,"ab":4,"aa":5,"a":2}"#,
        r#"{"bb":9,"\u0061":2,"ccc":3,"\u0061b":4,"aa":5,"bb":1}"#,
    ] {
        assert_eq!(
            written(&mut avro, payload),
            Ok(vec![2, 4, 6, 8, 10]),
            "{payload}"
        );
    }
}

#[test]
fn a_root_that_is_no_object_is_told_by_its_kind() {
    let mut avro = avro(&one_field("\"int\""));
    for (payload, kind) in [
        ("null", "NULL"),
        ("[1]", "ARRAY"),
        ("\"x\"", "STRING"),
        ("7", "NUMBER"),
        ("true", "BOOLEAN"),
        ("", "MISSING"),
        ("  ", "MISSING"),
    ] {
        let failure = written(&mut avro, payload).expect_err(payload);
        let words =
            format!("port.cargo.avro.CrateSealed: the payload is not a JSON object but {kind}");
        assert!(failure.contains(&words), "{failure}");
    }
}

#[test]
fn an_event_without_a_schema_fails_naming_both() {
    let mut avro = avro(&one_field("\"int\""));
    let mut event = event("{}");
    event.namespace = headwater_core::event::Text::Plain("port.fuel");
    let failure = avro.payload(&event).expect_err("unknown");
    assert!(
        failure.detail.contains("port.fuel.avro.CrateSealed"),
        "{failure}"
    );
    assert!(
        failure.detail.contains("port.cargo.avro.CrateSealed"),
        "{failure}"
    );
    assert_eq!(avro.schemas(), ["port.cargo.avro.CrateSealed"]);
}

#[test]
fn the_second_row_of_an_encoder_is_written_like_the_first() {
    let schema = one_field(r#"["null","long","string"]"#);
    let mut avro = avro(&schema);
    for _ in 0..2 {
        written(&mut avro, r#"{"qty":[]}"#).expect_err("no branch");
        let bytes = written(&mut avro, r#"{"qty":"LOT-9"}"#).expect("fits");
        let decoded = oracle::decoded(&schema, &bytes);
        assert_eq!(decoded, serde_json::json!({ "qty": "LOT-9" }));
    }
}
