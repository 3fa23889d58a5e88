//! What schema files may be, and what is said about those that cannot be used.

use std::fs;
use std::path::PathBuf;

use prost_reflect::prost::Message;
use prost_reflect::prost_types::FileDescriptorSet;
use tempfile::TempDir;

use super::{event, hex};
use crate::notice::UnknownMembers;
use crate::protobuf::Protobuf;
use crate::{SchemaError, Schemas};

/// Files in a folder of their own; those named in `listed` are the encoder's.
fn load(
    files: &[(&str, &str)],
    listed: &[&str],
    envelope: Option<&str>,
) -> (TempDir, Result<Protobuf, SchemaError>) {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        let path = folder.path().join(name);
        fs::create_dir_all(path.parent().expect("a folder")).expect("made");
        fs::write(path, text).expect("written");
    }
    let schemas = Schemas {
        files: listed.iter().map(|name| folder.path().join(name)).collect(),
        envelope: envelope.map(|name| folder.path().join(name)),
        unknown_members: UnknownMembers::Warn,
    };
    let loaded = Protobuf::load(&schemas);
    (folder, loaded)
}

fn refused(files: &[(&str, &str)], listed: &[&str], words: &[&str]) -> SchemaError {
    let (_folder, loaded) = load(files, listed, None);
    let error = loaded.expect_err("refused");
    for word in words {
        assert!(
            error.to_string().contains(word),
            "{error} does not mention {word}"
        );
    }
    error
}

const LEG: &str = "syntax = \"proto3\"; package port.cargo; message Leg { string port = 1; }";
const CRATE: &str = "syntax = \"proto3\";\npackage port.cargo.proto;\nimport \"shared/leg.proto\";\nmessage CrateSealed { port.cargo.Leg leg = 1; }";

#[test]
fn imports_are_found_beside_the_file_and_in_the_folders_above() {
    for (crate_file, leg_file) in [
        ("crate.proto", "shared/leg.proto"),
        ("port/cargo/crate.proto", "shared/leg.proto"),
        ("port/cargo/crate.proto", "port/cargo/shared/leg.proto"),
    ] {
        let (_folder, loaded) = load(&[(crate_file, CRATE), (leg_file, LEG)], &[crate_file], None);
        let mut encoder = loaded.expect("found");
        let bytes = encoder
            .payload(&event("CrateSealed", "{\"leg\":{\"port\":\"x\"}}"))
            .map(hex);
        assert_eq!(bytes.as_deref(), Ok("0a030a0178"));
    }
}

#[test]
fn a_file_may_be_listed_and_imported_under_any_name() {
    let leg = "syntax = \"proto3\"; package port.cargo.proto; message Leg { string port = 1; }";
    let dock = "syntax = \"proto3\"; package port.cargo.proto; import \"cargo/leg.proto\"; message Dock { Leg leg = 1; }";
    let sealed = "syntax = \"proto3\"; package port.cargo.proto; import \"leg.proto\"; import \"dock.proto\"; message CrateSealed { Leg leg = 1; Dock dock = 2; }";
    let files = [
        ("cargo/leg.proto", leg),
        ("cargo/dock.proto", dock),
        ("cargo/crate.proto", sealed),
    ];
    let listed = [
        "cargo/leg.proto",
        "cargo/crate.proto",
        "cargo/dock.proto",
        "cargo/../cargo/leg.proto",
    ];
    let (_folder, loaded) = load(&files, &listed, None);
    let names = [
        "port.cargo.proto.CrateSealed",
        "port.cargo.proto.Dock",
        "port.cargo.proto.Leg",
    ];
    assert_eq!(loaded.expect("no clash").schemas(), names);
}

#[test]
fn a_file_that_only_others_import_may_be_listed() {
    let files = [
        ("crate.proto", CRATE),
        ("shared/leg.proto", LEG),
        ("other/shared/leg.proto", LEG),
    ];
    let (_folder, loaded) = load(&files, &["shared/leg.proto", "crate.proto"], None);
    assert_eq!(
        loaded.expect("is imported").schemas(),
        ["port.cargo.proto.CrateSealed"]
    );
    let words = [
        "other/shared/leg.proto",
        "port.cargo.Leg",
        "<namespace>.proto.<EventType>",
    ];
    refused(&files, &["other/shared/leg.proto", "crate.proto"], &words);
}

#[test]
fn files_that_cannot_be_used_are_named_with_the_line_and_what_is_wrong() {
    let broken = "syntax = \"proto3\";\npackage a.proto;\n\nmessage A { strin g = 1 }";
    let error = refused(&[("a.proto", broken)], &["a.proto"], &["a.proto:4: "]);
    assert_eq!(error.line, Some(4));
    let unknown = "syntax = \"proto3\";\npackage a.proto;\nmessage A {\n  Leg leg = 1;\n}";
    let error = refused(&[("a.proto", unknown)], &["a.proto"], &["Leg"]);
    assert_eq!(error.line, Some(4));
    let error = refused(
        &[("crate.proto", CRATE)],
        &["crate.proto"],
        &["shared/leg.proto", "not found"],
    );
    assert_eq!(error.line, Some(3));
    let in_import = [
        ("crate.proto", CRATE),
        ("shared/leg.proto", "syntax = \"proto3\";\nmessage {"),
    ];
    let error = refused(&in_import, &["crate.proto"], &[]);
    assert!(
        error.file.ends_with("shared/leg.proto") && error.line == Some(2),
        "{error}"
    );
    let circle = [
        (
            "a.proto",
            "syntax = \"proto3\"; package a.proto; import \"b.proto\"; message A { }",
        ),
        (
            "b.proto",
            "syntax = \"proto3\"; package a.proto; import \"a.proto\"; message B { }",
        ),
    ];
    refused(&circle, &["a.proto"], &["a.proto -> b.proto -> a.proto"]);
    refused(&[], &["none.proto"], &["none.proto", "cannot be read"]);
    refused(
        &[(
            "a.proto",
            "edition = \"2023\"; package a.proto; message A { }",
        )],
        &["a.proto"],
        &["edition", "proto3"],
    );
    refused(&[("a.proto", "")], &["a.proto"], &["no message"]);
    let nested = "syntax = \"proto3\"; package a; message proto { message A { } }";
    refused(
        &[("a.proto", nested)],
        &["a.proto"],
        &["a.proto", "<EventType>"],
    );
}

#[test]
fn two_fields_with_one_json_name_are_refused_with_what_to_do() {
    let text = "syntax = \"proto2\"; package a.proto;\nmessage A {\n optional int32 a_b = 1;\n optional int32 aB = 2; }";
    refused(
        &[("a.proto", text)],
        &["a.proto"],
        &["a.proto:4", "JSON name", "json_name of its own"],
    );
}

#[test]
fn a_package_that_no_row_has_is_refused_with_the_one_that_is_wanted() {
    let shop = "syntax = \"proto3\"; package shop; message Opened { }";
    refused(
        &[("shop.proto", shop)],
        &["shop.proto"],
        &[
            "shop.Opened",
            "for rows of namespace shop its package must be shop.proto",
        ],
    );
}

#[test]
fn the_envelope_is_no_payloads_schema() {
    refused(
        &[("action_event.proto", crate::protobuf::envelope::BUILT_IN)],
        &["action_event.proto"],
        &[
            "actionevent.protobuf.ActionEvent is the envelope",
            "built in",
            "encode.envelope",
        ],
    );
}

#[test]
fn a_mark_at_the_beginning_of_a_file_is_passed_over() {
    let files = [
        ("crate.proto", format!("\u{FEFF}{CRATE}")),
        ("shared/leg.proto", format!("\u{FEFF}{LEG}")),
    ];
    let files = files.each_ref().map(|(name, text)| (*name, text.as_str()));
    let (_folder, loaded) = load(&files, &["crate.proto"], None);
    assert_eq!(
        loaded.expect("compiles").schemas(),
        ["port.cargo.proto.CrateSealed"]
    );
}

#[test]
fn two_files_for_one_name_are_refused_naming_both() {
    let one = "syntax = \"proto3\"; package a.proto; message A { }";
    let other = "syntax = \"proto3\"; package a.proto; message A { int32 x = 1; }";
    refused(
        &[("one.proto", one), ("other.proto", other)],
        &["one.proto", "other.proto"],
        &["one.proto", "other.proto", "a.proto.A"],
    );
}

/// The descriptors of these files, imports first, without those whose name has `left_out` in it.
fn descriptor_set(files: &[(&str, &str)], root: &str, left_out: &str) -> Vec<u8> {
    let folder = TempDir::new().expect("a folder");
    for (name, text) in files {
        fs::write(folder.path().join(name), text).expect("written");
    }
    let mut set = protox::compile([folder.path().join(root)], [folder.path()]).expect("compiles");
    set.file
        .retain(|file| left_out.is_empty() || !file.name().contains(left_out));
    set.file.reverse();
    set.encode_to_vec()
}

fn load_set(sets: &[(&str, Vec<u8>)]) -> Result<Protobuf, SchemaError> {
    let folder = TempDir::new().expect("a folder");
    let paths: Vec<PathBuf> = sets
        .iter()
        .map(|(name, _)| folder.path().join(name))
        .collect();
    for (path, (_, bytes)) in paths.iter().zip(sets) {
        fs::write(path, bytes).expect("written");
    }
    Protobuf::load(&Schemas {
        files: paths,
        envelope: None,
        unknown_members: UnknownMembers::Warn,
    })
}

const FLAT_CRATE: &str = "syntax = \"proto3\"; package port.cargo.proto; import \"leg.proto\"; import \"google/protobuf/timestamp.proto\"; \
    message CrateSealed { Leg leg = 1; google.protobuf.Timestamp at = 2; repeated int32 n = 3 [packed = false]; }";
const FLAT_LEG: &str =
    "syntax = \"proto3\"; package port.cargo.proto; message Leg { string port = 1; }";

#[test]
fn descriptor_sets_are_read_in_any_order_and_may_lack_the_well_known_types() {
    let files = [("crate.proto", FLAT_CRATE), ("leg.proto", FLAT_LEG)];
    for left_out in ["", "google"] {
        let set = descriptor_set(&files, "crate.proto", left_out);
        let leg = descriptor_set(&files, "leg.proto", "");
        let mut encoder = load_set(&[("all.binpb", set), ("leg.desc", leg)])
            .expect("the same file twice is no clash");
        assert_eq!(
            encoder.schemas(),
            ["port.cargo.proto.CrateSealed", "port.cargo.proto.Leg"]
        );
        let json = r#"{"leg":{"port":"x"},"at":"1970-01-01T00:00:01Z","n":[1,2]}"#;
        let bytes = encoder.payload(&event("CrateSealed", json)).map(hex);
        assert_eq!(bytes.as_deref(), Ok("0a030a01781202080118011802"));
    }
}

#[test]
fn descriptor_sets_that_cannot_be_used_say_why() {
    let told = |bytes: Vec<u8>| {
        load_set(&[("a.pb", bytes)])
            .expect_err("refused")
            .to_string()
    };
    let files = [("crate.proto", FLAT_CRATE), ("leg.proto", FLAT_LEG)];
    assert!(
        told(descriptor_set(&files, "crate.proto", "leg"))
            .contains("crate.proto imports leg.proto")
    );
    assert!(told(b"no descriptors".to_vec()).contains("not a descriptor set"));
    assert!(told(Vec::new()).contains("without files"));
    let mut set = FileDescriptorSet::decode(&*descriptor_set(&files, "crate.proto", "google"))
        .expect("a set");
    for file in &mut set.file {
        if file.name() == "leg.proto" {
            file.dependency.push("crate.proto".to_owned());
        }
    }
    let circle = told(set.encode_to_vec());
    assert!(
        circle.contains("crate.proto -> leg.proto -> crate.proto"),
        "{circle}"
    );
    for file in &mut set.file {
        file.dependency.clear();
        file.syntax = Some("editions".to_owned());
    }
    assert!(told(set.encode_to_vec()).contains("edition"));
}

const TIMESTAMP: &str = "google.protobuf.Timestamp";

fn envelope(body: &str) -> Result<Protobuf, SchemaError> {
    let text = format!(
        "syntax = \"proto3\"; package io.ekbatan.events.streaming.actionevent.protobuf; import \"google/protobuf/timestamp.proto\"; {body}"
    );
    let sealed = "syntax = \"proto3\"; package port.cargo.proto; message CrateSealed { }";
    load(
        &[("e.proto", &text), ("crate.proto", sealed)],
        &["crate.proto"],
        Some("e.proto"),
    )
    .1
}

#[test]
fn another_envelope_may_have_fewer_fields_with_other_numbers() {
    let mut encoder = envelope(&format!(
        "message ActionEvent {{ bool delivered = 1; optional bytes payload = 2; {TIMESTAMP} event_date = 30; optional string id = 4; }}"
    ))
    .expect("an envelope");
    let mut event = event("CrateSealed", "{}");
    event.event_date = 0;
    event.delivered = headwater_core::event::Flag::Number(2);
    event.id = headwater_core::event::Text::Plain("");
    let bytes = encoder.encode(&event).map(hex);
    assert_eq!(bytes.as_deref(), Ok("080112002200f20100"));
}

#[test]
fn an_envelope_that_cannot_be_filled_is_refused_naming_the_fields() {
    for (body, words) in [
        (
            "message Other { }".to_owned(),
            ["ActionEvent", "protobuf.Other"],
        ),
        (
            "message ActionEvent { string id = 1; string colour = 2; int32 shape = 3; }".to_owned(),
            ["colour", "shape"],
        ),
        (
            "message ActionEvent { string event_date = 1; string payload = 2; }".to_owned(),
            [
                "event_date must be google.protobuf.Timestamp",
                "payload must be bytes",
            ],
        ),
        (
            "message ActionEvent { repeated string id = 1; int32 delivered = 2; }".to_owned(),
            ["id is repeated", "delivered must be bool"],
        ),
        (
            "message ActionEvent { oneof o { string id = 1; string namespace = 2; } }".to_owned(),
            ["id is in a oneof", "namespace is in a oneof"],
        ),
    ] {
        let error = envelope(&body).expect_err("refused").to_string();
        for word in words {
            assert!(error.contains(word), "{error} does not mention {word}");
        }
    }
}

#[test]
fn an_encoder_can_be_sent_to_another_thread() {
    fn is_send<T: Send>() {}
    is_send::<Protobuf>();
}
