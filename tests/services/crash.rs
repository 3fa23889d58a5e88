//! `synchronous_commit = off`, and the server crashes: what the crash takes from the table was never published, and what it leaves is.
//!
//! A commit is then answered before it is on the disk, and Headwater reads of other sessions' commits what the walsender sends. Were
//! that more than what is on the disk, the topic would hold events that no table has.

use std::collections::HashSet;

use headwater_testkit::{Kafka, Postgres, check, long};

use crate::failover::{carries_again, load, more};
use crate::scene::Scene;
use crate::standby::ids;

/// A commit that is answered when it is on the disk, with all before it.
const FLUSH: &str = "SET synchronous_commit = on; CREATE TABLE t (); DROP TABLE t";

#[tokio::test]
async fn what_a_crash_takes_was_never_published_on_postgres_15() {
    what_a_crash_takes_was_never_published(15).await;
}

#[tokio::test]
async fn what_a_crash_takes_was_never_published_on_postgres_17() {
    what_a_crash_takes_was_never_published(17).await;
}

#[tokio::test]
async fn what_a_crash_takes_was_never_published_on_postgres_18() {
    what_a_crash_takes_was_never_published(18).await;
}

async fn what_a_crash_takes_was_never_published(version: u32) {
    // GIVEN a pipeline at work, and a server that answers commits long before they are on its disk
    let settings = [
        ("synchronous_commit", "off"),
        ("wal_writer_delay", "10s"),
        ("wal_writer_flush_after", "1GB"),
        ("fsync", "on"),
    ];
    let postgres = Postgres::start(version, &settings);
    let scene = Scene::on(&postgres, Kafka::shared(), "crash").await;
    scene.init();
    let mut run = scene.start().await;
    let writing = load(&scene.namespace, 54).start(&scene.database.url());

    // WHEN it is killed under load, with commits on its disk and others that are not there yet
    for crash in 1..=if long() { 10 } else { 3 } {
        more(&writing).await;
        scene.database.execute(FLUSH).await;
        more(&writing).await;
        postgres.kill9();
        postgres.start_again();
        carries_again(&mut run, crash + 1).await;
    }
    more(&writing).await;
    let answered = writing.stop().await;
    scene.database.execute(FLUSH).await;

    // THEN commits that were answered are gone
    let held = scene.committed_in(&scene.namespace).await;
    let gone = &ids(&answered) - &ids(&held);
    assert!(!gone.is_empty(), "no crash took anything");

    // AND the topic holds what the table has: all of it, and nothing else
    let verdict = scene.stop_and_judge(run, &held).await;
    println!("{} taken by {version}'s crashes; {verdict}", gone.len());
    verdict.assert_at_least_once();
    let missed = check(&answered, &scene.consume().await).lost;
    assert_eq!(HashSet::from_iter(missed), gone);
}
