//! Kafka's authoriser lets a user do what the printed commands granted, and nothing else.

use headwater_testkit::{Kafka, KafkaOptions, Listener, Postgres, unique};

use super::{printed, split};
use crate::dead_letters::letters::{self, Letter, with_letters};
use crate::scene::{Event, LIMIT, Scene};

pub fn with_an_authoriser() -> Kafka {
    let authoriser = "org.apache.kafka.metadata.authorizer.StandardAuthorizer";
    Kafka::start_with(&KafkaOptions {
        tls: true,
        settings: vec![
            ("authorizer.class.name".into(), authoriser.into()),
            ("allow.everyone.if.no.acl.found".into(), "false".into()),
            ("super.users".into(), "User:ANONYMOUS;User:u".into()),
        ],
        ..KafkaOptions::default()
    })
}

/// A pipeline that logs in as a user without rights, to topics of its own, none of which is there.
pub async fn as_a_guest<'a>(kafka: &'a Kafka, hint: &str) -> Scene<'a> {
    let mut scene = Scene::on(Postgres::shared(17), kafka, hint).await;
    scene.pipeline.brokers = kafka.listener(Listener::Login);
    scene.pipeline.sink = format!(
        "tls = {{ ca = \"{}\" }}
sasl = {{ mechanism = \"SCRAM-SHA-512\", username = \"guest\", password = \"p\" }}",
        kafka.certificates().ca().display()
    );
    scene.pipeline.more = format!("[[route]]\ntopic = \"{}.{{namespace}}\"", unique(hint));
    scene.configure();
    scene
}

/// The topic that the scene's events go to.
fn topic(scene: &Scene<'_>) -> String {
    let (_, route) = scene.pipeline.more.split_once('"').unwrap();
    let (topic, _) = route.split_once('{').unwrap();
    format!("{topic}{}", scene.namespace)
}

async fn commit_one(scene: &Scene<'_>) {
    let event = Event::new(&scene.namespace, "key", 1);
    scene.database.execute(&event.insert()).await;
}

#[tokio::test]
async fn the_printed_rights_are_enough() {
    // GIVEN a user who was granted what is printed, by Kafka's own tool
    let kafka = with_an_authoriser();
    let scene = as_a_guest(&kafka, "granted").await;
    let (_, commands) = split(printed(&scene));
    assert_eq!(commands.len(), 2, "{commands:?}");
    for command in &commands {
        kafka.administer(command);
    }

    // WHEN everything is used, THEN nothing is lacking, and events arrive in topics that were not there
    scene.init();
    let check = scene.headwater.run(&["check"]);
    assert_eq!(check.code, 0, "{check:?}");
    assert!(!check.stdout.contains("\nwarning"), "{check:?}");
    let mut run = scene.start().await;
    commit_one(&scene).await;
    assert!(kafka.wait_for_messages(&topic(&scene), 1, LIMIT).await);
    run.ask_to_stop().await;
    let adopt = scene.headwater.run(&["adopt"]);
    assert_eq!(adopt.code, 0, "{adopt:?}");

    // WHEN the log is lost, THEN what more is needed to read the topics back is told, and nothing is changed before that
    let drop = format!(
        "SELECT pg_drop_replication_slot('{}')",
        scene.pipeline.slot()
    );
    scene.database.execute(&drop).await;
    commit_one(&scene).await;
    for command in ["audit", "recover"] {
        let output = scene.headwater.run(&[command]);
        assert_eq!(output.code, 3, "{command}: {output:?}");
        let words = [topic(&scene), "--operation Read".into()];
        for word in words {
            assert!(output.stderr.contains(&word), "{command}: {output:?}");
        }
    }
    let slots = "SELECT 'a slot' FROM pg_replication_slots WHERE database = current_database()";
    assert_eq!(scene.database.ask(slots).await, None);

    // AND with it the event comes
    let [write, ..] = &commands[..] else {
        unreachable!("counted above")
    };
    let read = write.replace(
        "--operation Write --operation Create",
        "--operation Read --operation DescribeConfigs",
    );
    assert_ne!(&read, write);
    kafka.administer(&read);
    let recover = scene.headwater.run(&["recover"]);
    assert_eq!(recover.code, 0, "{recover:?}");
    assert!(kafka.wait_for_messages(&topic(&scene), 2, LIMIT).await);
}

/// How the lack of one right shows.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Shows {
    AtInit,
    AtRun,
    /// `check` warns, and events arrive.
    AsAWarning,
}

#[tokio::test]
async fn each_of_the_printed_rights_is_missed_by_name() {
    let kafka = with_an_authoriser();
    for (which, operation, shows) in [
        (0, "Write", Shows::AtRun),
        (0, "Create", Shows::AtRun),
        // There is nothing to read yet when it begins.
        (1, "Read", Shows::AtRun),
        (1, "Write", Shows::AtInit),
        (1, "Create", Shows::AtInit),
        (1, "DescribeConfigs", Shows::AsAWarning),
    ] {
        // GIVEN a user with all of the printed rights but one
        let scene = as_a_guest(&kafka, "lacking").await;
        let (_, mut commands) = split(printed(&scene));
        let without = commands[which].replace(&format!(" --operation {operation} "), " ");
        assert_ne!(commands[which], without);
        commands[which] = without;
        for command in &commands {
            kafka.administer(command);
        }

        // WHEN it begins, THEN the one is named by the command that grants it, or only warned of
        let missed = format!("--allow-principal 'User:guest' --operation {operation} ");
        let init = scene.headwater.run(&["init"]);
        let told = match shows {
            Shows::AtInit => {
                assert_eq!(init.code, 3, "{operation}: {init:?}");
                init.stderr
            }
            Shows::AtRun => {
                assert_eq!(init.code, 0, "{operation}: {init:?}");
                commit_one(&scene).await;
                let mut run = scene.spawn(&["run"]);
                assert_eq!(run.ended_within(LIMIT).await, 3, "{operation}");
                run.log()
            }
            Shows::AsAWarning => {
                assert_eq!(init.code, 0, "{operation}: {init:?}");
                let mut run = scene.start().await;
                commit_one(&scene).await;
                assert!(kafka.wait_for_messages(&topic(&scene), 1, LIMIT).await);
                run.ask_to_stop().await;
                let check = scene.headwater.run(&["check"]);
                assert_eq!(check.code, 0, "{check:?}");
                assert!(check.stdout.contains("\nwarning"), "{check:?}");
                check.stdout
            }
        };
        assert!(told.contains(&missed), "no \"{missed}\": {told}");
    }
}

#[tokio::test]
async fn dead_letters_that_may_not_be_read_are_told_and_none_is_replayed() {
    // GIVEN a pipeline with all that is printed, and a letter on a topic that it may write to and not read
    let kafka = with_an_authoriser();
    let mut scene = as_a_guest(&kafka, "letterrights").await;
    let (_, commands) = split(printed(&scene));
    let [write, ..] = &commands[..] else {
        panic!("{commands:?}")
    };
    for command in &commands {
        kafka.administer(command);
    }
    let letters = letters::topic(&scene);
    let (before, _) = write.split_once("--operation").unwrap();
    let grant = |operation: &str| {
        kafka.administer(&format!(
            "{before} --operation {operation} --topic '{letters}'"
        ));
    };
    commit_one(&scene).await;
    let id = scene
        .database
        .ask("SELECT id::text FROM eventlog.events")
        .await;
    let event = Event {
        id: id.unwrap().parse().unwrap(),
        ..Event::new(&scene.namespace, "key", 1)
    };
    with_letters(&mut scene, &[Letter::of(&event)]).await;
    grant("Write");

    // WHEN they are to be listed or replayed, THEN the lacking right is told, and nothing is published
    for command in [&["list"][..], &["replay", "--all"], &["show", "x"]] {
        let output = scene.headwater.run(&[&["dead-letters"], command].concat());
        assert_eq!(output.code, 3, "{command:?}: {output:?}");
        for word in [&*letters, "--operation Read"] {
            assert!(output.stderr.contains(word), "{command:?}: {output:?}");
        }
    }
    assert_eq!(kafka.message_count(&topic(&scene)).await, 0);
    assert_eq!(kafka.message_count(&letters).await, 1);

    // WHEN it was granted, THEN it goes
    grant("Read");
    let output = scene.headwater.run(&["dead-letters", "replay", "--all"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert_eq!(kafka.message_count(&topic(&scene)).await, 1);
}
