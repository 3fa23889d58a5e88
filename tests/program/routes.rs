//! Routes and filters on a SQLite outbox with columns of its own, and the configuration in full.

use std::fs;
use std::path::Path;

use serde_json::Value;

use crate::sqlite::outbox;
use crate::{code, run, stderr, stdout};

/// Two events, the second of another tenant.
fn tenants(folder: &Path) {
    let database = outbox(folder);
    let at = "2026-06-11 10:22:47.000123";
    database
        .execute_batch(&format!(
            "ALTER TABLE events ADD COLUMN tenant TEXT;
             ALTER TABLE events ADD COLUMN weight REAL DEFAULT 1.5;
             INSERT INTO events (id, namespace, action_id, action_name, action_params, started_date, completion_date,
                 model_id, model_type, event_type, payload, event_date, delivered, tenant)
             VALUES ('e-1', 'shop', 'a', 'Open', '{{}}', '{at}', '{at}', 'm', 'Wallet', 'Opened', '{{\"customer\":{{\"id\":7}}}}', '{at}', 0, 'acme'),
                    ('e-2', 'shop', 'a', 'Open', '{{}}', '{at}', '{at}', 'm', NULL, 'Closed', '{{}}', '{at}', 0, 'umbrella')"
        ))
        .unwrap();
}

/// The configuration with more tables, and another snapshot.
fn configure(folder: &Path, more: &str) {
    let file = folder.join("headwater.toml");
    let text = fs::read_to_string(&file).unwrap();
    let text = text.replace("snapshot = \"never\"", "snapshot = \"only\"");
    fs::write(file, format!("{text}{more}")).unwrap();
}

fn messages(text: &str) -> Vec<Value> {
    text.lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect()
}

fn addresses(messages: &[Value]) -> Vec<String> {
    let told = |it: &Value| format!("{} {}", it["topic"], it["key"]);
    messages.iter().map(told).collect()
}

#[test]
fn columns_of_no_role_and_members_of_the_payload_reach_the_message() {
    let folder = tempfile::tempdir().unwrap();
    tenants(folder.path());
    let route = "[[route]]\ntopic = \"{tenant}\"\nkey = \"{payload.customer.id|id}\"\n";
    configure(folder.path(), route);
    let wanted = ["\"acme\" \"7\"", "\"umbrella\" \"e-2\""];
    let peeked = run(folder.path(), &["peek"]);
    assert_eq!(
        addresses(&messages(&stdout(&peeked))),
        wanted,
        "{}",
        stderr(&peeked)
    );
    assert_eq!(code(&run(folder.path(), &["init"])), Some(0));
    let ran = run(folder.path(), &["run"]);
    assert_eq!(
        addresses(&messages(&stdout(&ran))),
        wanted,
        "{}",
        stderr(&ran)
    );
}

#[test]
fn a_preset_makes_as_many_messages_as_it_has_routes_that_take_the_event() {
    let folder = tempfile::tempdir().unwrap();
    tenants(folder.path());
    configure(folder.path(), "[[route]]\npreset = \"ekbatan-routed\"\n");
    let peeked = run(folder.path(), &["peek"]);
    assert_eq!(
        addresses(&messages(&stdout(&peeked))),
        [
            "\"ekbatan.shop\" \"m\"",
            "\"ekbatan.shop.model.Wallet\" \"m\"",
            "\"ekbatan.shop.event.Opened\" \"m\"",
            "\"ekbatan.shop\" \"m\"",
            "\"ekbatan.shop.event.Closed\" \"m\"",
        ]
    );
}

#[test]
fn a_filtered_row_is_told_with_its_rule() {
    let folder = tempfile::tempdir().unwrap();
    tenants(folder.path());
    configure(
        folder.path(),
        "[filter]\nskip = [{ tenant = \"acm*\" }]\nonly = [{ event_type = \"Opened\" }]\n",
    );
    let peeked = run(folder.path(), &["peek"]);
    assert_eq!(stdout(&peeked), "");
    let says = stderr(&peeked);
    assert!(
        says.contains("(skipped: filter skip[1])") && says.contains("(skipped: filter only)"),
        "{says}"
    );
}

#[test]
fn a_column_that_the_table_lacks_is_told_with_its_line_and_those_that_there_are() {
    let folder = tempfile::tempdir().unwrap();
    tenants(folder.path());
    configure(folder.path(), "[[route]]\nwhere = { tenent = \"acme\" }\n");
    for command in ["peek", "run", "init", "check"] {
        let output = run(folder.path(), &[command]);
        assert_eq!(code(&output), Some(2), "{command}");
        let says = stderr(&output);
        let told = "headwater.toml:14: route.where.tenent: no column \"tenent\" in table main.events; there are seq, id, namespace";
        assert!(says.contains(told), "{command}: {says}");
    }
}

#[test]
fn the_configuration_in_full_is_a_configuration_and_holds_no_secret() {
    let folder = tempfile::tempdir().unwrap();
    let text = "name = \"shop\"\n[source]\nurl = \"postgres://u:canary@localhost/db\"\n[encode]\nformat = \"json\"\n\
                [[route]]\npreset = \"debezium\"\nwhere = { model_type = [\"A\", \"B*\"] }\n[filter]\nskip = [{ id = \"1\" }]\n\
                [sink]\nbrokers = \"localhost:9092\"\nproperties = { \"ssl.key.password\" = \"canary\" }\n[sink.topics.\"a.*\"]\npartitions = 3\n";
    fs::write(folder.path().join("headwater.toml"), text).unwrap();
    let shown = run(folder.path(), &["check", "--show-config"]);
    let shown = stdout(&shown);
    assert!(!shown.contains("canary"), "{shown}");
    for line in [
        "url = \"postgres://u:***@localhost/db\"",
        "slot = \"headwater_shop\"",
        "where = { \"model_type\" = [\"A\", \"B*\"] }",
        "topic = \"shop.eventlog.events\"",
        "key_format = \"debezium-json\"",
        "skip = [{ \"id\" = [\"1\"] }]",
        "properties.\"ssl.key.password\" = \"***\"",
        "[sink.topics.\"a.*\"]",
    ] {
        assert!(shown.lines().any(|it| it == line), "{line}\n{shown}");
    }
    fs::write(folder.path().join("headwater.toml"), &shown).unwrap();
    let again = run(folder.path(), &["check", "--show-config"]);
    assert_eq!(code(&again), Some(0), "{}", stderr(&again));
}
