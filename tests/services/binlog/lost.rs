//! A log that does not hold the remembered position any more: a person is needed, and nothing is passed over.

use std::time::{Duration, Instant};

use headwater_testkit::{Outbox, Written};
use tokio::time::sleep;

use super::BinlogScene;
use crate::scene::{LIMIT, on_every_binlog};

on_every_binlog!(a_purged_or_reset_log_is_told: "lost", own server, shared kafka);

async fn a_purged_or_reset_log_is_told(scene: BinlogScene<'_>) {
    // GIVEN a pipeline that was stopped, and events that it has not read
    scene.init();
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;
    scene.commit_events(5).await;

    // WHEN the log that holds them is purged, THEN that is told, and nothing is passed over
    purge(&scene).await;
    refused(&scene, &["purged", "headwater adopt"]).await;

    // AND it goes on from the present when it is told to
    adopt(&scene);
    carries_on(&scene, &mut written).await;

    // WHEN the server is reset, THEN that is told
    let reset = if scene.database.mysql().server().is_mariadb() {
        "RESET MASTER"
    } else {
        "RESET BINARY LOGS AND GTIDS"
    };
    scene.database.mysql().execute(reset).await;
    scene.commit_events(1).await;
    refused(&scene, &["reset", "headwater adopt"]).await;
    adopt(&scene);
    carries_on(&scene, &mut written).await;

    // WHEN it is reset, and has since written more than before, THEN a run finds that out: only the log itself tells
    scene.database.mysql().execute(reset).await;
    scene.commit_events(200).await;
    ends(&scene, "run", &["reset", "headwater adopt"]).await;
    let arrived = scene.judge_within(&written, Duration::ZERO).await;
    arrived.assert_exactly_once();

    // AND also if nothing was read since its position was taken
    adopt(&scene);
    scene.database.mysql().execute(reset).await;
    scene.commit_events(300).await;
    ends(&scene, "run", &["reset", "headwater adopt"]).await;
    let arrived = scene.judge_within(&written, Duration::ZERO).await;
    arrived.assert_exactly_once();
}

async fn purge(scene: &BinlogScene<'_>) {
    let mysql = scene.database.mysql();
    // A file that somebody reads is not purged, and a server may notice late that a reader has gone.
    scene.database.end_readers().await;
    while scene.database.readers().await > 0 {
        sleep(Duration::from_millis(50)).await;
    }
    mysql.execute("FLUSH BINARY LOGS").await;
    let status = if mysql.server().is_mariadb() {
        "SHOW MASTER STATUS"
    } else {
        "SHOW BINARY LOG STATUS"
    };
    let file = mysql.ask(status).await.unwrap();
    // MariaDB keeps a file until it needs it for no recovery any more, which it finds out a moment later.
    let end = Instant::now() + LIMIT;
    while mysql.ask("SHOW BINARY LOGS").await.as_deref() != Some(&file) {
        assert!(Instant::now() < end, "the logs before {file} stay");
        mysql
            .execute(&format!("PURGE BINARY LOGS TO '{file}'"))
            .await;
        sleep(Duration::from_millis(100)).await;
    }
}

async fn refused(scene: &BinlogScene<'_>, words: &[&str]) {
    for command in ["run", "check"] {
        ends(scene, command, words).await;
    }
}

/// With code 3, and these words.
async fn ends(scene: &BinlogScene<'_>, command: &str, words: &[&str]) {
    let mut run = scene.spawn(&[command]);
    let code = run.ended_within(LIMIT).await;
    let said = run.log() + &run.stdout();
    assert_eq!(code, 3, "{command}: {said}");
    for word in words {
        assert!(said.contains(word), "{command}: no {word}: {said}");
    }
}

#[track_caller]
fn adopt(scene: &BinlogScene<'_>) {
    let output = scene.headwater.run(&["adopt"]);
    assert_eq!(output.code, 0, "adopt: {}", output.stderr);
}

async fn carries_on(scene: &BinlogScene<'_>, written: &mut Written) {
    let run = scene.start().await;
    written.add(scene.commit_events(10).await);
    let verdict = scene.stop_and_judge(run, written).await;
    verdict.assert_exactly_once();
}

on_every_binlog!(an_idle_outbox_follows_a_busy_neighbour: "idle", own server, shared kafka);

async fn an_idle_outbox_follows_a_busy_neighbour(scene: BinlogScene<'_>) {
    // GIVEN an idle outbox, and a busy table beside it
    scene.database.execute("CREATE TABLE busy (n INT)").await;
    scene.init();
    let mut run = scene.start().await;
    for _ in 0..20 {
        scene
            .database
            .execute("INSERT INTO busy VALUES (1), (2)")
            .await;
    }

    // WHEN it is killed after a while, and the log is purged up to the present
    sleep(Duration::from_secs(15)).await;
    run.kill9();
    purge(&scene).await;

    // THEN it had followed its neighbour, and nothing is missing
    let run = scene.start().await;
    let written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

on_every_binlog!(a_user_without_rights_is_told_which_to_grant: "rights", shared server, shared kafka);

async fn a_user_without_rights_is_told_which_to_grant(scene: BinlogScene<'_>) {
    // GIVEN a pipeline whose user may log in and nothing else
    scene.init();
    let user = scene.database.name().to_owned();
    let revoke = format!("REVOKE ALL PRIVILEGES, GRANT OPTION FROM '{user}'@'%'");
    scene.database.execute(&revoke).await;

    // WHEN it runs, THEN a person is asked for, with the statement that grants what it lacks
    for command in ["run", "check"] {
        let mut run = scene.spawn(&[command]);
        assert_eq!(
            run.ended_within(LIMIT).await,
            3,
            "{command}: {}",
            run.tail()
        );
        let said = run.log() + &run.stdout();
        assert!(said.contains("GRANT "), "{command}: {said}");
    }

    // AND what was said is enough
    let said = scene.headwater.run(&["check"]);
    let text = said.stdout + &said.stderr;
    let grants: Vec<String> = text
        .split(';')
        .filter_map(|part| part.find("GRANT ").map(|at| part[at..].to_owned()))
        .filter(|grant| grant.contains(&user))
        .collect();
    assert!(!grants.is_empty(), "{text}");
    scene.database.execute_each(&grants).await;
    let output = scene.headwater.run(&["check"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let run = scene.start().await;
    let written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}
