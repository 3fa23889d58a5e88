//! What could not be published: listed, shown, and published after all, over kills and beside a running pipeline.

pub mod letters;

use std::collections::HashSet;
use std::time::Duration;

use headwater_testkit::{Consumed, Kafka, Load, Mysql, Outbox, Output, Server, check, unique};
use serde_json::Value;
use tokio::time::sleep;

use crate::kills::Moments;
use crate::scene::{Event, LIMIT, Scene};
use letters::{Letter, with_letters};

const UNTIL: [&str; 2] = ["--to", "2100-01-01"];
const PATIENCE: Duration = Duration::from_mins(3);

/// A promise as one test for each kind of database.
macro_rules! everywhere {
    ($promise:ident: $hint:literal) => {
        mod $promise {
            use super::*;

            #[tokio::test]
            async fn on_postgresql_17() {
                super::$promise(Scene::shared(17, $hint).await).await;
            }

            #[tokio::test]
            async fn on_mysql_9_7() {
                let mysql = Mysql::shared(Server::MySql97);
                super::$promise(Scene::binlog(mysql, Kafka::shared(), $hint).await).await;
            }

            #[tokio::test]
            async fn on_mariadb_11_8() {
                let mysql = Mysql::shared(Server::MariaDb118);
                super::$promise(Scene::binlog(mysql, Kafka::shared(), $hint).await).await;
            }
        }
    };
}

fn command(scene: &Scene<'_, impl Outbox>, args: &[&str]) -> Output {
    let output = scene.headwater.run(&[&["dead-letters"], args].concat());
    println!(
        "$ headwater dead-letters {args:?}\n{}{}",
        output.stdout, output.stderr
    );
    output
}

#[track_caller]
fn succeeds(scene: &Scene<'_, impl Outbox>, args: &[&str]) -> Output {
    let output = command(scene, args);
    assert_eq!(output.code, 0, "{args:?}: {output:?}");
    output
}

/// The ids of those that are open.
#[track_caller]
fn open(scene: &Scene<'_, impl Outbox>) -> Vec<String> {
    let output = succeeds(scene, &["list", "--format", "json"]);
    let id = |line: &str| {
        let line: Value = serde_json::from_str(line).expect("JSON");
        line["id"].as_str().expect("an id").to_owned()
    };
    output.stdout.lines().map(id).collect()
}

fn header(message: &Consumed, name: &str) -> Option<String> {
    let header = message.headers.iter().find(|(header, _)| header == name)?;
    Some(String::from_utf8(header.1.clone()?).expect("text"))
}

fn is_replay(message: &Consumed) -> bool {
    header(message, "headwater-replay").is_some()
}

/// The letters that marks on the topic name.
async fn marked(scene: &Scene<'_, impl Outbox>) -> Vec<String> {
    let topic = letters::topic(scene);
    let messages = scene.kafka.consume_all(&[&topic]).await;
    let marks = messages.iter();
    marks
        .filter_map(|it| header(it, "headwater-replayed"))
        .collect()
}

everywhere!(a_letter_is_listed_shown_and_replayed: "letters");

async fn a_letter_is_listed_shown_and_replayed(mut scene: Scene<'_, impl Outbox>) {
    // GIVEN letters of rows that are in the table, and of two that are not there any more, one of which was cut
    let events: Vec<Event> = (1..=5)
        .map(|seq| Event::new(&scene.namespace, &format!("key-{seq}"), seq))
        .collect();
    for event in &events[..3] {
        scene.database.execute(&scene.insert(event)).await;
    }
    let topic = scene.topic().to_owned();
    let of = |index: usize| Letter::of(&events[index]);
    let whole = of(3).kind("refused").route(1, &topic);
    let letters = [
        of(0).kind("unknown_type"),
        of(1).kind("bad_payload").route(1, &topic),
        of(2).kind("too_large").route(1, &topic).cut(),
        whole,
        of(4).kind("too_large").route(1, &topic).cut(),
    ];
    let ids = with_letters(&mut scene, &letters).await;

    // WHEN they are listed and looked at, THEN each tells what it is
    let mut listed = open(&scene);
    listed.sort_unstable();
    let mut wanted = ids.clone();
    wanted.sort_unstable();
    assert_eq!(listed, wanted);
    let text = succeeds(&scene, &["list"]).stdout;
    assert!(text.contains("5 open on topic"), "{text}");
    assert!(text.contains("WalletChangedEvent"), "{text}");
    let event = events[1].id.to_string();
    let shown = succeeds(&scene, &["show", &event]).stdout;
    for word in ["bad_payload", "model_id = key-2", "open", &ids[1]] {
        assert!(shown.contains(word), "{word}: {shown}");
    }
    let shown = succeeds(&scene, &["show", &ids[1], "--format", "json"]).stdout;
    let shown: Value = serde_json::from_str(&shown).expect("JSON");
    assert_eq!(shown["columns"]["namespace"], scene.namespace.as_str());
    assert_eq!(command(&scene, &["show", "nothing"]).code, 2);

    // WHEN it is only asked what would be, THEN nothing is published or marked
    let all = ["replay", "--all", "--dry-run"];
    let dry = command(&scene, &all);
    assert_eq!(dry.code, 3, "{dry:?}");
    let told = format!("{}: to topic {topic}; its row is in the table", ids[0]);
    assert!(dry.stdout.contains(&told), "{dry:?}");
    assert!(dry.stdout.contains("gone from the table"), "{dry:?}");
    assert_eq!(scene.consume().await.len(), 0);
    assert!(marked(&scene).await.is_empty());

    // WHEN one is replayed by its event's id, then those of a kind, THEN they alone are published and closed
    let first = events[0].id.to_string();
    succeeds(&scene, &["replay", "--id", &first]);
    assert_eq!(scene.consume().await.len(), 1);
    succeeds(&scene, &["replay", "--kind", "bad_payload"]);
    assert_eq!(scene.consume().await.len(), 2);
    assert_eq!(marked(&scene).await, ids[..2]);
    let again = succeeds(&scene, &["replay", "--id", &first]);
    assert!(again.stderr.contains("was replayed already"), "{again:?}");
    assert_eq!(scene.consume().await.len(), 2);

    // WHEN all are, THEN a row that is gone comes out of its letter, and is refused if some of that was cut
    let all = command(&scene, &["replay", "--all"]);
    assert_eq!(all.code, 3, "{all:?}");
    let refused = format!("{} stays open: its row is not in the table", ids[4]);
    assert!(all.stderr.contains(&refused), "{all:?}");
    assert!(all.stderr.contains("payload cut"), "{all:?}");
    assert!(all.stderr.contains("1 of 3 dead letters"), "{all:?}");
    assert_eq!(open(&scene), ids[4..]);
    let consumed = scene.consume().await;
    assert!(consumed.iter().all(is_replay));
    let mut written = scene.committed_in(&scene.namespace).await;
    written.committed.push(events[3].committed());
    check(&written, &consumed).assert_exactly_once();
    let shown = succeeds(&scene, &["show", &ids[3]]);
    assert!(!shown.stdout.is_empty());

    // AND what came out of a letter is what the table would have given
    scene.database.execute(&scene.insert(&events[3])).await;
    let of = |it: &&Consumed| {
        let value = String::from_utf8_lossy(it.value.as_ref().unwrap()).into_owned();
        value.contains(&events[3].id.to_string())
    };
    let given = consumed.iter().find(of).expect("there");
    let given: Value = serde_json::from_slice(given.value.as_ref().unwrap()).unwrap();
    assert_eq!(given["payload"]["seq"], 4);
    assert_eq!(given["model_id"], "key-4");
}

#[tokio::test]
async fn a_row_that_still_fails_stays_open_and_others_go_on() {
    // GIVEN letters of a row that no route can take, and of one that can be published now
    let mut scene = Scene::shared(17, "stillfails").await;
    let bad = Event::new(&scene.namespace, "bad", 1);
    let good = Event::new(&scene.namespace, "good", 2);
    let blank = bad.insert_with(&[("namespace", "'  '")]);
    scene.database.execute(&blank).await;
    scene.database.execute(&good.insert()).await;
    let letters = [&bad, &good].map(|event| Letter::of(event).kind("bad_payload"));
    let ids = with_letters(&mut scene, &letters).await;

    // WHEN all are replayed, THEN the one is told with its reason and a person is asked for; the other is there
    let output = command(&scene, &["replay", "--all"]);
    assert_eq!(output.code, 3, "{output:?}");
    let told = format!("{} stays open: bad_payload: column namespace", ids[0]);
    assert!(output.stderr.contains(&told), "{output:?}");
    assert_eq!(scene.consume().await.len(), 1);
    assert_eq!(open(&scene), ids[..1]);

    // WHEN its row is mended, THEN it goes
    let mend = format!(
        "UPDATE eventlog.events SET namespace = '{}' WHERE id = '{}'",
        scene.namespace, bad.id
    );
    scene.database.execute(&mend).await;
    succeeds(&scene, &["replay", "--all"]);
    assert_eq!(scene.consume().await.len(), 2);
    assert!(open(&scene).is_empty());
    let output = succeeds(&scene, &["replay", "--all"]);
    assert!(output.stderr.contains("no dead letter"), "{output:?}");
}

#[tokio::test]
async fn a_replay_is_killed_and_repeated_until_each_letter_is_marked() {
    // GIVEN many letters, half of rows that were pruned, and a pipeline that carries meanwhile
    const COUNT: i64 = 1_500;
    let mut scene = Scene::ready(17, "letterkills").await;
    let written = scene.commit_events(COUNT).await;
    let letters: Vec<Letter> = (written.committed.iter())
        .map(|it| Letter::of(&Event::of(&scene.namespace, it)).kind("refused"))
        .collect();
    let ids = with_letters(&mut scene, &letters).await;
    let prune = format!(
        "DELETE FROM eventlog.events WHERE namespace = '{}' AND id > '80000000-0000-0000-0000-000000000000'",
        scene.namespace
    );
    scene.database.execute(&prune).await;
    scene.send_one_by_one();

    // WHEN its replay is killed at odd moments, again and again
    let mut moments = Moments::new();
    let seed = moments.seed;
    let mut kills = 0;
    while kills < 6 {
        let mut replay = scene.spawn(&["dead-letters", "replay", "--all"]);
        if !replay.wait_for_log("a second try", LIMIT).await {
            break;
        }
        sleep(moments.next_within(Duration::from_millis(400))).await;
        if !replay.is_running() {
            break;
        }
        replay.kill9();
        kills += 1;
    }
    let mut replay = scene.spawn(&["dead-letters", "replay", "--all"]);
    assert_eq!(replay.ended_within(PATIENCE).await, 0, "{}", replay.tail());

    // THEN each event is there, and each letter was marked and is not offered again
    let consumed = scene.consume().await;
    check(&written, &consumed).assert_each();
    assert!(kills > 0 && consumed.iter().all(is_replay), "seed {seed}");
    let marked = marked(&scene).await;
    let unique: HashSet<&String> = marked.iter().collect();
    assert_eq!(unique, ids.iter().collect(), "seed {seed}");
    // and of a kill the one mark at most is doubled that was under way
    let doubled = marked.len() - unique.len();
    println!("{kills} kills, {doubled} marks doubled");
    assert!(doubled <= kills, "seed {seed}: {doubled} of {kills} kills");
    assert!(open(&scene).is_empty(), "seed {seed}");
    let text = succeeds(&scene, &["list"]).stdout;
    let told = format!(
        "0 open on topic {}, {COUNT} replayed",
        letters::topic(&scene)
    );
    assert!(text.contains(&told), "{text}");
}

#[tokio::test]
async fn a_pipeline_that_runs_beside_it_does_not_notice() {
    // GIVEN a pipeline that carries the rows of writers, and letters of other rows
    let mut scene = Scene::ready(17, "besideletters").await;
    let other = scene.another_namespace("others").await;
    let mut events = Vec::new();
    for seq in 1..=200 {
        events.push(Event::new(&other, "other", seq));
    }
    let letters: Vec<Letter> = events.iter().map(Letter::of).collect();
    with_letters(&mut scene, &letters).await;
    let run = scene.start().await;
    let load = Load {
        rate: Some(200),
        ..Load::new(&scene.namespace, 5)
    };
    let load = load.start(&scene.database.owner_url());
    load.wait_for(100, LIMIT).await;

    // WHEN they are replayed
    succeeds(&scene, &["replay", "--all"]);

    // THEN each of its rows comes once all the same
    let events = load.events();
    load.wait_for(events + 100, LIMIT).await;
    let written = load.stop().await;
    let mut run = run;
    scene.judge(&written).await;
    run.ask_to_stop().await;
    let consumed = scene.consume().await;
    check(&written, &consumed).assert_each_once();
    assert!(open(&scene).is_empty());
}

#[tokio::test]
async fn an_audit_tells_dead_letters_from_what_is_missing() {
    // GIVEN events of which none was published: one is a letter for its topic, one for none, one fails, one is nowhere
    let mut scene = Scene::shared(17, "auditletters").await;
    let events: Vec<Event> = (1..=4)
        .map(|seq| Event::new(&scene.namespace, "key", seq))
        .collect();
    for event in &events[..2] {
        scene.database.execute(&event.insert()).await;
    }
    let blank = events[2].insert_with(&[("namespace", "' '")]);
    scene.database.execute(&blank).await;
    let route = format!("[[route]]\ntopic = \"{}\"", scene.topic());
    scene.pipeline.more = route;
    scene.configure();
    let topic = scene.topic().to_owned();
    let letters = [
        Letter::of(&events[0]).kind("refused").route(1, &topic),
        Letter::of(&events[1]).kind("unknown_type"),
        Letter::of(&events[2]).kind("bad_payload"),
    ];
    with_letters(&mut scene, &letters).await;

    // WHEN it is audited, THEN nothing is missing, and what became letters is told
    let audit = [&["audit"], &UNTIL[..]].concat();
    let output = scene.headwater.run(&audit);
    assert_eq!(output.code, 0, "{output:?}");
    for told in ["3 dead-lettered", "0 missing", "0 cannot be published"] {
        assert!(output.stdout.contains(told), "{output:?}");
    }
    assert!(
        output
            .stdout
            .contains(&format!("dead-lettered: {}", events[0].id))
    );

    // AND what is nowhere is missing
    scene.database.execute(&events[3].insert()).await;
    let output = scene.headwater.run(&audit);
    assert_eq!(output.code, 3, "{output:?}");
    assert!(
        output
            .stdout
            .contains(&format!("missing: {}", events[3].id))
    );

    // AND once replayed, it is there
    succeeds(&scene, &["replay", "--kind", "refused"]);
    let output = scene.headwater.run(&audit);
    assert!(output.stdout.contains("2 dead-lettered"), "{output:?}");
}

#[tokio::test]
async fn a_letter_goes_to_the_route_that_failed_and_to_no_other() {
    // GIVEN two routes that both take every event, and letters of one of them, of none, and of one that is not there any more
    let mut scene = Scene::shared(17, "letterroutes").await;
    let (first, second) = (scene.topic().to_owned(), unique("second"));
    scene.kafka.create_topic(&second, 1, 1, &[]).await;
    scene.pipeline.more = format!(
        "[[route]]\ntopic = \"{first}\"\n[[route]]\ntopic = \"{second}\"\nkey = \"{{id}}\""
    );
    scene.configure();
    let events: Vec<Event> = (1..=4)
        .map(|seq| Event::new(&scene.namespace, "key", seq))
        .collect();
    for event in &events {
        scene.database.execute(&event.insert()).await;
    }
    let of = |index: usize| Letter::of(&events[index]);
    let letters = [
        of(0).route(2, &second),
        // Since then the routes have changed places.
        of(1).route(2, &first),
        of(2),
        of(3).route(1, "elsewhere"),
    ];
    let ids = with_letters(&mut scene, &letters).await;

    // WHEN all are replayed, THEN each comes where it failed; who failed before any route comes everywhere
    let output = command(&scene, &["replay", "--all"]);
    assert_eq!(output.code, 3, "{output:?}");
    let told = format!("{} stays open: no route leads to topic elsewhere", ids[3]);
    assert!(output.stderr.contains(&told), "{output:?}");
    assert_eq!(open(&scene), ids[3..]);
    for (topic, wanted) in [(&first, [1, 2]), (&second, [0, 2])] {
        let mut came = Vec::new();
        for message in scene.kafka.consume_all(&[topic]).await {
            let value: Value = serde_json::from_slice(&message.value.unwrap()).unwrap();
            came.push(value["id"].as_str().unwrap().to_owned());
        }
        came.sort_unstable();
        let mut wanted = wanted.map(|index| events[index].id.to_string());
        wanted.sort_unstable();
        assert_eq!(came, wanted, "{topic}");
    }
}
