//! `recover --from TIME`: a person knows better than the record since when events may be missing.

use std::time::Duration;

use headwater_testkit::{Outbox, Written};
use tokio::time::sleep;

use super::lost::Lose;
use super::{audit, told, with_own_topic};
use crate::scene::{Event, Scene, on_every_binlog, on_other_versions};

/// Long before any event of a test.
const LONG_AGO: &str = "2020-01-01";

#[tokio::test]
async fn events_of_earlier_dates_are_recovered_when_they_are_asked_for_on_postgresql() {
    asked_for(Scene::shared(17, "since").await).await;
}

on_every_binlog!(asked_for: "since", own server, shared kafka);

on_other_versions!(asked_for: "since");

async fn asked_for<D: Outbox + Lose>(scene: Scene<'_, D>) {
    // GIVEN a lost log, events that are missing, and some of these with a date of long before
    let scene = with_own_topic(scene);
    let mut written = that_has_read_ten(&scene).await;
    let recent = scene.commit_events(4).await;
    written.add(recent);
    for seq in 1..=3 {
        let late = Event::new(&scene.namespace, "late", seq);
        let insert = scene.insert_with(&late, &[("event_date", "'2024-02-29 01:02:03.000004'")]);
        scene.database.execute(&insert).await;
        written.committed.push(late.committed());
    }
    scene.database.lose(&scene.pipeline).await;

    // WHEN it is not said since when, THEN these would not be looked at; nor are they where that is said too late, which is told
    let looked = |from: &[&str]| {
        let output = scene
            .headwater
            .run(&[&["recover", "--dry-run"], from].concat());
        assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
        output
    };
    assert!(looked(&[]).stdout.contains("would publish 4\n"));
    let late = looked(&["--from", "2199-01-01"]);
    assert!(late.stdout.contains("would publish 0\n"), "{}", late.stdout);
    assert!(
        late.stderr.contains("by itself it would"),
        "{}",
        late.stderr
    );

    // WHEN it is said, THEN all come, each once, and nothing that is there comes again
    let output = scene.headwater.run(&["recover", "--from", LONG_AGO]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert!(
        output.stdout.contains("since 2020-01-01"),
        "{}",
        output.stdout
    );
    assert_eq!(told(&output, "looked at"), 17, "{}", output.stdout);
    assert_eq!(told(&output, "already on the topics"), 10);
    assert_eq!(told(&output, "published now"), 7);
    goes_on(scene, written).await;
}

#[tokio::test]
async fn a_log_that_is_given_up_though_it_could_be_read_loses_and_doubles_nothing() {
    // GIVEN a sound log, with events that nobody has read
    let scene = with_own_topic(Scene::shared(17, "given").await);
    let mut written = that_has_read_ten(&scene).await;
    written.add(scene.commit_events(4).await);

    // WHEN it is given up since a time that is too late for these, THEN they come from the table all the same
    let output = scene.headwater.run(&["recover", "--from", "2199-01-01"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert_eq!(told(&output, "published now"), 4, "{}", output.stdout);
    goes_on(scene, written).await;
}

#[tokio::test]
async fn of_a_date_that_is_ahead_the_commit_is_remembered_on_postgresql() {
    dated_ahead(Scene::shared(17, "ahead").await).await;
}

on_every_binlog!(dated_ahead: "ahead", own server, shared kafka);

async fn dated_ahead<D: Outbox + Lose>(scene: Scene<'_, D>) {
    // GIVEN a lost log whose last event that was published has a date that is still to come
    let scene = with_own_topic(scene);
    scene.init();
    let run = scene.start().await;
    let ahead = Event::new(&scene.namespace, "ahead", 1);
    let insert = scene.insert_with(&ahead, &[("event_date", "'2100-01-01 00:00:00'")]);
    scene.database.execute(&insert).await;
    let mut written = Written::default();
    written.committed.push(ahead.committed());
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    written.add(scene.commit_events(3).await);
    scene.database.lose(&scene.pipeline).await;

    // WHEN it is recovered, THEN it is looked since its commit, and what is there does not come again
    let output = scene.headwater.run(&["recover"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    let found = &output.stderr;
    assert!(found.contains("its last event of 20"), "{found}");
    assert!(!found.contains("its last event of 2100"), "{found}");
    assert_eq!(told(&output, "already on the topics"), 1);
    assert_eq!(told(&output, "published now"), 3);
    goes_on(scene, written).await;
}

#[tokio::test]
async fn a_recovery_that_is_under_way_goes_further_back_when_it_is_asked_to() {
    // GIVEN a recovery that was killed, and events with a date of long before
    let mut scene = Scene::shared(17, "wider").await;
    scene.send_one_by_one();
    let scene = with_own_topic(scene);
    let mut written = that_has_read_ten(&scene).await;
    let many = scene.database.bulk_rows(&scene.namespace, 12_000, 100);
    written.add(many.await);
    let late = Event::new(&scene.namespace, "late", 1);
    let insert = scene.insert_with(&late, &[("event_date", "'2024-02-29 01:02:03.000004'")]);
    scene.database.execute(&insert).await;
    written.committed.push(late.committed());
    scene.database.lose(&scene.pipeline).await;
    let mut recover = scene.spawn(&["recover"]);
    recover.wait_until_it_carries().await;
    sleep(Duration::from_millis(300)).await;
    recover.kill9();

    // WHEN it is to look at these too, THEN it begins anew, and they come
    let output = scene.headwater.run(&["recover", "--from", LONG_AGO]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert!(
        output.stderr.contains("it begins anew"),
        "{}",
        output.stderr
    );
    assert_eq!(told(&output, "looked at"), 12_011, "{}", output.stdout);
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_each();
    assert_eq!(told(&audit(&scene, 0), " missing"), 0);
}

#[tokio::test]
async fn where_messages_have_times_of_their_own_all_of_them_are_looked_at() {
    // GIVEN a route that gives messages a time of long before their events' dates, and a lost log
    let mut scene = Scene::shared(17, "timeless").await;
    scene.pipeline.more = format!(
        "[[route]]\ntopic = \"{}\"\ntimestamp = \"{{started_date}}\"\n",
        scene.topic()
    );
    scene.configure();
    scene.init();
    let run = scene.start().await;
    let mut written = Written::default();
    for seq in 1..=7 {
        let event = Event::new(&scene.namespace, "k", seq);
        let insert = scene.insert_with(&event, &[("started_date", "'2026-01-02 03:04:05'")]);
        scene.database.execute(&insert).await;
        written.committed.push(event.committed());
    }
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    written.add(scene.commit_events(2).await);
    scene.database.lose(&scene.pipeline).await;

    // WHEN it is recovered, THEN what is there does not come again
    let output = scene.headwater.run(&["recover"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    assert_eq!(told(&output, "already on the topics"), 7);
    assert_eq!(told(&output, "published now"), 2);
    goes_on(scene, written).await;
}

async fn that_has_read_ten(scene: &Scene<'_, impl Outbox>) -> Written {
    scene.init();
    let run = scene.start().await;
    let written = scene.commit_events(10).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    written
}

/// Each event is there once, also those that are committed now, and an audit agrees.
async fn goes_on(scene: Scene<'_, impl Outbox>, mut written: Written) {
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_each_once();
    let run = scene.start().await;
    written.add(scene.commit_events(5).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_each_once();
    let output = audit(&scene, 0);
    assert_eq!(told(&output, "on the topics"), written.committed.len());
    assert_eq!(told(&output, " missing"), 0);
}
