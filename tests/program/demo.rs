//! `headwater demo`: the whole path with nothing installed.

use std::collections::HashSet;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::{code, headwater, run, stderr, stdout};

fn demo(args: &[&str]) -> (Vec<Value>, String) {
    let folder = tempfile::tempdir().unwrap();
    let output = run(folder.path(), &[&["demo"], args].concat());
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    let messages = stdout(&output)
        .lines()
        .map(|line| serde_json::from_str(line).expect("each line is JSON"))
        .collect();
    (messages, stderr(&output))
}

#[test]
fn it_publishes_every_event_once_and_says_so() {
    let (messages, summary) = demo(&["--events", "57", "--rate", "2000"]);
    assert_eq!(messages.len(), 57, "{summary}");
    let ids: HashSet<&str> = messages
        .iter()
        .filter_map(|m| m["value"]["id"].as_str())
        .collect();
    assert_eq!(ids.len(), 57);
    assert!(summary.contains("lost        0"), "{summary}");
    assert!(summary.contains("committed   57 events"), "{summary}");
}

#[test]
fn a_message_has_its_topic_its_key_and_the_row() {
    let (messages, _) = demo(&["--events", "3", "--rate", "1000"]);
    let message = &messages[0];
    assert_eq!(message["topic"], "ekbatan.demo.wallet");
    assert_eq!(message["key"], message["value"]["model_id"]);
    assert_eq!(message["value"]["payload"]["modelName"], "Wallet");
    assert!(message["value"]["delivered"].is_boolean());
}

#[test]
fn sentinels_rollbacks_and_updates_never_become_messages() {
    let (messages, summary) = demo(&["--events", "40", "--rate", "5000"]);
    assert!(
        messages
            .iter()
            .all(|m| m["value"]["event_type"].is_string())
    );
    let number = |line: &str| -> u64 {
        let line = summary
            .lines()
            .find(|l| l.starts_with(line))
            .expect("the line");
        line.split_whitespace()
            .find_map(|word| word.parse().ok())
            .expect("a number")
    };
    assert!(number("skipped") > 0, "{summary}");
    assert!(number("never seen") > 0, "{summary}");
}

#[test]
fn interrupted_it_still_delivers_all_that_was_committed() {
    let folder = tempfile::tempdir().unwrap();
    let child = headwater(
        folder.path(),
        &["demo", "--events", "1000000", "--rate", "5000"],
    )
    .stdout(Stdio::null())
    .stderr(Stdio::piped())
    .spawn()
    .unwrap();
    std::thread::sleep(Duration::from_millis(1500));
    let sent = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(sent.unwrap().success());
    let output = child.wait_with_output().unwrap();
    assert_eq!(code(&output), Some(0), "{}", stderr(&output));
    assert!(
        stderr(&output).contains("lost        0"),
        "{}",
        stderr(&output)
    );
}
