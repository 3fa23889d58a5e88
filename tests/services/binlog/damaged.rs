//! A log whose bytes were changed on the server's disk: nothing of it is believed, and nothing is passed over.

use std::time::Duration;

use headwater_testkit::{Outbox, Written};

use super::BinlogScene;
use crate::scene::{Event, LIMIT, on_every_binlog};

on_every_binlog!(a_damaged_log_is_read_up_to_the_damage: "damaged", own server, shared kafka);

async fn a_damaged_log_is_read_up_to_the_damage(scene: BinlogScene<'_>) {
    // GIVEN a pipeline that was stopped, and three events that it has not read, under keys of their own
    let mysql = scene.database.mysql();
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(3).await;
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;
    let [before, damaged, after] =
        ["before_it", "damaged_one", "after_it"].map(|key| Event::new(&scene.namespace, key, 1));
    let file = mysql.binlog().await;
    for event in [&before, &damaged, &after] {
        scene.database.execute(&scene.insert(event)).await;
    }
    mysql.execute("FLUSH BINARY LOGS").await;

    // WHEN one letter of the second one is changed in the log, on the disk
    scene.database.stop_server();
    let place = mysql.damage_binlog(&file, &damaged.key);
    scene.database.start_server_again();

    // THEN it is read three times, the event that holds the letter is named, and only what is before it is published
    written.committed.push(before.committed());
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    let said = run.log();
    assert_eq!(said.matches("trying again").count(), 2, "{said}");
    let named = offset_after(&said, &format!("the event at {file}:"));
    assert!(mysql.binlog_event(&file, named).contains(&place), "{said}");
    assert!(said.contains("checksum"), "{said}");
    only_arrived(&scene, &written).await;

    // AND so it is at the next start
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    only_arrived(&scene, &written).await;

    // AND when the server itself looks at its log first
    let look = if mysql.server().is_mariadb() {
        "SET GLOBAL master_verify_checksum = ON"
    } else {
        "SET GLOBAL source_verify_checksum = ON"
    };
    mysql.execute(look).await;
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    let said = run.log();
    for words in [
        "the server ended the replication at",
        &file,
        "headwater adopt",
    ] {
        assert!(said.contains(words), "no {words}: {said}");
    }
    only_arrived(&scene, &written).await;
}

async fn only_arrived(scene: &BinlogScene<'_>, written: &Written) {
    let verdict = scene.judge_within(written, Duration::ZERO).await;
    verdict.assert_exactly_once();
}

/// The number that stands behind these words.
fn offset_after(said: &str, words: &str) -> u64 {
    let (_, after) = said
        .rsplit_once(words)
        .unwrap_or_else(|| panic!("no {words}: {said}"));
    let digits: String = after.chars().take_while(char::is_ascii_digit).collect();
    digits.parse().unwrap_or_else(|e| panic!("{e}: {said}"))
}
