//! The rules that the golden cases only touch, each by the bytes or the words of its failure.

use super::{event, payload, proto2, proto3};
use crate::notice::UnknownMembers;
use crate::protobuf::Protobuf;

/// Encodes, or fails with a text that has all these words and the path.
fn fails(encoder: &mut Protobuf, json: &str, path: &str, words: &[&str]) {
    let told = payload(encoder, json).expect_err(json);
    let start = format!("Failed to encode payload: port.cargo.proto.CrateSealed{path}: ");
    assert!(told.starts_with(&start), "{told}");
    for word in words {
        assert!(told.contains(word), "{told} does not mention {word}");
    }
}

fn writes(encoder: &mut Protobuf, json: &str, wanted: &str) {
    assert_eq!(payload(encoder, json).as_deref(), Ok(wanted), "{json}");
}

const LEGS: &str = "message Leg { string port = 1; Leg next = 2; sfixed32 berth = 3; }\n\
    enum Hazard { HAZARD_NONE = 0; TOXIC = 4; }\n\
    message CrateSealed { repeated Leg legs = 1; map<string,Leg> routes = 2; map<int32,Hazard> hazards = 3; \
    repeated Hazard list = 4; google.protobuf.Struct extra = 5; google.protobuf.Any any = 6; uint64 big = 7; \
    google.protobuf.ListValue items = 8; float speed = 9; repeated double doubles = 10; fixed32 fixed = 11; }";

#[test]
fn a_failure_names_the_path_the_type_what_was_wanted_and_the_value() {
    let mut encoder = proto3(LEGS);
    let encoder = &mut encoder;
    fails(
        encoder,
        r#"{"legs":[{},{"next":{"berth":"x"}}]}"#,
        ".legs[1].next.berth",
        &["sfixed32", "int32", "STRING (\"x\")"],
    );
    fails(
        encoder,
        r#"{"routes":{"west":{"port":{}}}}"#,
        ".routes.west.port",
        &["STRING", "OBJECT ({})"],
    );
    fails(
        encoder,
        r#"{"hazards":{"x":"TOXIC"}}"#,
        ".hazards.x",
        &["int32", "\"x\""],
    );
    fails(
        encoder,
        r#"{"hazards":{"1":"WET"}}"#,
        ".hazards.1",
        &["Hazard", "WET", "TOXIC"],
    );
    fails(
        encoder,
        r#"{"hazards":{"1":null}}"#,
        ".hazards.1",
        &["null"],
    );
    fails(
        encoder,
        r#"{"hazards":[]}"#,
        ".hazards",
        &["map object", "ARRAY"],
    );
    fails(encoder, r#"{"list":[4,null]}"#, ".list[1]", &["null"]);
    fails(
        encoder,
        r#"{"list":{"a":1}}"#,
        ".list",
        &["an array", "OBJECT"],
    );
    fails(
        encoder,
        r#"{"extra":{"a":[1,{"b":1e400}]}}"#,
        ".extra.a[1].b",
        &["double", "NUMBER (1e400)"],
    );
    fails(encoder, r#"{"any":{"x":1}}"#, ".any", &["Missing type url"]);
    fails(
        encoder,
        r#"{"big":1e999999999}"#,
        ".big",
        &["uint64", "out of range"],
    );
    fails(encoder, r#"{"big":0.5}"#, ".big", &["uint64", "fraction"]);
    fails(encoder, r#"{"fixed":-1}"#, ".fixed", &["fixed32", "uint32"]);
    fails(encoder, r#"{"items":{}}"#, ".items", &["an array"]);
    fails(
        encoder,
        r#"{"speed":3.4028236e38}"#,
        ".speed",
        &["float", "out of range"],
    );
    fails(
        encoder,
        r#"{"doubles":[1,"x"]}"#,
        ".doubles[1]",
        &["double"],
    );
    fails(encoder, "[1]", "", &["message object", "ARRAY ([1])"]);
    fails(encoder, "", "", &["message object"]);
    fails(encoder, "{\"legs\":", "", &["malformed JSON"]);
    let long = format!("{{\"big\":\"{}\"}}", "é".repeat(5000));
    let told = payload(encoder, &long).expect_err("no number");
    assert!(told.len() < 400, "{} bytes", told.len());
}

#[test]
fn a_lone_surrogate_is_no_text_wherever_it_stands() {
    let mut encoder = proto3(
        "message CrateSealed { string a = 1; map<string,string> b = 2; google.protobuf.Struct c = 3; google.protobuf.FieldMask d = 4; google.protobuf.StringValue e = 5; }",
    );
    for json in [
        r#"{"a":"\udc00"}"#,
        r#"{"b":{"\ud800":"x"}}"#,
        r#"{"c":{"\ud800":1}}"#,
        r#"{"c":{"x":"\ud800"}}"#,
        r#"{"d":"\ud800"}"#,
        r#"{"e":"\ud800x"}"#,
    ] {
        let told = payload(&mut encoder, json).expect_err(json);
        assert!(
            told.contains("urrogate") || told.contains("FieldMask"),
            "{told}"
        );
    }
    writes(&mut encoder, r#"{"a":"\ud83d\ude00"}"#, "0a04f09f9880");
}

#[test]
fn equal_keys_after_parsing_are_written_twice_and_equal_names_once() {
    let mut encoder = proto3("message CrateSealed { map<int32,string> a = 1; }");
    writes(
        &mut encoder,
        r#"{"a":{"1":"x","01":"y"}}"#,
        "0a0508011201780a050801120179",
    );
    writes(
        &mut encoder,
        r#"{"a":{"1":"x","2":"z","1":"y"}}"#,
        "0a0508011201790a05080212017a",
    );
    writes(&mut encoder, r#"{"a":{"0":""}}"#, "0a0408001200");
}

#[test]
fn only_one_member_of_a_oneof_may_have_a_value() {
    let mut encoder = proto3(
        "message CrateSealed { oneof how { string rail = 1; int32 road = 2; google.protobuf.Value other = 3; } }",
    );
    fails(
        &mut encoder,
        r#"{"road":1,"rail":""}"#,
        ".road",
        &["oneof", "already been set", "rail"],
    );
    fails(
        &mut encoder,
        r#"{"road":1,"other":null}"#,
        ".other",
        &["oneof"],
    );
    writes(&mut encoder, r#"{"rail":null,"road":0}"#, "1000");
    writes(&mut encoder, r#"{"other":null}"#, "1a020800");
}

#[test]
fn groups_required_fields_and_packing_follow_proto2() {
    let mut encoder = proto2(
        "enum E { A = 1; B = 2; }\nmessage CrateSealed { required int32 id = 1; optional group Leg = 2 { optional string port = 1; } \
         repeated int32 list = 3; repeated int32 packed = 4 [packed = true]; optional E e = 5; repeated group More = 6 { required int32 n = 1; } }",
    );
    let encoder = &mut encoder;
    writes(
        encoder,
        r#"{"id":0,"leg":{"port":"x"},"list":[1,2],"packed":[1,2]}"#,
        "0800130a0178141801180222020102",
    );
    writes(
        encoder,
        r#"{"id":1,"more":[{"n":1},{"n":2}],"e":"B"}"#,
        "080128023308013433080234",
    );
    fails(encoder, "{}", "", &["missing required fields", "id"]);
    fails(
        encoder,
        r#"{"id":null}"#,
        ".id",
        &["missing required fields"],
    );
    fails(
        encoder,
        r#"{"id":1,"more":[{}]}"#,
        ".more[0]",
        &["missing required fields", "n"],
    );
    fails(encoder, r#"{"id":1,"e":7}"#, ".e", &["enum", "7"]);
}

#[test]
fn another_name_for_the_first_enum_value_is_not_its_default() {
    let mut encoder = proto3(
        "enum E { option allow_alias = true; NONE = 0; NIL = 0; BELOW = -1; } message CrateSealed { E e = 1; }",
    );
    writes(&mut encoder, r#"{"e":"NONE"}"#, "");
    writes(&mut encoder, r#"{"e":"NIL"}"#, "0800");
    writes(&mut encoder, r#"{"e":0}"#, "");
    writes(&mut encoder, r#"{"e":77}"#, "084d");
    writes(&mut encoder, r#"{"e":"BELOW"}"#, "08ffffffffffffffffff01");
}

#[test]
fn a_hundred_levels_are_written_and_no_more() {
    let mut encoder =
        proto3("message CrateSealed { CrateSealed next = 1; google.protobuf.Value any = 2; }");
    let messages =
        |levels: usize| format!("{}{{}}{}", "{\"next\":".repeat(levels), "}".repeat(levels));
    let lists = |levels: usize, inside: &str| {
        format!(
            "{{\"any\":{}{inside}{}}}",
            "[".repeat(levels),
            "]".repeat(levels)
        )
    };
    assert!(payload(&mut encoder, &messages(100)).is_ok());
    assert!(payload(&mut encoder, &lists(99, "1")).is_ok());
    assert!(
        payload(&mut encoder, &lists(100, "null")).is_ok(),
        "null is no further in"
    );
    for json in [messages(101), lists(100, "1"), lists(101, "null")] {
        let told = payload(&mut encoder, &json).expect_err("too deep");
        assert!(told.contains("recursion limit"), "{told}");
    }
    assert!(
        payload(&mut encoder, "{}").is_ok(),
        "the next row is not concerned"
    );
}

#[test]
fn what_gson_takes_is_taken() {
    let mut encoder =
        proto3("message CrateSealed { double n = 1; string text = 2; repeated string list = 3; }");
    writes(
        &mut encoder,
        "{n: NaN /* here */, 'text' = 'it\\'s'; list => [a; \"b\"]}",
        "09000000000000f87f12046974277 31a01611a0162"
            .replace(' ', "")
            .as_str(),
    );
    writes(&mut encoder, "{\"text\":\"a\tb\"} trailing", "1203610962");
    fails(&mut encoder, "{list: [a,]}", ".list[1]", &["null"]);
}

#[test]
fn members_without_a_field_are_told_once_for_each_event_type_and_counted() {
    let mut encoder = proto3(
        "message Leg { string port = 1; } message CrateSealed { Leg leg = 1; } message CrateOpened { Leg leg = 1; }",
    );
    for _ in 0..3 {
        writes(
            &mut encoder,
            r#"{"leg":{"port":"x","colour":1},"weight":{"deep":[1]}}"#,
            "0a030a0178",
        );
    }
    encoder
        .payload(&event("CrateOpened", r#"{"leg":{"colour":1}}"#))
        .expect("encodes");
    let told = encoder.notices();
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(
        told[0].contains("port.cargo.proto.CrateSealed")
            && told.iter().any(|one| one.contains("weight")),
        "{told:?}"
    );
    assert!(
        told.iter()
            .any(|one| one.contains("port.cargo.proto.CrateSealed.leg") && one.contains("colour")),
        "{told:?}"
    );
    assert!(
        told[2].contains("port.cargo.proto.CrateOpened.leg"),
        "{told:?}"
    );
    assert_eq!(encoder.unknown_members(), 7);
}

#[test]
fn a_member_without_a_field_is_told_where_it_stood() {
    let mut encoder = proto3(
        "message Place { string port = 1; } message CrateSealed { Place billing = 1; repeated Place shipping = 2; }",
    );
    let json = r#"{"billing":{"port":"x"},"shipping":[{},{"colour":1}]}"#;
    payload(&mut encoder, json).expect("encodes");
    let told = encoder.notices();
    let start = "port.cargo.proto.CrateSealed.shipping[1]: member colour is dropped";
    assert!(told.len() == 1 && told[0].starts_with(start), "{told:?}");
}

#[test]
fn a_missing_field_is_told_with_the_member_that_was_probably_meant() {
    let mut encoder = proto2("message CrateSealed { required int32 amount = 1; }");
    let words = ["missing required fields: amount; the payload has amuont"];
    fails(&mut encoder, r#"{"x":1,"amuont":1}"#, "", &words);
}

#[test]
fn members_without_a_field_fail_if_that_is_wanted() {
    let texts = [(
        std::path::Path::new("a.proto"),
        "syntax = \"proto3\"; package port.cargo.proto; message CrateSealed { }",
    )];
    let mut encoder = Protobuf::from_texts(&texts, UnknownMembers::Fail).expect("a schema");
    fails(&mut encoder, r#"{"colour":1}"#, "", &["colour"]);
}

#[test]
fn an_event_type_without_schema_fails_naming_those_there_are() {
    let mut encoder = proto3("message CrateSealed { }");
    assert_eq!(encoder.schemas(), ["port.cargo.proto.CrateSealed"]);
    let failure = encoder
        .payload(&event("CrateSealde", "{}"))
        .expect_err("unknown");
    assert!(
        failure.detail.contains("port.cargo.proto.CrateSealde")
            && failure.detail.contains("port.cargo.proto.CrateSealed"),
        "{failure}"
    );
}
