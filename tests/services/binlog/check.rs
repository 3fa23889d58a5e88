//! What `check` finds out about a log: how long it will still be there, and who else reads it under our number.

use std::time::Instant;

use headwater_testkit::{Output, unique};
use tokio::time::sleep;

use super::{BinlogScene, SOON};
use crate::scene::{LIMIT, headwater, on_every_binlog};

/// Of a pipeline that is about as far behind as the server keeps its log.
const BEHIND: &str = "what was read last was committed";

on_every_binlog!(a_log_that_goes_before_it_is_read_is_told: "expiry", own server, shared kafka);

async fn a_log_that_goes_before_it_is_read_is_told(scene: BinlogScene<'_>) {
    // GIVEN a pipeline that was stopped, and has read everything, on a server that keeps its log for some hours
    let mysql = scene.database.mysql();
    keep_for(&scene, 36_000).await;
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    let found = look(&scene);
    assert!(found.stdout.contains("10 hours"), "{}", found.stdout);

    // WHEN the server keeps it for some seconds only, THEN that is a warning, but nothing waits to be read
    keep_for(&scene, 4).await;
    let found = look(&scene);
    assert!(found.stdout.contains("logs for 4 s"), "{}", found.stdout);
    assert!(!found.stdout.contains(BEHIND), "{}", found.stdout);

    // WHEN an event waits to be read, THEN that is told in time
    written.add(scene.commit_events(1).await);
    let end = Instant::now() + LIMIT;
    while !look(&scene).stdout.contains(BEHIND) {
        assert!(Instant::now() < end, "{}", look(&scene).stdout);
        sleep(SOON).await;
    }

    // AND nothing of it is left once it was read
    let run = scene.start().await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    mysql.execute("FLUSH BINARY LOGS").await;
    let found = look(&scene);
    assert!(!found.stdout.contains(BEHIND), "{}", found.stdout);
}

async fn keep_for(scene: &BinlogScene<'_>, seconds: u32) {
    let sql = format!("SET GLOBAL binlog_expire_logs_seconds = {seconds}");
    scene.database.mysql().execute(&sql).await;
}

/// Warnings are no reason to fail.
#[track_caller]
fn look(scene: &BinlogScene<'_>) -> Output {
    let found = scene.headwater.run(&["check"]);
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);
    found
}

on_every_binlog!(a_taken_number_is_found: "number", shared server, shared kafka);

async fn a_taken_number_is_found(mut scene: BinlogScene<'_>) {
    // GIVEN a pipeline at work under a number of its own
    use headwater_testkit::Outbox;
    let number = 500_000 + u32::from(scene.database.port()) * 7;
    scene.pipeline.source = format!("{}server_id = {number}\n", scene.pipeline.source);
    scene.configure();
    scene.init();
    let mut run = scene.start().await;
    may_see_other_replicas(&scene).await;

    // WHEN it is looked at, THEN that is its own
    let found = scene.headwater.run(&["check"]);
    assert_eq!(found.code, 0, "{}{}", found.stdout, found.stderr);

    // WHEN another pipeline has the same number, THEN who else has it is told, and how to mend it
    let mut second = scene.pipeline.clone();
    second.name = unique("number");
    let second = headwater(&second);
    assert_eq!(second.run(&["init"]).code, 0);
    let found = second.run(&["check"]);
    assert_eq!(found.code, 3, "{}{}", found.stdout, found.stderr);
    let taken = format!("server_id {number}");
    for word in [&taken, &scene.pipeline.name, "source.server_id"] {
        assert!(found.stdout.contains(word), "no {word}: {}", found.stdout);
    }

    // AND looking has thrown nobody out
    let written = scene.commit_events(3).await;
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;
}

/// MariaDB shows them only to those who may do more than read the log.
async fn may_see_other_replicas(scene: &BinlogScene<'_>) {
    if scene.database.mysql().server().is_mariadb() {
        let user = scene.database.name();
        let grant = format!("GRANT REPLICATION MASTER ADMIN ON *.* TO '{user}'@'%'");
        scene.database.execute(&grant).await;
    }
}
