//! Schema files: what is taken, what is refused, and what identifies a schema.

use std::fs;
use std::path::Path;

use super::{FILE, avro, event, hex, written};
use crate::{Avro, SchemaError, Schemas, UnknownMembers};

fn refused(schema: &str) -> SchemaError {
    let texts = [(Path::new(FILE), schema)];
    Avro::from_texts(&texts, UnknownMembers::Warn).expect_err(schema)
}

fn record(fields: &str) -> String {
    format!(r#"{{"type":"record","name":"port.cargo.avro.CrateSealed","fields":[{fields}]}}"#)
}

fn header(schema: &str) -> String {
    let mut avro = avro(schema);
    hex(&avro.payload(&event("{}")).expect("encodes")[..10])
}

/// The fingerprints were made by Avro Java 1.12.1 and by fastavro (which does not find the last one's name).
#[test]
fn a_schema_has_the_fingerprint_that_java_and_fastavro_give_it() {
    for (fields, fingerprint) in FINGERPRINTS {
        let fields = record(fields);
        assert_eq!(header(&fields), format!("c301{fingerprint}"), "{fields}");
    }
}

const FINGERPRINTS: [(&str, &str); 8] = [
    ("", "a9f574b7ac60748e"),
    (
        r#"{"name":"a","type":{"type":"long","logicalType":"timestamp-micros"},"default":0}"#,
        "f8f149786db62a85",
    ),
    (
        r#"{"name":"a","type":{"type":"bytes","logicalType":"decimal","precision":9,"scale":3},"default":""}"#,
        "3196ac7cf38748e7",
    ),
    (
        r#"{"name":"a","type":["null",{"type":"fixed","name":"Money","size":5,"logicalType":"decimal","precision":11,"scale":2}],"default":null}"#,
        "3a1c6bd932ad330b",
    ),
    (
        r#"{"name":"a","doc":"x","aliases":["b"],"order":"ignore","type":{"type":"string","avro.java.string":"String"},"default":"\u00e9"}"#,
        "00ad49fddb079e66",
    ),
    (
        r#"{"name":"a","type":["null","CrateSealed",{"type":"map","values":{"type":"array","items":"CrateSealed"}}],"default":null}"#,
        "e92a93f5719e64e0",
    ),
    (
        r#"{"name":"a","type":{"type":"enum","name":"other.space.Hazard","symbols":["NONE","TOXIC"],"default":"NONE"},"default":"NONE"},{"name":"b","type":["null","other.space.Hazard"],"default":null}"#,
        "019361c205b9de2d",
    ),
    (
        r#"{"name":"a","type":["null",{"type":"record","name":"Leg","namespace":"","fields":[{"name":"port","type":"string"}]}],"default":null},{"name":"b","type":{"type":"array","items":"Leg"},"default":[]}"#,
        "3063fa1dc295f3bd",
    ),
];

#[test]
fn the_envelope_has_the_header_that_consumers_know() {
    let mut avro = avro(&record(""));
    let message = avro.encode(&event("{}")).expect("encodes");
    assert_eq!(hex(&message[..10]), "c3017355c7eafad5f812");
}

#[test]
fn broken_json_is_refused_with_its_line() {
    let error = refused(
        "{\"type\": \"record\",\n \"name\": \"port.cargo.avro.CrateSealed\",\n \"fields\": [}",
    );
    assert_eq!(
        (error.line, error.file.as_path()),
        (Some(3), Path::new(FILE))
    );
    assert!(
        error.to_string().starts_with("events/CrateSealed.avsc:3: "),
        "{error}"
    );
    assert!(refused(" \n").what.contains("empty"));
}

#[test]
fn what_is_no_payload_schema_is_refused_naming_what_it_is() {
    for (schema, words) in [
        (r#""string""#, "must be a record, and this is \"string\""),
        (r#"["null","int"]"#, r#"["null","int"]"#),
        (
            r#"{"type":"enum","name":"port.cargo.avro.E","symbols":["A"]}"#,
            "must be a record, and this is the enum port.cargo.avro.E",
        ),
        (
            r#"{"type":"fixed","name":"port.cargo.avro.F","size":2}"#,
            "must be a record, and this is the fixed port.cargo.avro.F",
        ),
        (
            r#"{"type":"record","name":"CrateSealed","fields":[]}"#,
            "CrateSealed is not the name",
        ),
        (
            r#"{"type":"record","name":"shop.Opened","fields":[]}"#,
            "for rows of namespace shop its namespace must be shop.avro",
        ),
        (
            r#"{"type":"record","name":"port.cargo.proto.X","fields":[]}"#,
            "for rows of namespace port.cargo its namespace must be port.cargo.avro",
        ),
        (
            r#"{"type":"record","name":"avro.X","fields":[]}"#,
            "its namespace must be the namespace of the rows with .avro behind it",
        ),
        (
            r#"{"type":"record","name":"größe.avro.X","fields":[]}"#,
            "of the letters A to Z",
        ),
        (
            r#"{"type":"record","name":"port.cargo.proto.X","fields":[]}"#,
            "<namespace>.avro.<EventType>",
        ),
        (
            r#"{"type":"record","name":"a-b.avro.X","fields":[]}"#,
            "\"a-b\" is not a name",
        ),
        (
            r#"{"type":"record","name":"port.cargo.avro.X"}"#,
            "has no array \"fields\"",
        ),
        (r#"{"type":"record","fields":[]}"#, "\"name\" is missing"),
        ("7", "not NUMBER"),
        ("{}", "\"type\" is missing"),
    ] {
        let error = refused(schema);
        assert!(error.what.contains(words), "{error}");
    }
}

#[test]
fn what_java_refuses_in_a_schema_is_refused() {
    for (fields, words) in [
        (
            r#"{"name":"f","type":"Nope"}"#,
            "port.cargo.avro.Nope is not defined; defined are: port.cargo.avro.CrateSealed",
        ),
        (r#"{"name":"f","type":"bool"}"#, "bool is not defined"),
        (r#"{"name":"f"}"#, "field f has no type"),
        (r#"{"name":"f-1","type":"int"}"#, "\"f-1\" is not a name"),
        (
            r#"{"name":"f","type":"int"},{"name":"f","type":"int"}"#,
            "two fields f",
        ),
        (
            r#"{"name":"f","type":{"type":{"type":"string"}}}"#,
            "\"type\" must be a name here",
        ),
        (r#"{"name":"f","type":["null",["int"]]}"#, "inside a union"),
        (
            r#"{"name":"f","type":["int",{"type":"int","logicalType":"date"}]}"#,
            "two branches of one type",
        ),
        (
            r#"{"name":"f","type":{"type":"array"}}"#,
            "\"items\" is missing",
        ),
        (
            r#"{"name":"f","type":{"type":"map"}}"#,
            "\"values\" is missing",
        ),
        (
            r#"{"name":"f","type":{"type":"fixed","name":"F","size":-1}}"#,
            "needs a \"size\"",
        ),
        (
            r#"{"name":"f","type":{"type":"fixed","name":"F","size":"3"}}"#,
            "needs a \"size\"",
        ),
        (
            r#"{"name":"f","type":{"type":"enum","name":"E"}}"#,
            "\"symbols\"",
        ),
        (
            r#"{"name":"f","type":{"type":"enum","name":"E","symbols":["A","A"]}}"#,
            "two symbols A",
        ),
        (
            r#"{"name":"f","type":{"type":"enum","name":"E","symbols":["A-B"]}}"#,
            "is not a name",
        ),
        (
            r#"{"name":"f","type":{"type":"enum","name":"E","symbols":["A"],"default":"Z"}}"#,
            "no symbol \"Z\"",
        ),
        (
            r#"{"name":"f","type":{"type":"enum","name":"E","symbols":["A"]}},{"name":"g","type":{"type":"enum","name":"E","symbols":["B"]}}"#,
            "port.cargo.avro.E is defined twice",
        ),
        (
            r#"{"name":"f","type":{"type":"record","name":"int","namespace":"","fields":[]}}"#,
            "built-in",
        ),
    ] {
        let error = refused(&record(fields));
        assert!(error.what.contains(words), "{error}");
    }
}

#[test]
fn a_type_that_is_not_defined_is_told_with_its_field_and_line() {
    let schema = record(
        "\n{\"name\":\"a\",\"type\":[\"null\",\n{\"type\":\"record\",\"name\":\"Leg\",\"fields\":[{\"name\":\"n\",\"type\":\"int\"}]},\n\"strng\"]}",
    );
    let error = refused(&schema);
    assert_eq!(error.line, Some(4), "{error}");
    let words =
        "port.cargo.avro.CrateSealed: field a: the type port.cargo.avro.strng is not defined";
    assert!(error.what.contains(words), "{error}");
    let twice = "{\"name\":\"f\",\"type\":\"int\"},\n{\"name\":\"f\",\"type\":\"int\"}";
    assert_eq!(refused(&record(twice)).line, Some(2));
}

#[test]
fn the_envelope_is_no_payloads_schema() {
    let error = refused(crate::avro::envelope::BUILT_IN);
    for words in [
        "actionevent.avro.ActionEvent is the envelope",
        "built in",
        "encode.envelope",
    ] {
        assert!(error.what.contains(words), "{error}");
    }
}

#[test]
fn a_mark_at_the_beginning_of_a_file_is_passed_over() {
    let schema = format!("\u{FEFF}{}", record(r#"{"name":"a","type":"int"}"#));
    assert_eq!(written(&mut avro(&schema), r#"{"a":1}"#), Ok(vec![2]));
}

#[test]
fn a_default_that_is_not_of_its_type_is_refused_naming_the_field() {
    for field_type in [
        r#""int","default":1.0"#,
        r#""int","default":"1""#,
        r#""int","default":99999999999"#,
        r#""long","default":9223372036854775808"#,
        r#""string","default":null"#,
        r#""double","default":1e999"#,
        r#""float","default":1e300"#,
        r#""bytes","default":"\u0100""#,
        r#"["null","int"],"default":"x""#,
        r#"{"type":"fixed","name":"F","size":3},"default":"ab""#,
        r#"{"type":"enum","name":"E","symbols":["A"]},"default":"B""#,
        r#"{"type":"record","name":"I","fields":[{"name":"x","type":"int"}]},"default":{}"#,
        r#"["null","CrateSealed"],"default":{}"#,
    ] {
        let error = refused(&record(&format!(r#"{{"name":"qty","type":{field_type}}}"#)));
        assert!(error.what.contains("field qty: the default "), "{error}");
    }
}

/// The bytes were written by Avro Java 1.12.1, where it writes them.
#[test]
fn defaults_are_written_as_java_writes_them() {
    for (field_type, bytes) in [
        (r#"["null","string"],"default":"x""#, "020278"),
        (r#"["int","bytes","string"],"default":"x""#, "020278"),
        (r#"["string","null"],"default":null"#, "02"),
        (r#"["int","double"],"default":2.5"#, "020000000000000440"),
        (r#""double","default":1"#, "000000000000f03f"),
        (r#""double","default":"Infinity""#, "000000000000f07f"),
        (r#""float","default":"NaN""#, "0000c07f"),
        (
            r#"{"type":"array","items":["null","int","string"]},"default":[null,1,"x"]"#,
            "0600020204027800",
        ),
        (
            r#"{"type":"map","values":"int"},"default":{"north":1,"south":2,"east":3,"west":4,"up":5}"#,
            "0a0a736f757468040a6e6f727468020865617374060877657374080475700a00",
        ),
        (
            r#"{"type":"record","name":"I","fields":[{"name":"x","type":"int","default":4},{"name":"y","type":"string"}]},"default":{"y":"s","z":1}"#,
            "080273",
        ),
        (
            r#"{"type":"record","name":"I","fields":[{"name":"x","type":["null","int"]}]},"default":{"x":7}"#,
            "020e",
        ),
        (
            r#"{"type":"string","logicalType":"uuid"},"default":"x""#,
            "0278",
        ),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":4,"scale":1},"default":"\u00ff""#,
            "02ff",
        ),
        (
            r#"{"type":"fixed","name":"F","size":2},"default":"\u00fe\u0000""#,
            "fe00",
        ),
    ] {
        let schema = record(&format!(r#"{{"name":"qty","type":{field_type}}}"#));
        let written = written(&mut avro(&schema), "{}").expect("has a default");
        assert_eq!(hex(&written), bytes, "{field_type}");
    }
}

#[test]
fn an_invalid_logical_type_leaves_the_plain_one() {
    for (field_type, value, declared) in [
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":0}"#,
            "1",
            "BYTES needs",
        ),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":2,"scale":3}"#,
            "1",
            "BYTES needs",
        ),
        (
            r#"{"type":"bytes","logicalType":"decimal","precision":"4"}"#,
            "1",
            "BYTES needs",
        ),
        (
            r#"{"type":"fixed","name":"F","size":2,"logicalType":"decimal","precision":5}"#,
            "1",
            "FIXED needs",
        ),
        (
            r#"{"type":"fixed","name":"F","size":15,"logicalType":"uuid"}"#,
            "1",
            "FIXED needs",
        ),
        (
            r#"{"type":"bytes","logicalType":"uuid"}"#,
            "1",
            "BYTES needs",
        ),
        (
            r#"{"type":"long","logicalType":"date"}"#,
            "true",
            "LONG needs",
        ),
        (
            r#"{"type":"long","logicalType":"elsewhere"}"#,
            "true",
            "LONG needs",
        ),
        (r#"{"type":"long","logicalType":5}"#, "true", "LONG needs"),
        (
            r#"{"type":"fixed","name":"F","size":12,"logicalType":"duration"}"#,
            "1",
            "FIXED/duration needs",
        ),
        (
            r#"{"type":"bytes","logicalType":"big-decimal"}"#,
            "1",
            "BYTES/big-decimal needs",
        ),
    ] {
        let schema = record(&format!(r#"{{"name":"qty","type":{field_type}}}"#));
        let payload = format!("{{\"qty\":{value}}}");
        let failure = written(&mut avro(&schema), &payload).expect_err(field_type);
        assert!(failure.contains(declared), "{failure}");
    }
}

#[test]
fn names_are_found_before_their_definition_in_their_namespace_and_outside() {
    let schema = record(
        r#"{"name":"a","type":["null","Later"],"default":null},
        {"name":"b","type":{"type":"enum","name":"Later","symbols":["X"]},"default":"X"},
        {"name":"c","type":{"type":"enum","name":"Free","namespace":"","symbols":["Y"]},"default":"Y"},
        {"name":"d","type":["null","Free"],"default":null},
        {"name":"e","type":{"type":"Later"},"default":"X"}"#,
    );
    let bytes = written(&mut avro(&schema), r#"{"a":"X","d":"Y"}"#);
    assert_eq!(bytes, Ok(vec![2, 0, 0, 0, 2, 0, 0]));
}

/// Why there is a reader of our own.
#[test]
fn apache_avro_takes_other_schemas_than_java() {
    let forward = r#"{"name":"a","type":["null","Later"]},{"name":"b","type":{"type":"enum","name":"Later","symbols":["X"]}}"#;
    let default = r#"{"name":"a","type":{"type":"string","logicalType":"uuid"},"default":"x"}"#;
    for fields in [
        forward,
        default,
        r#"{"name":"größe","type":"int"}"#,
        "/* none */",
    ] {
        let schema = record(fields);
        assert!(apache_avro::Schema::parse_str(&schema).is_err(), "{fields}");
        avro(&schema);
    }
    let inside = record(r#"{"name":"a","type":{"type":{"type":"string"}}}"#);
    assert!(apache_avro::Schema::parse_str(&inside).is_ok());
    refused(&inside);
}

#[test]
fn comments_in_a_schema_file_are_passed_over() {
    let schema = format!(
        "/* who wrote it */\n// and why\n{}",
        record(r#"/* { */{"name":"a","type":"int"}"#)
    );
    assert_eq!(written(&mut avro(&schema), r#"{"a":1}"#), Ok(vec![2]));
}

#[test]
fn two_files_for_one_name_are_refused_naming_both() {
    let schema = record("");
    let texts = [
        (Path::new("a.avsc"), schema.as_str()),
        (Path::new("b.avsc"), schema.as_str()),
    ];
    let error = Avro::from_texts(&texts, UnknownMembers::Warn)
        .expect_err("twice")
        .to_string();
    assert!(
        error.starts_with("b.avsc: ") && error.contains("a.avsc"),
        "{error}"
    );
}

fn with_envelope(envelope: &str) -> Result<Avro, SchemaError> {
    let folder = tempfile::tempdir().expect("a folder");
    let (schema, other) = (
        folder.path().join("CrateSealed.avsc"),
        folder.path().join("envelope.avsc"),
    );
    fs::write(&schema, record("")).expect("written");
    fs::write(&other, envelope).expect("written");
    Avro::load(&Schemas {
        files: vec![schema],
        envelope: Some(other),
        unknown_members: UnknownMembers::Warn,
    })
}

#[test]
fn another_envelope_may_have_some_of_the_fields_in_another_order() {
    let mut avro = with_envelope(
        r#"{"type":"record","name":"E","fields":[{"name":"delivered","type":["null","boolean"]},
        {"name":"model_type","type":["string","null"]},{"name":"payload","type":"bytes"},
        {"name":"event_date","type":"long"},{"name":"event_type","type":"string"}]}"#,
    )
    .expect("an envelope");
    let mut event = event("{}");
    (event.model_type, event.event_date) = (None, 1);
    let message = hex(avro.encode(&event).expect("encodes"));
    let payload = hex(avro.payload(&event).expect("encodes"));
    let wanted = format!("020002{}{payload}02{}{}", "14", "16", hex(b"CrateSealed"));
    assert_eq!(message[20..], wanted);
}

#[test]
fn a_null_column_without_a_null_branch_fails_naming_the_column() {
    let envelope = r#"{"type":"record","name":"E","fields":[{"name":"model_id","type":"string"}]}"#;
    let mut avro = with_envelope(envelope).expect("an envelope");
    let mut event = event("{}");
    event.model_id = None;
    let failure = avro.encode(&event).expect_err("null");
    assert!(
        failure.detail.contains("column model_id is null"),
        "{failure}"
    );
}

#[test]
fn an_envelope_that_no_row_fills_is_refused() {
    for (envelope, words) in [
        (
            r#"{"type":"record","name":"E","fields":[{"name":"tenant","type":"string"},{"name":"id","type":"string"}]}"#,
            "tenant",
        ),
        (
            r#"{"type":"record","name":"E","fields":[{"name":"id","type":"long"}]}"#,
            "field id is \"long\"",
        ),
        (
            r#"{"type":"record","name":"E","fields":[{"name":"event_date","type":["null","string"]}]}"#,
            "event_date is [\"null\",\"string\"]",
        ),
        (
            r#"{"type":"enum","name":"E","symbols":[]}"#,
            "must be a record",
        ),
        ("[]", "must be a record"),
    ] {
        let error = with_envelope(envelope).expect_err(envelope);
        assert!(error.what.contains(words), "{error}");
        assert!(error.file.ends_with("envelope.avsc"), "{error}");
    }
}

#[test]
fn a_file_that_cannot_be_read_is_named() {
    let schemas = Schemas {
        files: vec!["nowhere/X.avsc".into()],
        envelope: None,
        unknown_members: UnknownMembers::Warn,
    };
    let error = Avro::load(&schemas).expect_err("not there").to_string();
    assert!(
        error.starts_with("nowhere/X.avsc: cannot be read: "),
        "{error}"
    );
}
