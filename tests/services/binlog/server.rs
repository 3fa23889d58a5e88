//! Servers that cannot serve, though the log seems to be there: no run waits for ever for events that never come.

use headwater_testkit::{Kafka, Mysql, Server};

use super::BinlogScene;
use crate::scene::{LIMIT, Scene};

/// Each command ends with code 3, and these words.
async fn refused(scene: &BinlogScene<'_>, commands: &[&str], words: &[&str]) {
    for command in commands {
        let mut run = scene.spawn(&[command]);
        let code = run.ended_within(LIMIT).await;
        let said = run.log() + &run.stdout();
        assert_eq!(code, 3, "{command}: {said}");
        for word in words {
            assert!(said.contains(word), "{command}: no {word}: {said}");
        }
    }
}

#[tokio::test]
async fn a_table_in_other_letters_is_refused_and_the_right_ones_are_told() {
    // GIVEN a server that finds a table in whatever letters it is asked for
    // (MySQL takes the setting only when its data are made)
    let any = [("lower_case_table_names", "1")];
    let mysql = Mysql::start(Server::MariaDb118, &any);
    let mut scene = Scene::binlog(&mysql, Kafka::shared(), "letters").await;
    let right = scene.pipeline.source.clone();
    let wrong = right.replace(".events", ".Events");
    let spelled = format!("table = \"{}\"", scene.database.table());

    // WHEN it is asked for in other letters than it has, THEN that is told, and how to write it
    scene.pipeline.source = wrong.clone();
    scene.configure();
    refused(&scene, &["init", "check"], &[&spelled]).await;
    scene.pipeline.source = right.clone();
    scene.configure();
    scene.init();
    scene.pipeline.source = wrong;
    scene.configure();
    refused(&scene, &["run"], &[&spelled]).await;

    // AND written so, everything arrives
    scene.pipeline.source = right;
    scene.configure();
    let run = scene.start().await;
    let written = scene.commit_events(3).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn a_log_that_leaves_the_database_out_is_refused() {
    for server in Server::ALL {
        // GIVEN a server whose log has another database only
        let mysql = Mysql::start(server, &[("binlog_do_db", "shop")]);
        let scene = Scene::binlog(&mysql, Kafka::shared(), "left").await;

        // WHEN a pipeline is to begin, THEN that is told by the setting's name
        let words = ["binlog_do_db is shop", scene.database.name()];
        refused(&scene, &["init", "check"], &words).await;
    }
}

#[tokio::test]
async fn a_replica_that_keeps_no_log_of_what_it_replicates_is_refused() {
    for (server, setting) in [
        (Server::MySql97, "log_replica_updates"),
        (Server::MariaDb118, "log_slave_updates"),
    ] {
        // GIVEN a pipeline, and a server that becomes a replica
        let mysql = Mysql::start(server, &[(setting, "OFF")]);
        let scene = Scene::binlog(&mysql, Kafka::shared(), "mute").await;
        scene.init();
        mysql.execute("SET GLOBAL read_only = ON").await;

        // WHEN it runs, THEN it does not wait for what will never be in that log
        refused(&scene, &["run", "check"], &["log_slave_updates"]).await;
        mysql.execute("SET GLOBAL read_only = OFF").await;
        let run = scene.start().await;
        let written = scene.commit_events(3).await;
        scene.judge(&written).await.assert_exactly_once();

        // AND it does not go on waiting either, if it runs when the server becomes one and no session ends
        let mut run = run;
        mysql.execute("SET GLOBAL read_only = ON").await;
        assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
        assert!(run.tail().contains("log_slave_updates"), "{}", run.tail());
    }
}
