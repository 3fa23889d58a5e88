//! No more rights are needed than those that the program prints: servers grant exactly these, and each is missed by name.

pub mod kafka;
mod postgres;

use headwater_testkit::PASSWORD;
use serde_json::Value;

use crate::scene::Scene;

/// The statements and commands that are to be run by an administrator, as `init --dry-run` and `check` print them before
/// anybody granted anything. The password is filled in.
pub fn printed(scene: &Scene<'_>) -> Vec<String> {
    let plan = scene.headwater.run(&["init", "--dry-run"]);
    let grants = plan.stdout.lines();
    let grants = grants.filter_map(|line| line.strip_prefix("--   "));
    let grants: Vec<&str> = grants.collect();
    assert!(!grants.is_empty(), "{plan:?}");

    let check = scene.headwater.run(&["check", "--format", "json"]);
    let findings: Vec<Value> = serde_json::from_str(&check.stdout).expect(&check.stdout);
    let rights = findings.iter().filter_map(|it| it["rights"].as_array());
    let rights: Vec<&str> = rights.flatten().filter_map(Value::as_str).collect();
    assert_eq!(rights, grants, "check says the same");
    let check = scene.headwater.run(&["check"]);
    for grant in &grants {
        assert!(check.stdout.contains(grant), "{}", check.stdout);
    }

    let filled = |grant: &&str| grant.replace("'...'", &format!("'{PASSWORD}'"));
    grants.iter().map(filled).collect()
}

/// Those for the database, or those for Kafka.
pub fn split(printed: Vec<String>) -> (Vec<String>, Vec<String>) {
    let is_sql = |grant: &String| !grant.starts_with("kafka-");
    printed.into_iter().partition(is_sql)
}
