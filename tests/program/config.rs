//! A bad configuration ends with exit code 2 and says where it is wrong, whatever the command.

use std::fs;

use crate::{code, headwater, run, stderr};

const GOOD: &str = r#"name = "shop"
[source]
url = "sqlite:shop.db"
[encode]
format = "json"
[sink]
kind = "stdout"
[position]
file = "position.json"
"#;

fn refused(text: &str, says: &[&str]) {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("headwater.toml"), text).unwrap();
    let output = run(folder.path(), &["run"]);
    assert_eq!(code(&output), Some(2), "{}", stderr(&output));
    for words in says {
        assert!(
            stderr(&output).contains(words),
            "{words}: {}",
            stderr(&output)
        );
    }
}

#[test]
fn an_unknown_key_is_told_with_its_line_and_the_nearest_one() {
    let text = GOOD.replace("kind =", "kidn =");
    refused(&text, &["headwater.toml:7", "sink.kidn", "sink.kind"]);
}

#[test]
fn a_template_that_cannot_be_understood_is_told_with_its_line() {
    let text = format!("{GOOD}[[route]]\nkey = \"{{model_id\"\n");
    refused(&text, &["headwater.toml:11", "key", "a { without its }"]);
}

#[test]
fn a_property_that_would_break_a_promise_is_refused_by_name() {
    let kafka = GOOD
        .replace("kind = \"stdout\"", "brokers = \"localhost:1\"")
        .replace("[position]\nfile = \"position.json\"\n", "");
    for property in [
        "acks",
        "enable.idempotence",
        "message.timeout.ms",
        "partitioner",
    ] {
        let text = format!("{kafka}[sink.properties]\n\"{property}\" = \"1\"\n");
        refused(&text, &["headwater.toml:9", property, "may not be set"]);
    }
}

#[test]
fn what_is_not_built_yet_is_refused_and_not_accepted_silently() {
    refused(
        &format!("{GOOD}[outbox]\nlayout = \"lease\"\n"),
        &["outbox.layout", "not built yet"],
    );
}

#[test]
fn the_environment_alone_is_enough() {
    let folder = tempfile::tempdir().unwrap();
    let output = headwater(folder.path(), &["run"])
        .env("HEADWATER__NAME", "shop")
        .env("HEADWATER__SOURCE__URL", "sqlite:none.db")
        .env("HEADWATER__ENCODE__FORMAT", "json")
        .env("HEADWATER__SINK__KIND", "stdout")
        .env("HEADWATER__POSITION__FILE", "position.json")
        .env("HEADWATER__ADMIN__LISTEN", "off")
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(3), "{}", stderr(&output));
    assert!(
        !stderr(&output).contains("there is no configuration"),
        "{}",
        stderr(&output)
    );
    let output = headwater(folder.path(), &["run"])
        .env("HEADWATER__NAME", "shop")
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(
        stderr(&output).contains("source.url"),
        "{}",
        stderr(&output)
    );
}

#[test]
fn an_unknown_variable_is_an_error_and_kubernetes_own_are_not() {
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("headwater.toml"), GOOD).unwrap();
    let output = headwater(folder.path(), &["check"])
        .env("HEADWATER__SINK__BROKRES", "x")
        .env("HEADWATER_PORT", "tcp://10.0.0.1:80")
        .output()
        .unwrap();
    assert_eq!(code(&output), Some(2));
    assert!(
        stderr(&output).contains("HEADWATER__SINK__BROKERS"),
        "{}",
        stderr(&output)
    );
    assert!(
        !stderr(&output).contains("HEADWATER_PORT"),
        "{}",
        stderr(&output)
    );
}
