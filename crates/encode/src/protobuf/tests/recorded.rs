//! What protobuf-java itself was seen to write.

use std::collections::HashMap;

use super::{payload, proto2, proto3};
use crate::protobuf::Protobuf;
use crate::tests::fixture;

const NAMES: &str = "{ string seal_code = 1; repeated int32 some_list = 2; map<string,int32> some_map = 3; \
    optional int32 opt_num = 4; Leg some_leg = 5; google.protobuf.Value some_val = 6; oneof o { int32 one_a = 7; \
    string one_b = 8; google.protobuf.NullValue one_n = 9; google.protobuf.Value one_v = 10; Hazard one_e = 11;} \
    Hazard some_enum = 12; double some_double = 13; google.protobuf.Int32Value some_wrap = 300; int32 foo_1bar = 14; \
    int32 foo__baz = 15; int32 _lead = 16; int32 trail_ = 17; int32 Upper = 18; google.protobuf.Struct some_struct = 19; \
    google.protobuf.Timestamp some_time = 20; }";

/// What protobuf-java 4.28.3's `JsonFormat` itself made of payloads: syntax, message, payload, and the bytes or `error`.
#[test]
fn recorded_payloads_give_the_bytes_or_the_failure_of_the_reference() {
    let records = fixture("jsonformat.tsv");
    let mut encoders: HashMap<(&str, &str), Protobuf> = HashMap::new();
    let mut wrong = Vec::new();
    for record in records.lines() {
        let [syntax, body, json, wanted] = record.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{record}");
        };
        let encoder = encoders.entry((syntax, body)).or_insert_with(|| {
            let body = if body == "NAMES" { NAMES } else { body };
            match syntax {
                "proto2" => proto2(&format!(
                    "enum Hazard {{ HAZARD_NONE = 1; FLAMMABLE = 2; TOXIC = 4; }}\n\
                     message Leg {{ required string port = 1; optional Leg next = 2; }}\nmessage CrateSealed {body}"
                )),
                _ => proto3(&format!(
                    "enum Hazard {{ option allow_alias = true; HAZARD_NONE = 0; FLAMMABLE = 1; TOXIC = 4; NIL = 0; POISON = 4; NEG = -1; }}\n\
                     message Leg {{ string port = 1; Leg next = 2; repeated Leg legs = 3; }}\nmessage CrateSealed {body}"
                )),
            }
        });
        let got = payload(encoder, json);
        if got.as_deref().unwrap_or("error") != wanted {
            wrong.push(format!("{record}: {got:?}"));
        }
    }
    assert!(wrong.is_empty(), "{}:\n{}", wrong.len(), wrong.join("\n"));
}
