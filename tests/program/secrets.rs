//! Whatever is wrong with a configuration is told without a secret that stands in it or beside it.

use std::fs;

use headwater_testkit::Canaries;

use crate::{headwater, stderr, stdout};

const GOOD: &str = r#"name = "shop"
[source]
url = "postgres://u@127.0.0.1:1/shop"
[encode]
format = "json"
[admin]
listen = "off"
[sink]
brokers = "127.0.0.1:1"
"#;

/// Each command refuses the configuration, in which every `CANARY` is one, as is the variable `SECRET`; and none of them is
/// told.
fn refused_without(text: &str, files: &[(&str, &str)], variable: Option<&str>) {
    let mut canaries = Canaries::default();
    let mut planted = |text: &str| {
        let mut pieces = text.split("CANARY");
        let first = pieces.next().unwrap_or_default().to_owned();
        pieces.fold(first, |all, piece| all + &canaries.plant("conf") + piece)
    };
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("headwater.toml"), planted(text)).unwrap();
    for (name, text) in files {
        fs::write(folder.path().join(name), planted(text)).unwrap();
    }
    let secret = planted("CANARY");
    for args in [&["check"][..], &["check", "--format", "json"], &["run"]] {
        let mut command = headwater(folder.path(), args);
        command.env("SECRET", &secret);
        if let Some(variable) = variable {
            command.env(variable, &secret);
        }
        let output = command.output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        let code = output.status.code();
        assert!(matches!(code, Some(2 | 3)), "{text}: {code:?}, {said}");
        canaries.assert_unseen(&format!("{args:?} of\n{text}"), &said);
        // It would be silent about a secret that it never looked at.
        let waits = "does not answer within";
        assert!(!said.contains(waits), "{text}: nothing is wrong: {said}");
    }
}

/// Nobody but the database is waited for.
fn with_source(lines: &str) -> String {
    let stdout = "kind = \"stdout\"\n[position]\nfile = \"position\"";
    let alone = GOOD.replace("brokers = \"127.0.0.1:1\"", stdout);
    alone.replace("[encode]", &format!("{lines}\n[encode]"))
}

fn with_sink(lines: &str) -> String {
    format!("{GOOD}{lines}\n")
}

#[test]
fn of_a_url_that_does_not_parse_no_piece_is_shown() {
    for url in [
        "postgres://u:CANARY@h/d",
        "postgres://u:CANARY@h:port/d",
        "postgres://u:p@h:CANARY/d",
        "postgres://u:p?CANARY@h/d",
        "postgres://u:p#CANARY@h:p:p/d",
        "postgres://u:%zzCANARY@h/d",
        "postgres://u@h/d?pasword=CANARY",
        "postgres://u@h/d?sslkey=CANARY",
        "postgres//u:CANARY@h/d",
        "postgres:u:CANARY@h/d",
        "postgres://CANARY",
        "mysql://u:CANARY@h/d",
        "CANARY",
        "${SECRET}",
        "postgres://u:${SECRET}@h:port/d",
    ] {
        let text = GOOD.replace("postgres://u@127.0.0.1:1/shop", url);
        refused_without(&text, &[], None);
    }
}

#[test]
fn a_secret_under_a_wrong_key_or_of_a_wrong_type_is_not_shown() {
    for line in [
        "passwort = \"CANARY\"",
        "tls = { password = \"CANARY\" }",
        "password = [\"CANARY\"]",
        "password = { CANARY = 1 }",
        "password = { value = \"CANARY\" }",
        "password = \"CANARY",
        "password = CANARY",
        "password = 'CANARY' CANARY",
        "password = \"CANARY\"\npassword = \"CANARY\"",
        "password = \"CANARY\"\npassword_file = \"CANARY\"",
        "password = \"CANARY\"\npassword_command = \"echo CANARY\"",
        "password = \"CANARY${NOBODY_SETS_THIS}\"",
        "password = \"CANARY${\"",
        "password_command = [\"CANARY\"]",
        "password_command = \"echo CANARY; exit 1\"",
        "password_command = \"printf 'CANARY\\\\377'\"",
    ] {
        refused_without(&with_source(line), &[], None);
    }
    for lines in [
        "sasl = \"CANARY\"",
        "sasl = { password = \"CANARY\" }",
        "sasl = { mechanism = \"PLAIN\", username = \"u\", passwort = \"CANARY\" }",
        "sasl = { mechanism = \"PLAIN\", username = \"u\", password = [\"CANARY\"] }",
        "sasl = { mechanism = \"PLAIN\", username = \"u\", password_command = \"echo CANARY; exit 1\" }",
        "sasl = { mechanism = \"${SECRET}\", username = \"u\", password = \"CANARY\" }",
        "sasl = { mechanism = \"PLAIN\", username = \"u\", password = \"CANARY\", client_secret = \"CANARY\" }",
        "linger = \"${SECRET}\"",
        "compression = \"${SECRET}\"",
    ] {
        refused_without(&with_sink(lines), &[], None);
    }
    for rest in [
        "token_endpoint = \"https://u:CANARY@h/t\", client_secret = \"CANARY\"",
        "token_endpoint = \"http://h/?CANARY\", client_secret = \"CANARY\"",
        "token_endpoint = \"${SECRET}\", client_secret = \"CANARY\"",
        "token_endpoint = \"https://h/t\", client_secrets = \"CANARY\"",
        "token_endpoint = \"https://h/t\", client_secret = [\"CANARY\"]",
        "token_endpoint = \"https://h/t\", client_secret = \"CANARY\", client_secret_file = \"CANARY\"",
        "token_endpoint = \"https://h/t\", client_secret = \"CANARY\", password = \"CANARY\"",
        "token_endpoint = \"http://127.0.0.1:1/t\", client_secret_command = \"echo CANARY; exit 1\"",
    ] {
        let sasl = format!(
            "sasl = {{ mechanism = \"OAUTHBEARER\", client_id = \"c\", {rest} }}\ntls = {{}}"
        );
        refused_without(&with_sink(&sasl), &[], None);
    }
    let brokers = GOOD.replace("127.0.0.1:1\"\n", "u:CANARY@kafka:9092\"\n");
    refused_without(&brokers, &[], None);
    refused_without("source = \"CANARY\"", &[], None);
    refused_without("CANARY", &[], None);
}

#[test]
fn a_secret_in_a_property_that_librdkafka_does_not_take_is_not_shown() {
    for property in [
        "\"sasl.pasword\" = \"CANARY\"",
        "\"ssl.key.password\" = [\"CANARY\"]",
        "\"acks\" = \"CANARY\"",
        "\"ssl.key.pem\" = \"CANARY\"\n\"security.protocol\" = \"ssl\"",
        "\"ssl.ca.pem\" = \"CANARY\"\n\"security.protocol\" = \"ssl\"",
        "\"ssl.certificate.pem\" = \"CANARY\"\n\"security.protocol\" = \"ssl\"",
        "\"security.protocol\" = \"${SECRET}\"",
        "\"security.protocol\" = \"CANARY\"",
        "\"sasl.mechanism\" = \"CANARY\"\n\"security.protocol\" = \"sasl_plaintext\"",
        "\"debug\" = \"CANARY\"",
        "\"socket.timeout.ms\" = \"CANARY\"",
        "\"socket.keepalive.enable\" = \"${SECRET}\"",
        "\"broker.address.family\" = \"${SECRET}\"",
    ] {
        let lines = format!("[sink.properties]\n{property}");
        refused_without(&with_sink(&lines), &[], None);
    }
}

#[test]
fn a_secret_in_a_misspelt_variable_is_not_shown() {
    for variable in [
        "HEADWATER__SOURCE__PASWORD",
        "HEADWATER__SINK__SASL__PASSWORT",
        "HEADWATER__SINK__SASL__PASSWORD",
        "HEADWATER__SINK__PROPERTIES__SASL_PASWORD",
        "HEADWATER__SOURCE__URL",
    ] {
        refused_without(GOOD, &[], Some(variable));
    }
}

#[test]
fn of_a_file_that_holds_no_key_or_token_nothing_is_shown() {
    let broken = "-----BEGIN PRIVATE KEY-----\nCANARY\n-----END PRIVATE KEY-----\n";
    let encrypted = broken.replace("PRIVATE", "ENCRYPTED PRIVATE");
    for key in ["CANARY", broken, &encrypted] {
        let files = [("key", key), ("cert", "CANARY")];
        let tls = "tls = { mode = \"verify-full\", cert = \"cert\", key = \"key\" }";
        refused_without(&with_source(tls), &files, None);
        refused_without(&with_sink(tls), &files, None);
        let properties =
            "[sink.properties]\n\"security.protocol\" = \"ssl\"\n\"ssl.key.password\" = \"CANARY\"
\"ssl.key.location\" = \"key\"\n\"ssl.certificate.location\" = \"cert\"";
        refused_without(&with_sink(properties), &files, None);
    }
    let token = "listen = \"127.0.0.1:1\"\ntoken_file = \"token\"";
    let text = GOOD.replace("listen = \"off\"", token);
    let mut canaries = Canaries::default();
    let folder = tempfile::tempdir().unwrap();
    fs::write(folder.path().join("headwater.toml"), text).unwrap();
    let words = format!("{} {}", canaries.plant("token"), canaries.plant("token"));
    fs::write(folder.path().join("token"), words).unwrap();
    for command in ["run", "status"] {
        let output = headwater(folder.path(), &[command]).output().unwrap();
        let said = stdout(&output) + &stderr(&output);
        assert!(!output.status.success(), "{said}");
        canaries.assert_unseen(command, &said);
    }
}
