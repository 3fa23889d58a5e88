//! Schemas at start: whatever is wrong with them ends the program with exit code 2, before anything else is opened, and
//! names the file; and `check` tries them on the rows that are there.

use std::fs;
use std::path::PathBuf;

use serde_json::Value;
use tempfile::TempDir;

use crate::{code, run, stderr, stdout};

const OPENED: &str = r#"{
  "type": "record", "name": "Opened", "namespace": "shop.avro",
  "fields": [{"name": "amount", "type": "int"}]
}
"#;

const OPENED_PROTO: &str = r#"syntax = "proto3";
package shop.proto;
message Opened { int32 amount = 1; }
"#;

/// A folder with an outbox, a configuration and schemas.
struct Place(TempDir);

impl Place {
    /// `encode` are the lines of `[encode]`, from line 5.
    fn new(encode: &str, files: &[(&str, &str)]) -> Place {
        let place = Place(tempfile::tempdir().unwrap());
        let config = format!(
            "name = \"shop\"\nsource.url = \"sqlite:shop.db\"\nsource.snapshot = \"never\"\n[encode]\n{encode}\n\
             [sink]\nkind = \"stdout\"\n[position]\nfile = \"position.json\"\n[admin]\nlisten = \"off\"\n"
        );
        fs::write(place.path("headwater.toml"), config).unwrap();
        for (name, text) in files {
            let path = place.path(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let outbox = include_str!("../../schemas/outbox/sqlite.sql");
        place.database().execute_batch(outbox).unwrap();
        place
    }

    fn avro(files: &[(&str, &str)]) -> Place {
        Place::new("format = \"avro\"\nschemas = [\"s/*.avsc\"]", files)
    }

    fn protobuf(files: &[(&str, &str)]) -> Place {
        Place::new("format = \"protobuf\"\nschemas = [\"s/*.proto\"]", files)
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn database(&self) -> rusqlite::Connection {
        rusqlite::Connection::open(self.path("shop.db")).unwrap()
    }

    fn insert(&self, id: &str, event_type: Option<&str>, payload: &str) {
        self.database()
            .execute(
                "INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
                 model_id, model_type, event_type, payload, event_date, delivered) \
                 VALUES (?1, 'shop', 'a', 'Open', '{}', ?2, ?2, 'm', 'M', ?3, ?4, ?2, 0)",
                rusqlite::params![id, "2026-06-11 10:22:47.000123", event_type, payload],
            )
            .unwrap();
    }

    /// Every command that reads schemas ends with exit code 2 and says all of this.
    fn refused(&self, says: &[&str]) {
        for command in [&["run"][..], &["run", "--init"], &["peek"], &["check"]] {
            let output = run(self.0.path(), command);
            let said = format!("{}{}", stdout(&output), stderr(&output));
            assert_eq!(code(&output), Some(2), "{command:?}: {said}");
            for words in says {
                assert!(said.contains(words), "{command:?}: {words}: {said}");
            }
        }
        assert!(
            !self.path("position.json").exists(),
            "something was made before the schemas were read"
        );
    }

    fn findings(&self) -> Vec<(String, String)> {
        let output = run(self.0.path(), &["check", "--format", "json"]);
        let findings: Vec<Value> = serde_json::from_slice(&output.stdout)
            .unwrap_or_else(|e| panic!("{e}: {}{}", stdout(&output), stderr(&output)));
        let text = |finding: &Value, name| finding[name].as_str().unwrap().to_owned();
        let findings = findings.iter();
        findings
            .map(|it| (text(it, "level"), text(it, "what")))
            .collect()
    }

    #[track_caller]
    fn found(&self, level: &str, says: &[&str]) {
        let findings = self.findings();
        let fits = |(its, what): &(String, String)| {
            its == level && says.iter().all(|words| what.contains(words))
        };
        assert!(findings.iter().any(fits), "{level} {says:?}: {findings:#?}");
    }
}

#[test]
fn what_is_named_and_not_there_is_refused_with_the_keys_line() {
    let place = Place::avro(&[]);
    place.refused(&[
        "headwater.toml:6: encode.schemas",
        "s/*.avsc",
        "matches no file",
    ]);
    let list = "format = \"avro\"\nschemas = [\n\"s/a.avsc\",\n\"s/none.avsc\"]";
    let place = Place::new(list, &[("s/a.avsc", OPENED)]);
    place.refused(&["headwater.toml:8: encode.schemas", "s/none.avsc"]);
}

#[test]
fn what_is_no_file_is_refused() {
    let place = Place::avro(&[("s/a.avsc", OPENED), ("s/folder.avsc/x", "")]);
    place.refused(&[
        "headwater.toml:6: encode.schemas",
        "s/folder.avsc",
        "is a folder",
    ]);
    let place = Place::avro(&[("s/a.avsc", OPENED)]);
    std::os::unix::fs::symlink("nowhere", place.path("s/gone.avsc")).unwrap();
    place.refused(&[
        "headwater.toml:6: encode.schemas",
        "s/gone.avsc",
        "cannot be read",
    ]);
}

#[test]
fn a_wrong_ending_is_refused_and_the_right_ones_are_named() {
    let encode = "format = \"protobuf\"\nschemas = [\"s/a.avsc\"]";
    let place = Place::new(encode, &[("s/a.avsc", OPENED)]);
    place.refused(&["headwater.toml:6", "s/a.avsc", ".proto, .desc, .binpb, .pb"]);
}

#[test]
fn init_does_not_need_the_schemas() {
    let place = Place::avro(&[]);
    assert_eq!(code(&run(place.0.path(), &["init"])), Some(0));
    assert_eq!(code(&run(place.0.path(), &["adopt"])), Some(0));
}

#[test]
fn two_files_for_one_name_are_refused() {
    let place = Place::avro(&[("s/a.avsc", OPENED), ("s/b.avsc", OPENED)]);
    place.refused(&["s/b.avsc", "shop.avro.Opened", "s/a.avsc"]);
    let place = Place::protobuf(&[("s/a.proto", OPENED_PROTO), ("s/b.proto", OPENED_PROTO)]);
    place.refused(&["s/b.proto", "shop.proto.Opened", "s/a.proto"]);
}

#[test]
fn one_file_that_several_patterns_match_is_taken_once() {
    let encode = "format = \"avro\"\nschemas = [\"s/*.avsc\", \"s/a.avsc\", \"./s/../s/a*\"]";
    let place = Place::new(encode, &[("s/a.avsc", OPENED)]);
    place.found("ok", &["1 schema: shop.avro.Opened"]);
}

#[test]
fn broken_json_is_told_with_its_line() {
    let broken = "{\n  \"type\": \"record\",\n  \"name\" \"Opened\"\n}\n";
    let place = Place::avro(&[("s/a.avsc", OPENED), ("s/broken.avsc", broken)]);
    place.refused(&["s/broken.avsc:3: "]);
}

#[test]
fn a_file_that_is_not_text_is_refused() {
    let place = Place::avro(&[]);
    fs::create_dir(place.path("s")).unwrap();
    fs::write(place.path("s/a.avsc"), b"{\xff}").unwrap();
    place.refused(&["s/a.avsc"]);
}

#[test]
fn a_schema_that_is_no_record_is_refused() {
    let suit = r#"{"type": "enum", "name": "Opened", "namespace": "shop.avro", "symbols": ["A"]}"#;
    let place = Place::avro(&[("s/a.avsc", suit)]);
    place.refused(&["s/a.avsc", "shop.avro.Opened", "record"]);
}

#[test]
fn a_name_that_no_event_type_can_have_is_refused() {
    let elsewhere = OPENED.replace("shop.avro", "shop");
    let place = Place::avro(&[("s/a.avsc", &elsewhere)]);
    place.refused(&["s/a.avsc", "shop.Opened", "<namespace>.avro.<EventType>"]);
    let elsewhere = OPENED_PROTO.replace("shop.proto", "shop");
    let place = Place::protobuf(&[("s/a.proto", &elsewhere)]);
    place.refused(&["s/a.proto", "shop.Opened", "<namespace>.proto.<EventType>"]);
}

#[test]
fn broken_protobuf_is_told_with_its_line() {
    let broken = OPENED_PROTO.replace("= 1;", "= ;");
    let place = Place::protobuf(&[("s/a.proto", &broken)]);
    place.refused(&["s/a.proto:3: "]);
}

#[test]
fn a_missing_import_is_told() {
    let importing = OPENED_PROTO.replace("message", "import \"none.proto\";\nmessage");
    let place = Place::protobuf(&[("s/a.proto", &importing)]);
    place.refused(&["s/a.proto", "none.proto"]);
}

#[test]
fn a_file_that_only_others_import_may_be_among_the_files() {
    let importing = r#"syntax = "proto3";
package shop.proto;
import "money.proto";
message Opened { shop.Money amount = 1; }
"#;
    let money = "syntax = \"proto3\";\npackage shop;\nmessage Money { int32 cents = 1; }\n";
    let place = Place::protobuf(&[("s/a.proto", importing), ("s/money.proto", money)]);
    place.found("ok", &["1 schema: shop.proto.Opened"]);
}

#[test]
fn an_envelope_field_that_no_row_has_is_refused() {
    let encode = "format = \"avro\"\nschemas = [\"s/*.avsc\"]\nenvelope = \"envelope.avsc\"";
    let envelope = r#"{"type": "record", "name": "E", "namespace": "x",
      "fields": [{"name": "id", "type": "string"}, {"name": "tenant", "type": "string"}]}"#;
    let files = [("s/a.avsc", OPENED), ("envelope.avsc", envelope)];
    let place = Place::new(encode, &files);
    place.refused(&["envelope.avsc", "tenant"]);
}

#[test]
fn every_broken_file_is_told_and_not_only_the_first() {
    let elsewhere = OPENED.replace("shop.avro", "shop");
    let place = Place::avro(&[
        ("s/a.avsc", "{"),
        ("s/b.avsc", OPENED),
        ("s/c.avsc", &elsewhere),
        ("s/d.avsc", "\n["),
    ]);
    place.refused(&["s/a.avsc:1: ", "s/c.avsc", "s/d.avsc:2: "]);
    place.found("problem", &["s/a.avsc:1: "]);
    place.found("problem", &["s/c.avsc"]);
    place.found("problem", &["s/d.avsc:2: "]);
}

#[test]
fn check_tries_the_rows_against_their_schemas() {
    let place = Place::avro(&[("s/a.avsc", OPENED)]);
    place.insert("one", Some("Opened"), "{\"amount\": 1}");
    place.insert("two", Some("Opened"), "{\"amount\": \"secret\"}");
    place.insert(
        "three",
        Some("Opened"),
        "{\"amount\": 3, \"colour\": \"secret\"}",
    );
    place.insert("four", Some("Closed"), "{\"amount\": 1}");
    place.insert("five", None, "{}");
    assert_eq!(code(&run(place.0.path(), &["init"])), Some(0));
    place.found("ok", &["1 schema: shop.avro.Opened"]);
    place.found(
        "ok",
        &["(5): 2 can be published, 2 cannot, 1 would be skipped"],
    );
    place.found(
        "problem",
        &[
            "1 of the 3 latest rows of Opened in shop",
            "id two",
            "shop.avro.Opened.amount",
        ],
    );
    place.found(
        "problem",
        &[
            "1 of the 1 latest rows of Closed in shop",
            "id four",
            "shop.avro.Closed",
        ],
    );
    place.found("warning", &["colour", "shop.avro.Opened"]);
    let output = run(place.0.path(), &["check"]);
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("2 problems"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn with_fail_a_member_without_field_is_a_problem() {
    let encode = "format = \"avro\"\nschemas = [\"s/*.avsc\"]\nunknown_members = \"fail\"";
    let place = Place::new(encode, &[("s/a.avsc", OPENED)]);
    place.insert("one", Some("Opened"), "{\"amount\": 1, \"colour\": 2}");
    place.found(
        "problem",
        &["1 of the 1 latest rows of Opened in shop", "colour"],
    );
}

#[test]
fn peek_shows_a_binary_value_in_base64_and_notices_beside_it() {
    let place = Place::avro(&[("s/a.avsc", OPENED)]);
    place.insert("one", Some("Opened"), "{\"amount\": 1, \"colour\": 2}");
    let output = run(place.0.path(), &["peek"]);
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let line: Value = serde_json::from_str(&stdout(&output)).expect("one line of JSON");
    assert_eq!(line["encoding"], "base64");
    // The header of the envelope's single-object encoding.
    let value = line["value"].as_str().unwrap();
    assert!(value.starts_with("wwFzVcfq+tX4E"), "{value}");
    assert!(stderr(&output).contains("colour"), "{}", stderr(&output));
}

#[test]
fn rows_of_a_json_pipeline_are_tried_too() {
    let place = Place::new("format = \"json\"", &[]);
    place.found("ok", &["the table holds no rows to try"]);
    place.insert("good", Some("Opened"), "{}");
    place.insert("bad", Some("Opened"), "[1]");
    place.insert("none", None, "{}");
    place.found(
        "ok",
        &["(3): 1 can be published, 1 cannot, 1 would be skipped"],
    );
    place.found(
        "problem",
        &[
            "1 of the 2 latest rows of Opened in shop",
            "id bad",
            "not a JSON object",
        ],
    );
}

#[test]
fn no_more_than_the_latest_thousand_rows_are_tried() {
    let place = Place::new("format = \"json\"", &[]);
    let database = place.database();
    database.pragma_update(None, "synchronous", "off").unwrap();
    database
        .execute(
            "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1500) \
             INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date, \
             model_id, model_type, event_type, payload, event_date, delivered) \
             SELECT 'row-' || i, 'shop', 'a', 'Open', '{}', '2026-06-11 10:00:00.000000', '2026-06-11 10:00:00.000000', 'm', 'M', 'Opened', \
             CASE WHEN i <= 500 THEN '[]' ELSE '{}' END, '2026-06-11 10:00:00.000000', 0 FROM n",
            [],
        )
        .unwrap();
    place.found("ok", &["(1000): 1000 can be published, 0 cannot"]);
}
