//! A lost log: what is missing comes from the table, what is there already does not come again, and the log goes on.

use std::time::Duration;

use headwater_testkit::{Headwater, Load, Outbox, Output, Written};
use tokio::time::sleep;

use crate::scene::{LIMIT, Scene, on_every_binlog, on_other_versions};

mod formats;
mod from;
mod lost;
mod sqlite;

pub use lost::Lose;

/// Rows of a test are younger than what an audit looks at by itself.
const UNTIL: [&str; 2] = ["--to", "2200-01-01"];

/// A pipeline with a topic of its own: others write to those of the usual name.
pub fn with_own_topic<D: Outbox>(mut scene: Scene<'_, D>) -> Scene<'_, D> {
    scene.pipeline.more = format!("[[route]]\ntopic = \"{}\"\n", scene.topic());
    scene.configure();
    scene
}

/// The number that stands before these words.
#[track_caller]
fn told(output: &Output, words: &str) -> usize {
    let line = output.stdout.lines().find(|line| line.contains(words));
    let line = line.unwrap_or_else(|| panic!("no {words}: {}{}", output.stdout, output.stderr));
    line.trim().split(' ').next().unwrap().parse().unwrap()
}

#[track_caller]
pub fn audit(scene: &Scene<'_, impl Outbox>, code: i32) -> Output {
    audit_of(&scene.headwater, code)
}

#[track_caller]
fn audit_of(headwater: &Headwater, code: i32) -> Output {
    let output = headwater.run(&[&["audit"], &UNTIL[..]].concat());
    assert_eq!(output.code, code, "{}{}", output.stdout, output.stderr);
    println!("{}", output.stdout);
    output
}

#[track_caller]
fn recover(scene: &Scene<'_, impl Outbox>) -> Output {
    let output = scene.headwater.run(&["recover"]);
    assert_eq!(output.code, 0, "{}{}", output.stdout, output.stderr);
    println!("{}", output.stdout);
    output
}

/// From a pipeline whose log is lost in some way to one that carries events again.
async fn recovered<D: Outbox>(scene: Scene<'_, D>, lose: impl AsyncFnOnce(&Scene<'_, D>)) {
    // GIVEN a pipeline that was stopped, and events that it has not read
    let scene = with_own_topic(scene);
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(20).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    written.add(scene.commit_events(10).await);

    // WHEN its log is lost, and more is committed, THEN it comes back
    lose(&scene).await;
    written.add(scene.commit_events(5).await);
    comes_back(&scene, written, &Written::default()).await;
}

/// From a pipeline that may not go on to one that carries events again. `held` is what the table has; `gone` what is on the topic and
/// not in the table, or not any more.
pub async fn comes_back(scene: &Scene<'_, impl Outbox>, held: Written, gone: &Written) {
    let (rows, mut written) = (held.committed.len(), held);
    written.add(gone.clone());
    let before = scene.judge_within(&written, Duration::ZERO).await;
    let (missing, there) = (before.lost.len(), rows - before.lost.len());
    assert!(missing > 0, "nothing is missing");

    // THEN it is not started, and the way out is named
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    for words in [
        "headwater recover",
        "what was committed between",
        "(remembered 20",
    ] {
        assert!(run.tail().contains(words), "no {words}: {}", run.tail());
    }

    // AND what is missing is known to the table alone, and `audit` finds as much as the checker
    let output = audit(scene, 3);
    assert_eq!(told(&output, " missing"), missing, "{before}");
    let dry = scene.headwater.run(&["recover", "--dry-run"]);
    assert!(
        dry.stdout.contains(&format!("would publish {missing}\n")),
        "{}{}",
        dry.stdout,
        dry.stderr
    );
    let unchanged = scene.judge_within(&written, Duration::ZERO).await;
    assert_eq!(unchanged.arrived, before.arrived, "{unchanged}");

    // AND it comes once, and nothing comes again
    let output = recover(scene);
    assert_eq!(told(&output, "already on the topics"), there);
    assert_eq!(told(&output, "published now"), missing);
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_each_once();

    // AND the log goes on where that ended
    let run = scene.start().await;
    written.add(scene.commit_events(10).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_each_once();
    let output = audit(scene, 0);
    for (count, words) in [
        (rows + 10, "on the topics"),
        (0, " missing"),
        (0, " doubled"),
        (gone.committed.len(), " foreign"),
    ] {
        assert_eq!(told(&output, words), count, "{words}: {}", output.stdout);
    }
}

#[tokio::test]
async fn a_log_that_is_there_is_not_recovered() {
    // GIVEN a pipeline that was stopped, and events that it has not read
    let scene = with_own_topic(Scene::ready(17, "sound").await);
    let mut written = scene.commit_events(10).await;

    // WHEN somebody wants to recover it, THEN nothing is changed, and it goes on by itself
    let output = recover(&scene);
    assert!(
        output.stderr.contains("nothing is to be recovered"),
        "{}",
        output.stderr
    );
    assert!(scene.consume().await.is_empty());
    let run = scene.start().await;
    written.add(scene.commit_events(5).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
}

#[tokio::test]
async fn what_an_instance_works_on_is_not_recovered() {
    let scene = with_own_topic(Scene::ready(17, "busy").await);
    let mut run = scene.start().await;
    let output = scene.headwater.run(&["recover", "--from", "2020-01-01"]);
    assert_eq!(output.code, 3, "{}", output.stderr);
    assert!(output.stderr.contains("at work"), "{}", output.stderr);
    run.ask_to_stop().await;
}

#[tokio::test]
async fn killed_in_the_middle_it_goes_on_and_loses_nothing_on_postgresql() {
    killed(Scene::shared(17, "killed").await).await;
}

on_every_binlog!(killed: "killed", own server, shared kafka);

on_other_versions!(killed: "killed", beside_writers: "beside", is_told: "audit", not_kept: "cut");

async fn killed<D: Outbox + Lose>(mut scene: Scene<'_, D>) {
    // GIVEN a lost log, many events that are missing, and a broker that takes its time
    scene.send_one_by_one();
    let scene = with_own_topic(scene);
    scene.init();
    let run = scene.start().await;
    let mut written = scene.commit_events(20).await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
    let many = scene.database.bulk_rows(&scene.namespace, 12_000, 100);
    written.add(many.await);
    scene.database.lose(&scene.pipeline).await;

    // WHEN it is killed again and again while it is recovered
    for moment in [150, 400, 250] {
        let mut recover = scene.spawn(&["recover"]);
        recover.wait_until_it_carries().await;
        sleep(Duration::from_millis(moment)).await;
        recover.kill9();
    }

    // THEN a run does not begin amid that, nor is it called sound
    let mut run = scene.spawn(&["run"]);
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    assert!(run.tail().contains("broken off"), "{}", run.tail());
    assert_eq!(scene.headwater.run(&["check"]).code, 3);

    // AND it goes on, and nothing is lost
    let output = recover(&scene);
    println!("{}", output.stdout);
    let run = scene.start().await;
    written.add(scene.commit_events(5).await);
    let verdict = scene.stop_and_judge(run, &written).await;
    println!("{verdict}");
    verdict.assert_each();
    assert_eq!(told(&audit(&scene, 0), " missing"), 0);
}

#[tokio::test]
async fn beside_writers_that_do_not_pause_nothing_is_lost_or_doubled_on_postgresql() {
    beside_writers(Scene::shared(17, "beside").await).await;
}

on_every_binlog!(beside_writers: "beside", own server, shared kafka);

async fn beside_writers<D: Outbox + Lose>(scene: Scene<'_, D>) {
    // GIVEN a pipeline under load that was killed
    let scene = with_own_topic(scene);
    scene.init();
    let load = Load {
        rate: Some(300),
        ..Load::new(&scene.namespace, 29)
    };
    let load = load.start(&scene.database.owner_url());
    let mut run = scene.start().await;
    load.wait_for(300, LIMIT).await;
    run.ask_to_stop().await;

    // WHEN its log is lost and recovered, and the writers go on meanwhile
    scene.database.lose(&scene.pipeline).await;
    let events = load.events();
    load.wait_for(events + 300, LIMIT).await;
    let mut recover = scene.spawn(&["recover"]);
    assert_eq!(recover.ended_within(LIMIT).await, 0, "{}", recover.tail());
    let run = scene.start().await;
    let events = load.events();
    load.wait_for(events + 300, LIMIT).await;
    let written = load.stop().await;

    // THEN each event comes once
    scene.stop_and_judge(run, &written).await.assert_each_once();
    audit(&scene, 0);
}

#[tokio::test]
async fn an_event_that_is_there_is_not_missed_though_it_cannot_be_encoded_any_more() {
    // GIVEN a lost log, an event that was published, one that was not, and both cannot be encoded any more
    let scene = with_own_topic(Scene::ready(17, "unfit").await);
    let run = scene.start().await;
    let mut written = scene.commit_events(10).await;
    let verdict = scene.stop_and_judge(run, &written).await;
    verdict.assert_exactly_once();
    let there = written.committed[0].id;
    written.add(scene.commit_events(5).await);
    let missing = written.committed[12].id;
    scene.database.lose(&scene.pipeline).await;
    let as_text = "ALTER TABLE eventlog.events ALTER payload TYPE text";
    scene.database.execute(as_text).await;
    let spoil = async |id: &str, payload: &str| {
        let spoil = format!("UPDATE eventlog.events SET payload = {payload} WHERE id = '{id}'");
        scene.database.execute(&spoil).await;
    };
    for id in [there, missing] {
        spoil(&id.to_string(), "'.' || payload").await;
    }

    // WHEN it is recovered, THEN the one that is missing is a person's matter, and only that; which is known before
    for arguments in [&["recover", "--dry-run"][..], &["recover"]] {
        let output = scene.headwater.run(arguments);
        assert_eq!(output.code, 3, "{}{}", output.stdout, output.stderr);
        let said = format!("{}{}", output.stdout, output.stderr);
        let told = |id: uuid::Uuid| said.contains(&id.to_string());
        assert!(told(missing) && !told(there), "{said}");
    }

    // AND once that can be encoded, all is there, each once
    spoil(&missing.to_string(), "substr(payload, 2)").await;
    recover(&scene);
    let verdict = scene.judge_within(&written, Duration::ZERO).await;
    verdict.assert_each_once();
    let output = audit(&scene, 0);
    assert_eq!(self::told(&output, "on the topics"), 15);
}

#[tokio::test]
async fn what_the_topics_have_and_have_not_is_told() {
    is_told(Scene::shared(17, "audit").await).await;
}

on_every_binlog!(is_told: "audit", shared server, shared kafka);

async fn is_told(scene: Scene<'_, impl Outbox>) {
    // GIVEN events on a topic, one of them twice, and one that is not in the table any more
    let scene = with_own_topic(scene);
    scene.init();
    let run = scene.start().await;
    let written = scene.commit_events(10).await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
    let first = scene.consume().await.swap_remove(0);
    let (key, value) = (first.key.as_deref(), first.value.as_deref());
    scene.kafka.produce(scene.topic(), key, value).await;
    let ids: Vec<String> = written
        .committed
        .iter()
        .map(|it| it.id.to_string())
        .collect();
    let pruned = ids.iter().find(|id| {
        let text = String::from_utf8_lossy(value.unwrap()).into_owned();
        !text.contains(id.as_str())
    });
    let prune = format!(
        "DELETE FROM {} WHERE id = '{}'",
        scene.database.table(),
        pruned.unwrap()
    );
    scene.database.execute(&prune).await;
    scene
        .kafka
        .produce(scene.topic(), None, Some(b"no event"))
        .await;

    // WHEN it is audited, THEN all of it is told, and nothing is missing
    let output = audit(&scene, 0);
    for (count, words) in [
        (9, "events in the table"),
        (9, "on the topics"),
        (0, " missing"),
        (1, " doubled"),
        (1, " foreign"),
        (1, "no events in this format"),
    ] {
        assert_eq!(told(&output, words), count, "{}", output.stdout);
    }
    assert!(output.stdout.contains(pruned.unwrap()), "{}", output.stdout);

    // WHEN events were never published, THEN they are named, as JSON too, and a person is asked for
    let missing = scene.commit_events(2).await;
    let output = audit(&scene, 3);
    assert_eq!(told(&output, " missing"), 2);
    let json = scene
        .headwater
        .run(&[&["audit", "--format", "json"], &UNTIL[..]].concat());
    for event in &missing.committed {
        assert!(
            json.stdout.contains(&event.id.to_string()),
            "{}",
            json.stdout
        );
    }
    // AND what is on its way is not looked at
    assert_eq!(scene.headwater.run(&["audit"]).code, 0);
}

#[tokio::test]
async fn what_a_topic_has_not_kept_is_not_called_missing() {
    not_kept(Scene::shared(17, "cut").await).await;
}

on_every_binlog!(not_kept: "cut", own server, shared kafka);

async fn not_kept<D: Outbox + Lose>(scene: Scene<'_, D>) {
    // GIVEN events of which the topic has kept only the last
    let scene = with_own_topic(scene);
    scene.init();
    let run = scene.start().await;
    let written = scene.commit_events(10).await;
    scene
        .stop_and_judge(run, &written)
        .await
        .assert_exactly_once();
    let last = scene.consume().await.pop().unwrap();
    let (topic, partition) = (scene.topic(), last.partition);
    scene
        .kafka
        .delete_records(topic, partition, last.offset)
        .await;

    // WHEN it is audited, THEN it is said that nobody can know
    let output = audit(&scene, 3);
    assert_eq!(told(&output, "not comparable"), 9, "{}", output.stdout);
    assert!(
        output.stdout.contains("not known: topic"),
        "{}",
        output.stdout
    );

    // WHEN the log is lost too, and recovered, THEN they come again rather than not at all, and that is said
    scene.commit_events(1).await;
    scene.database.lose(&scene.pipeline).await;
    let output = recover(&scene);
    for (count, words) in [(1, "already on the topics"), (10, "published now")] {
        assert_eq!(told(&output, words), count, "{}", output.stdout);
    }
    // Dates may be of whole seconds: then the last one can be older than what was kept.
    let perhaps = told(&output, "may have been on the topics before");
    assert!((9..=10).contains(&perhaps), "{}", output.stdout);
    assert!(
        output.stdout.contains("not known: topic"),
        "{}",
        output.stdout
    );
}

#[tokio::test]
async fn bad_windows_and_sinks_are_told() {
    let scene = with_own_topic(Scene::ready(17, "bad").await);
    for (arguments, words) in [
        (vec!["audit", "--from", "yesterday"], "is no moment"),
        (
            vec!["audit", "--from", "2026-01-02", "--to", "2026-01-01"],
            "--from must be before --to",
        ),
        (vec!["recover", "--from", "13:00"], "is no moment"),
    ] {
        let output = scene.headwater.run(&arguments);
        assert_eq!(output.code, 2, "{}", output.stderr);
        assert!(output.stderr.contains(words), "{}", output.stderr);
    }
    // An event was never published: since when some may be missing is not known.
    scene.database.lose(&scene.pipeline).await;
    let output = scene.headwater.run(&["recover"]);
    assert_eq!(output.code, 2, "{}", output.stderr);
    assert!(output.stderr.contains("--from"), "{}", output.stderr);
}
