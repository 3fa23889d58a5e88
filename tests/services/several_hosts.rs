//! Several servers in the url: the primary is found, wherever it stands, and everything of a run is with that one.

use std::net::TcpListener;
use std::time::Duration;

use headwater_testkit::{Kafka, Mysql, Outbox, Postgres, Server, Written, free_port};

use crate::scene::{Event, LIMIT, Running, Scene};

/// As the url names these ports, in this order.
pub fn point(scene: &mut Scene<'_, impl Outbox>, ports: &[u16]) {
    let servers: Vec<String> = ports.iter().map(|it| format!("127.0.0.1:{it}")).collect();
    let one = scene.database.url();
    let of_one = format!("127.0.0.1:{}", scene.database.port());
    scene.pipeline.source_url = one.replace(&of_one, &servers.join(","));
    assert_ne!(scene.pipeline.source_url, one);
    if one.starts_with("postgres:") {
        scene.pipeline.source_url += "?target_session_attrs=read-write";
    }
    scene.configure();
}

#[tokio::test]
async fn the_primary_is_found_behind_a_standby_a_closed_port_and_a_silent_one() {
    // GIVEN a primary, its standby, a port where nobody listens and one where nobody answers
    let primary = Postgres::start(17, &[]);
    let standby = primary.standby();
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let silent = silent.local_addr().unwrap().port();
    let mut scene = Scene::on(&primary, Kafka::shared(), "hosts").await;

    // WHEN the primary is named last, THEN each command finds it
    point(&mut scene, &[standby.port(), free_port(), primary.port()]);
    scene.init();
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    let at = format!("at 127.0.0.1:{}", primary.port());
    assert!(check.stdout.contains(&at), "{}", check.stdout);
    let run = scene.start().await;
    let written = scene.commit_events(10).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();

    // WHEN one never answers, THEN it costs its time limit and no more
    point(&mut scene, &[silent, primary.port()]);
    let output = scene.headwater.run(&["init", "--dry-run"]);
    assert_eq!(output.code, 0, "{}", output.stderr);

    // WHEN none of them is a primary, THEN each one's reason is told
    let closed = free_port();
    point(&mut scene, &[standby.port(), closed]);
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 3, "{}", check.stdout);
    for says in [
        format!("127.0.0.1:{} is a standby", standby.port()),
        format!("cannot connect to 127.0.0.1:{closed}"),
    ] {
        assert!(check.stdout.contains(&says), "{}", check.stdout);
    }
}

#[tokio::test]
async fn a_run_waits_for_a_primary_and_carries_on() {
    // GIVEN a run with two servers to choose from, of which one is the primary
    let primary = Postgres::start(17, &[]);
    let standby = primary.standby();
    let mut scene = Scene::on(&primary, Kafka::shared(), "waits").await;
    point(&mut scene, &[primary.port(), standby.port()]);
    scene.init();
    let mut run: Running = scene.start().await;

    // WHEN the primary goes away, THEN the standby is not taken for it
    primary.stop_fast();
    let waits = run.wait_for_log("is a standby (in recovery)", LIMIT).await;
    assert!(waits, "it does not say what it waits for");

    // WHEN the primary is back, THEN it carries on
    primary.start_again();
    let written = scene.commit_events(10).await;
    tokio::time::sleep(Duration::from_millis(100)).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}

#[tokio::test]
async fn the_server_that_may_be_written_to_is_taken_on_mysql_9_7() {
    the_writable_one_is_taken(Server::MySql97).await;
}

#[tokio::test]
async fn the_server_that_may_be_written_to_is_taken_on_mariadb_11_8() {
    the_writable_one_is_taken(Server::MariaDb118).await;
}

async fn the_writable_one_is_taken(server: Server) {
    // GIVEN a primary, its replica, and a port where nobody listens
    let primary = Mysql::start(server, &[]);
    let replica = primary.replica(&[]);
    let mut scene = Scene::binlog(&primary, Kafka::shared(), "hosts").await;
    let closed = free_port();

    // WHEN the primary is named last, THEN each command finds it
    point(&mut scene, &[replica.port(), closed, primary.port()]);
    scene.init();
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 0, "{}{}", check.stdout, check.stderr);
    let at = format!("at 127.0.0.1:{}", primary.port());
    assert!(check.stdout.contains(&at), "{}", check.stdout);
    let mut run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN the primary goes away, THEN the replica is not taken for it, and each one's reason is told
    replica.has_all_of(&primary).await;
    primary.stop();
    let reason = format!("127.0.0.1:{} is a replica (read_only)", replica.port());
    assert!(run.wait_for_log(&reason, LIMIT).await, "{}", run.tail());
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 3, "{}", check.stdout);
    for says in [&reason, &format!("cannot connect to 127.0.0.1:{closed}")] {
        assert!(check.stdout.contains(says), "{}", check.stdout);
    }

    // WHEN the replica is promoted, THEN the same process carries on there
    replica.promote().await;
    let event = Event::new(&scene.namespace, "promoted", 1);
    replica.execute(&scene.insert(&event)).await;
    written.add(Written {
        committed: vec![event.committed()],
        ..Written::default()
    });
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}
