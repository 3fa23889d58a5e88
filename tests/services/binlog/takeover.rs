//! Another server in the place of the first, and another reader under our number.

use std::time::{Duration, Instant};

use headwater_testkit::{Load, Outbox, Proxy, Writing};
use tokio::time::sleep;

use super::BinlogScene;
use crate::recover::{comes_back, with_own_topic};
use crate::scene::{Event, LIMIT, Running, headwater, on_every_binlog};

on_every_binlog!(a_replica_takes_over_while_it_runs: "takeover", own server, shared kafka);

async fn a_replica_takes_over_while_it_runs(mut scene: BinlogScene<'_>) {
    // GIVEN a primary with a replica, and a pipeline that reaches whoever is primary under one address
    let primary = scene.database.mysql();
    let proxy = Proxy::start(primary.port());
    scene.pipeline.source_url = scene.database.url_through(proxy.port());
    scene.configure();
    let replica = primary.replica(&[]);
    scene.init();
    let run = scene.start().await;
    let writing = load(&scene.namespace, 71).start(&scene.database.owner_url());
    more(&writing).await;

    // WHEN the primary dies, and the replica takes its place
    let mut written = writing.stop().await;
    replica.has_all_of(primary).await;
    primary.kill9();
    replica.promote().await;
    proxy.lead_to(replica.port());
    proxy.cut();
    let second = scene.another_namespace("second").await;
    let writing = load(&second, 171).start(&replica.owner_url(scene.database.name()));
    more(&writing).await;
    written.add(writing.stop().await);

    // THEN the same process carries on by itself, and nothing is lost, reordered or foreign
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}

on_every_binlog!(a_planned_switchover_is_followed: "switch", own server, shared kafka);

async fn a_planned_switchover_is_followed(mut scene: BinlogScene<'_>) {
    // GIVEN a primary with a replica, and a pipeline that knows both
    let primary = scene.database.mysql();
    let replica = primary.replica(&[]);
    let one = format!("127.0.0.1:{}", primary.port());
    let both = format!("{one},127.0.0.1:{}", replica.port());
    scene.pipeline.source_url = scene.database.url().replace(&one, &both);
    scene.configure();
    scene.init();
    let run = scene.start().await;
    let application = Proxy::start(primary.port());
    let [from, to] = [primary.port(), application.port()].map(|port| format!(":{port}/"));
    let url = scene.database.owner_url().replace(&from, &to);
    assert!(url.contains(&to), "{url}");
    let writing = load(&scene.namespace, 271).start(&url);
    more(&writing).await;

    // WHEN the two change places under the writers, and none of our sessions ends
    primary.execute("SET GLOBAL read_only = ON").await;
    // Whom read_only does not stop.
    let frozen = scene.database.begin("FLUSH TABLES WITH READ LOCK").await;
    replica.has_all_of(primary).await;
    replica.promote().await;
    application.lead_to(replica.port());
    application.cut();
    more(&writing).await;
    let written = writing.stop().await;

    // THEN the same process carries on with the new primary, and nothing is lost, reordered or foreign
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
    drop(frozen);
}

on_every_binlog!(the_lock_is_with_the_server_that_is_read: "flip", own server, shared kafka);

async fn the_lock_is_with_the_server_that_is_read(mut scene: BinlogScene<'_>) {
    // GIVEN a pipeline that reaches a primary under a name, and a replica of it
    let primary = scene.database.mysql();
    let proxy = Proxy::start(primary.port());
    scene.pipeline.source_url = scene.database.url_through(proxy.port());
    scene.configure();
    let replica = primary.replica(&[]);
    scene.init();
    let run = scene.start().await;
    let written = scene.commit_events(10).await;
    scene.judge(&written).await.assert_exactly_once();

    // WHEN the name leads to the replica, and only the replication breaks
    replica.has_all_of(primary).await;
    proxy.lead_to(replica.port());
    scene.database.end_readers().await;

    // THEN it reads on there, and no other instance could: the lock has moved, too
    let held = format!("SELECT IS_USED_LOCK('headwater:{}')", scene.pipeline.name);
    let end = Instant::now() + LIMIT;
    while replica.ask(&held).await.is_none() || primary.ask(&held).await.is_some() {
        assert!(Instant::now() < end, "the lock stays: {}", run.tail());
        sleep(Duration::from_millis(100)).await;
    }
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_at_least_once();
}

on_every_binlog!(a_replica_that_lacks_what_was_published_is_refused: "lacks", own server, shared kafka);

async fn a_replica_that_lacks_what_was_published_is_refused(mut scene: BinlogScene<'_>) {
    // GIVEN a primary, and a replica that has fallen behind what the pipeline has published
    let primary = scene.database.mysql();
    let proxy = Proxy::start(primary.port());
    scene.pipeline.source_url = scene.database.url_through(proxy.port());
    let replica = primary.replica(&[]);
    let mut scene = with_own_topic(scene);
    scene.init();
    let mut run = scene.start().await;
    let mut held = scene.commit_events(5).await;
    replica.has_all_of(primary).await;
    replica.stop_following().await;
    let gone = scene.commit_events(5).await;
    let mut written = held.clone();
    written.add(gone.clone());
    scene.judge(&written).await.assert_exactly_once();

    // WHEN the primary dies, and the address leads to the replica, THEN it is waited for: it may be catching up
    primary.kill9();
    proxy.lead_to(replica.port());
    proxy.cut();
    let waits = run.wait_for_log("may be catching up", LIMIT).await;
    assert!(waits, "{}", run.tail());

    // WHEN it is promoted as it is, THEN a person is asked for, with what it lacks
    replica.promote().await;
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    for word in ["has not executed", "headwater adopt"] {
        assert!(run.tail().contains(word), "no {word}: {}", run.tail());
    }

    // AND also after it has written more than it lacked
    for seq in 1..=20 {
        let event = Event::new(&scene.namespace, "elsewhere", seq);
        replica.execute(&scene.insert(&event)).await;
        held.committed.push(event.committed());
    }
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.tail().contains("headwater adopt"), "{}", run.tail());
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_exactly_once();

    // AND what the new primary has comes from its table, and what it never had is told
    scene.database = scene.database.on(&replica);
    comes_back(&scene, held, &gone).await;
}

fn load(namespace: &str, seed: u64) -> Load {
    Load {
        rate: Some(100),
        ..Load::new(namespace, seed)
    }
}

async fn more(writing: &Writing) {
    writing.wait_for(writing.events() + 200, LIMIT).await;
}

on_every_binlog!(a_taken_number_is_told: "clash", shared server, shared kafka);

async fn a_taken_number_is_told(mut scene: BinlogScene<'_>) {
    // GIVEN two pipelines with one number
    let number = 100_000 + u32::from(scene.database.port()) * 7;
    scene.pipeline.source = format!("{}server_id = {number}\n", scene.pipeline.source);
    scene.configure();
    scene.init();
    let mut first = scene.start().await;
    let mut second = scene.pipeline.clone();
    second.name = headwater_testkit::unique("clash");
    let second = headwater(&second);
    assert_eq!(second.run(&["init"]).code, 0);

    // WHEN both run, THEN the server throws out one of them, and that is told with the number
    let mut second = Running::of(second.spawn(&["run"]));
    let end = Instant::now() + LIMIT;
    while first.is_running() && second.is_running() {
        assert!(Instant::now() < end, "both work under one number");
        sleep(Duration::from_millis(50)).await;
    }
    let mut thrown_out = if second.is_running() { first } else { second };
    assert_eq!(thrown_out.ended_within(LIMIT).await, 3);
    let log = thrown_out.log();
    assert!(log.contains("source.server_id"), "{log}");
    assert!(log.contains(&number.to_string()), "{log}");
}
