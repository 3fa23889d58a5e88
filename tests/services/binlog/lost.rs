//! A log that does not hold the remembered position any more: a person is needed, and nothing is passed over.

use std::time::{Duration, Instant};

use headwater_testkit::{Kafka, Mysql, MysqlDatabase, Outbox, Server, Written};
use tokio::time::sleep;
use uuid::Uuid;

use super::{BinlogScene, SOON, WITHOUT_GTIDS};
use crate::scene::{Event, LIMIT, Scene, on_every_binlog};

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
    purge(&scene.database).await;
    refused(&scene, &["purged", "headwater adopt"]).await;

    // AND it goes on from the present when it is told to
    adopt(&scene);
    carries_on(&scene, &mut written).await;

    // WHEN the server is reset, THEN that is told
    reset(&scene.database).await;
    scene.commit_events(1).await;
    refused(&scene, &["reset", "headwater adopt"]).await;
    adopt(&scene);
    carries_on(&scene, &mut written).await;

    // WHEN it is reset, and has since written more than before, THEN a run finds that out: only the log itself tells
    another_second(&scene).await;
    reset(&scene.database).await;
    scene.commit_events(200).await;
    ends(&scene, "run", &["reset", "headwater adopt"]).await;
    let arrived = scene.judge_within(&written, Duration::ZERO).await;
    arrived.assert_exactly_once();
}

pub async fn reset(database: &MysqlDatabase<'_>) {
    let reset = if database.mysql().server().is_mariadb() {
        "RESET MASTER"
    } else {
        "RESET BINARY LOGS AND GTIDS"
    };
    database.mysql().execute(reset).await;
}

on_every_binlog!(a_log_that_is_reset_before_anything_was_read_is_told: "unread", own server, shared kafka);

/// Without GTIDs it is not: then nothing but a transaction that was read can be compared.
async fn a_log_that_is_reset_before_anything_was_read_is_told(scene: BinlogScene<'_>) {
    // GIVEN a pipeline that has begun, and read nothing
    scene.commit_events(10).await;
    scene.init();

    // WHEN the server is reset, and has since written more than before, THEN a run finds that out
    another_second(&scene).await;
    reset(&scene.database).await;
    scene.commit_events(300).await;
    ends(&scene, "run", &["reset", "headwater adopt"]).await;
    let nothing = Written::default();
    let arrived = scene.judge_within(&nothing, Duration::ZERO).await;
    arrived.assert_exactly_once();
}

/// MariaDB's log has whole seconds: what is to be told apart by its time must not be of the same one.
pub async fn another_second(scene: &BinlogScene<'_>) {
    let now = "SELECT UNIX_TIMESTAMP()";
    let before = scene.database.ask(now).await;
    while scene.database.ask(now).await == before {
        sleep(SOON).await;
    }
}

#[tokio::test]
async fn a_reset_within_one_second_is_told_on_mariadb_11_8() {
    // GIVEN a pipeline that was stopped after two events
    let mysql = Mysql::start(Server::MariaDb118, &[]);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "second").await;
    mysql.execute("RESET MASTER").await;
    scene.init();
    let mut run = scene.start().await;
    let event = |seq| Event::new(&scene.namespace, "k", seq);
    let [first, second, long, missed] = [1, 2, 3, 4].map(event);
    let written = Written {
        committed: vec![first.committed(), second.committed()],
        ..Written::default()
    };
    let within_one_second = "SET TIMESTAMP = 1800000000;";
    for event in [first, second] {
        let sql = format!("{within_one_second} {}", scene.insert(&event));
        scene.database.execute(&sql).await;
    }
    scene.judge(&written).await.assert_exactly_once();
    run.ask_to_stop().await;

    // WHEN the server is reset, and has another transaction of the same second under the last one's GTID, elsewhere in the log
    mysql.execute("RESET MASTER").await;
    let long = scene.insert_with(&long, &[("action_name", "REPEAT('x', 200)")]);
    for insert in [long, scene.insert(&missed)] {
        let sql = format!("{within_one_second} {insert}");
        scene.database.execute(&sql).await;
    }
    scene.commit_events(3).await;

    // THEN it is not taken for the old one: two events would be lost
    ends(&scene, "run", &["reset", "headwater adopt"]).await;
    let arrived = scene.judge_within(&written, Duration::ZERO).await;
    arrived.assert_exactly_once();
}

#[tokio::test]
async fn a_purged_or_reset_log_without_gtids_is_told() {
    // A file and an offset say less than GTIDs: the same promise on a MySQL that has no others.
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "lost").await;
    a_purged_or_reset_log_is_told(scene).await;
}

#[tokio::test]
async fn a_place_that_is_amid_another_event_since_a_reset_is_told() {
    // GIVEN a pipeline on a MySQL without GTIDs that was stopped
    let mysql = Mysql::start(Server::MySql97, &WITHOUT_GTIDS);
    let scene = Scene::binlog(&mysql, Kafka::shared(), "amid").await;
    mysql.execute("RESET BINARY LOGS AND GTIDS").await;
    scene.init();
    let mut written = Written::default();
    carries_on(&scene, &mut written).await;

    // WHEN the server is reset, and one large event lies now where its last small one was
    mysql.execute("RESET BINARY LOGS AND GTIDS").await;
    let large = Event::new(&scene.namespace, "k", 1);
    let insert = scene.insert_with(&large, &[("action_name", "REPEAT('x', 255)")]);
    let statements: Vec<String> = (0..100)
        .map(|_| insert.replace(&large.id.to_string(), &Uuid::new_v4().to_string()))
        .collect();
    scene.database.execute_each(&statements).await;

    // THEN nothing is taken from there: a person is asked for
    ends(&scene, "run", &["headwater adopt"]).await;
    let arrived = scene.judge_within(&written, Duration::ZERO).await;
    arrived.assert_exactly_once();
}

pub async fn purge(database: &MysqlDatabase<'_>) {
    let mysql = database.mysql();
    // A file that somebody reads is not purged, and a server may notice late that a reader has gone.
    database.end_readers().await;
    while database.readers().await > 0 {
        sleep(Duration::from_millis(50)).await;
    }
    mysql.execute("FLUSH BINARY LOGS").await;
    let file = mysql.binlog().await;
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
    purge(&scene.database).await;

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

    // AND also if it lacks only the right to see which files the log has, and what it leaves out
    let replicate = format!("GRANT REPLICATION SLAVE ON *.* TO '{user}'@'%'");
    let select = format!("GRANT SELECT ON {user}.events TO '{user}'@'%'");
    scene.database.execute_each(&[replicate, select]).await;
    ends(
        &scene,
        "run",
        &["may not see the files of the log", "GRANT "],
    )
    .await;

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
