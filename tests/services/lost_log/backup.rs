//! A server that was restored from a backup: its log is not the one that the position was taken from.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Postgres, Written, bulk_rows};
use tokio::time::sleep;

use super::{adopts, goes_on, has_run, nothing_more_was_published, refuses};
use crate::scene::{LIMIT, Scene};

#[tokio::test]
async fn a_server_that_went_back_in_time_is_refused_until_its_slot_is_adopted() {
    // GIVEN a pipeline that has run past a backup, and a server that was restored from it
    let postgres = Postgres::start(17, &[]);
    let scene = Scene::on(&postgres, Kafka::shared(), "back").await;
    let (mut written, gone) = has_run_past_a_backup(&scene, &[]).await;
    written.add(gone);

    // WHEN it is started, THEN a person is asked for
    let words = ["restored from a backup", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    nothing_more_was_published(&scene, &written).await;

    // AND after the slot was adopted it goes on
    adopts(&scene);
    goes_on(&scene, &mut written).await;
}

#[tokio::test]
async fn a_timeline_that_forked_before_the_position_is_refused_until_the_slot_is_adopted() {
    // GIVEN the same, but the server began a new timeline, and has since written more than was lost
    let settings = [("restore_command", "false")];
    let postgres = Postgres::start(17, &settings);
    let scene = Scene::on(&postgres, Kafka::shared(), "fork").await;
    let (mut written, gone) = has_run_past_a_backup(&scene, &["recovery.signal"]).await;
    written.add(gone);
    let client = scene.database.connect().await;
    let forked = bulk_rows(&client, &scene.namespace, 5000, 100).await;

    // WHEN it is started, THEN a person is asked for
    let words = ["timeline 2", "timeline 1", "headwater adopt"];
    refuses(&scene, "run", &words);
    refuses(&scene, "check", &words);
    nothing_more_was_published(&scene, &written).await;

    // AND after the slot was adopted it goes on, with what the new timeline holds
    adopts(&scene);
    written.add(forked);
    goes_on(&scene, &mut written).await;
}

/// Runs, is backed up, runs on, and is restored, with these files added. What the backup holds was published, and what it does not.
pub async fn has_run_past_a_backup(scene: &Scene<'_>, signals: &[&str]) -> (Written, Written) {
    scene.init();
    let held = has_run(scene).await;
    let postgres = scene.database.postgres();
    let folder = scene.database.ask("SHOW data_directory").await.unwrap();
    let (data, backup) = (folder.clone(), format!("{folder}.backup"));
    postgres.stop_fast();
    copy(&data, &backup);
    postgres.start_again();
    let run = scene.start().await;
    let client = scene.database.connect().await;
    let gone = bulk_rows(&client, &scene.namespace, 2000, 100).await;
    drop(client);
    let mut written = held.clone();
    written.add(gone.clone());
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();

    postgres.stop_fast();
    std::fs::remove_dir_all(&data).unwrap();
    copy(&backup, &data);
    for signal in signals {
        // A copy of a file of the server's, for it must be able to remove it.
        let file = Path::new(&data).join(signal);
        copy(&format!("{data}/PG_VERSION"), &file.display().to_string());
    }
    postgres.start_again();
    let end = Instant::now() + LIMIT;
    let recovering = "SELECT 'yes' WHERE pg_is_in_recovery()";
    while scene.database.ask(recovering).await.is_some() {
        assert!(Instant::now() < end, "the server stays in recovery");
        sleep(Duration::from_millis(50)).await;
    }
    (held, gone)
}

/// With owners and rights as they are.
fn copy(from: &str, to: &str) {
    let copied = Command::new("cp").args(["-a", from, to]).status();
    assert!(copied.unwrap().success(), "{from} is not copied to {to}");
}
