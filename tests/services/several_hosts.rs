//! Several servers in the url: the primary is found, wherever it stands, and everything of a run is with that one.

use std::net::TcpListener;
use std::time::Duration;

use headwater_testkit::{Kafka, PASSWORD, Postgres, USER, free_port};

use crate::scene::{LIMIT, Running, Scene};

/// As the url names these ports, in this order.
fn point(scene: &mut Scene<'_>, ports: &[u16]) {
    let servers: Vec<String> = ports.iter().map(|it| format!("127.0.0.1:{it}")).collect();
    scene.pipeline.source_url = format!(
        "postgres://{USER}:{PASSWORD}@{}/{}?target_session_attrs=read-write",
        servers.join(","),
        scene.database.name()
    );
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
