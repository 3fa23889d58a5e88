//! Each kind of failure, made for real: it ends the run, it is held before, and it becomes a letter, which a recovery
//! passes over; and once what was wrong is mended, the event is published.

use std::time::{Duration, Instant};

use headwater_testkit::{Consumed, Outbox as _, Output, free_port};
use serde_json::Value;
use tokio::time::sleep;

use super::hold::{HOLD, hang_up, ready};
use super::{
    NO_NUMBER, NO_TYPE, SCHEMA, columns, failing, header, letters, letters_topic, numbered,
};
use crate::recover::Lose as _;
use crate::scene::{Event, LIMIT, Running, Scene};

/// Larger than the topic takes at first.
const LARGE: &str =
    "(SELECT jsonb_build_object('seq', 2, 'noise', string_agg(md5(random()::text), ''))
    FROM generate_series(1, 2000))";

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    UnknownType,
    BadPayload,
    Unroutable,
    IllegalName,
    TooLarge,
    Refused,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::UnknownType => "unknown_type",
            Self::BadPayload => "bad_payload",
            Self::Unroutable | Self::IllegalName => "unroutable",
            Self::TooLarge => "too_large",
            Self::Refused => "refused",
        }
    }

    /// What the row has that cannot be published.
    fn odd(self) -> (&'static str, &'static str) {
        match self {
            Self::UnknownType => NO_TYPE,
            Self::BadPayload => NO_NUMBER,
            Self::Unroutable => ("model_type", "NULL"),
            Self::IllegalName => ("model_type", "'Wallet?'"),
            Self::TooLarge => ("payload", LARGE),
            Self::Refused => ("model_type", "'Order'"),
        }
    }

    /// A pipeline that the row does not suit, with these lines in `[failure]`.
    async fn scene(self, failure: &str) -> Scene<'static> {
        let mut scene = Scene::shared(17, self.name()).await;
        let topic = scene.topic().to_owned();
        let (ends, key) = match self {
            Self::Unroutable => ("", "{model_type}"),
            Self::Refused | Self::IllegalName => (".{model_type}", "{model_id}"),
            _ => ("", "{model_id}"),
        };
        scene.pipeline.more = format!(
            "[[route]]\ntopic = '{topic}{ends}'\nkey = '{key}'\nheaders = {{ id = '{{id}}' }}\n"
        );
        failing(&mut scene, failure);
        match self {
            Self::UnknownType => {
                scene.pipeline.encode = "format = \"avro\"\nschemas = [\"*.avsc\"]".into();
            }
            Self::BadPayload => {}
            _ => scene.pipeline.encode = "format = \"json\"".into(),
        }
        if self == Self::TooLarge {
            let limit = [("max.message.bytes", "20000")];
            scene.kafka.set_topic(&topic, &limit).await;
        }
        if self == Self::Refused {
            scene.pipeline.sink = "create_topics = false".into();
            for topic in [format!("{topic}.Wallet"), letters_topic(&scene)] {
                scene.kafka.create_topic(&topic, 1, 1, &[]).await;
            }
        }
        scene.configure();
        scene.init();
        scene
    }

    /// Rows of which the second one cannot be published; each in a transaction of its own.
    async fn commit(self, scene: &Scene<'_>) -> Vec<Event> {
        let all = numbered(&scene.namespace, 1..=3);
        let rows = all.iter().map(|event| match event.seq {
            2 => scene.insert_with(event, &[self.odd()]),
            _ => scene.insert(event),
        });
        let rows: Vec<String> = rows.collect();
        scene.database.execute_each(&rows).await;
        all
    }

    /// Now it can be. Whether a file shows that.
    async fn mend(self, scene: &mut Scene<'_>) -> bool {
        let folder = scene.headwater.folder();
        let schema = |name: &str, seq: &str| {
            format!(
                r#"{{"type": "record", "name": "{name}", "namespace": "{}.avro", "fields": [{{"name": "seq", "type": {seq}}}]}}"#,
                scene.namespace
            )
        };
        let topic = scene.topic().to_owned();
        match self {
            Self::UnknownType => {
                let schema = schema("Nobody", "\"long\"");
                std::fs::write(folder.join("nobody.avsc"), schema).unwrap();
            }
            Self::BadPayload => {
                let schema = schema("WalletChangedEvent", r#"["long", "string"]"#);
                std::fs::write(folder.join(SCHEMA), schema).unwrap();
            }
            Self::Unroutable => {
                let key = "key = '{model_type|\"none\"}'";
                let more = scene.pipeline.more.replace("key = '{model_type}'", key);
                scene.pipeline.more = more;
                scene.configure();
            }
            Self::IllegalName => {
                let more = scene.pipeline.more.replace(".{model_type}", ".Wallet");
                scene.pipeline.more = more;
                scene.configure();
            }
            Self::TooLarge => {
                let limit = [("max.message.bytes", "1000000")];
                scene.kafka.set_topic(&topic, &limit).await;
            }
            Self::Refused => {
                let missing = format!("{topic}.Order");
                scene.kafka.create_topic(&missing, 1, 1, &[]).await;
            }
        }
        !matches!(self, Self::TooLarge | Self::Refused)
    }

    /// The events on the topics, as often as they are there.
    async fn arrived(self, scene: &Scene<'_>, is_mended: bool) -> Vec<String> {
        let topic = scene.topic();
        let topics = match self {
            Self::Refused => vec![format!("{topic}.Wallet"), format!("{topic}.Order")],
            Self::IllegalName => vec![format!("{topic}.Wallet")],
            _ => vec![topic.to_owned()],
        };
        let topics = topics.iter().map(String::as_str);
        let topics: Vec<&str> = topics.take(if is_mended { 2 } else { 1 }).collect();
        let consumed = scene.kafka.consume_all(&topics).await;
        let ids = consumed.iter().map(|it| header(it, "id").to_owned());
        ids.collect()
    }

    /// These events are there once each, and nothing else.
    async fn assert_arrived(self, scene: &Scene<'_>, is_mended: bool, events: &[&Event]) {
        let mut wanted: Vec<String> = events.iter().map(|it| it.id.to_string()).collect();
        wanted.sort_unstable();
        let end = Instant::now() + LIMIT;
        loop {
            let mut ids = self.arrived(scene, is_mended).await;
            if ids.len() >= wanted.len() || Instant::now() > end {
                ids.sort_unstable();
                assert_eq!(ids, wanted);
                return;
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    async fn ends_the_run_and_is_held_before(self) {
        // GIVEN a pipeline that stops, and a row among others that it cannot publish
        let mut scene = self.scene("").await;
        let mut run = scene.start().await;
        let all = self.commit(&scene).await;

        // THEN it ends with code 3, says which row it is and what is wrong, and nothing behind it is published
        assert_eq!(run.ended_within(LIMIT).await, 3);
        let said = run.tail();
        let id = all[1].id.to_string();
        for word in [&id, self.name()] {
            assert!(said.contains(word), "no {word}: {said}");
        }
        self.assert_arrived(&scene, false, &[&all[0]]).await;

        // WHEN it is to hold, THEN it stays up and says the same
        let port = free_port();
        scene.pipeline.admin = format!("listen = \"127.0.0.1:{port}\"");
        scene.pipeline.more.push_str(HOLD);
        scene.configure();
        let mut run = scene.spawn(&["run"]);
        let why = ready(port, 503, "it holds").await;
        println!("/ready: {why}");
        for word in [&id, self.name()] {
            assert!(why.contains(word), "no {word}: {why}");
        }
        self.assert_arrived(&scene, false, &[&all[0]]).await;

        // WHEN that is mended, THEN it goes on: by itself where a file shows it, else on SIGHUP
        if !self.mend(&mut scene).await {
            hang_up(&run);
        }
        assert!(run.wait_for_log("tried again", LIMIT).await);
        ready(port, 200, "ready").await;
        let all: Vec<&Event> = all.iter().collect();
        self.assert_arrived(&scene, true, &all).await;
        tell(self, "hold", &run);
        run.ask_to_stop().await;
    }

    async fn is_passed_over_by_a_recovery_if_it_stands_as_a_letter(self) {
        // GIVEN a pipeline that made a letter of a row among others, and was stopped
        let scene = self.scene("policy = \"dead-letter\"").await;
        let mut run = scene.start().await;
        let all = self.commit(&scene).await;
        letters(&scene, 1).await;
        self.assert_arrived(&scene, false, &[&all[0], &all[2]])
            .await;
        run.ask_to_stop().await;

        // WHEN its log is lost, and recovered
        scene.database.lose(&scene.pipeline).await;
        let output = scene.headwater.run(&["recover"]);

        // THEN the letter is told, nothing is published, and the pipeline goes on
        assert_eq!(output.code, 0, "{output:?}");
        for words in [
            "3 looked at",
            "2 already on the topics",
            "1 stand as dead letters",
            "0 published now",
        ] {
            assert!(output.stdout.contains(words), "{words}: {output:?}");
        }
        let mut run = scene.start().await;
        let next = Event::new(&scene.namespace, "k", 4);
        scene.database.execute(&scene.insert(&next)).await;
        self.assert_arrived(&scene, false, &[&all[0], &all[2], &next])
            .await;
        letters(&scene, 1).await;
        run.ask_to_stop().await;
    }

    async fn becomes_a_letter_that_is_published_once_it_is_mended(self) {
        // GIVEN a pipeline that makes letters
        let mut scene = self.scene("policy = \"dead-letter\"").await;
        let mut run = scene.start().await;

        // WHEN a row among others cannot be published, THEN it becomes a letter, and they arrive
        let mut all = self.commit(&scene).await;
        let found = letters(&scene, 1).await;
        let id = header(&found[0], "headwater-dead-letter").to_owned();
        let event = all[1].id.to_string();
        assert_eq!(header(&found[0], "headwater-event-id"), event);
        assert_eq!(header(&found[0], "headwater-kind"), self.name());
        assert_eq!(columns(&found[0])["columns"]["id"], event);
        self.assert_arrived(&scene, false, &[&all[0], &all[2]])
            .await;
        assert_eq!(open(&scene), [&*id]);
        dead_letters(&scene, &["show", &event]);
        let dry = dead_letters(&scene, &["replay", "--all", "--dry-run"]);
        // what only the broker can refuse is not known before
        let code = match self {
            Self::TooLarge | Self::Refused => 0,
            _ => 3,
        };
        assert_eq!(dry.code, code, "{dry:?}");

        // WHEN what was wrong is mended and the letter is replayed beside the pipeline
        self.mend(&mut scene).await;
        let replay = dead_letters(&scene, &["replay", "--all"]);

        // THEN the event is there once, the letter is marked once and not offered again, and nothing is missing
        assert_eq!(replay.code, 0, "{replay:?}");
        let events: Vec<&Event> = all.iter().collect();
        self.assert_arrived(&scene, true, &events).await;
        let topic = letters_topic(&scene);
        let on_topic = scene.kafka.consume_all(&[&topic]).await;
        let marks: Vec<&Consumed> = on_topic[1..].iter().collect();
        assert_eq!(marks.len(), 1, "letters and marks: {on_topic:?}");
        assert_eq!(header(marks[0], "headwater-replayed"), id);
        assert_eq!(open(&scene), [""; 0]);
        let audit = scene.headwater.run(&["audit", "--to", "2100-01-01"]);
        assert_eq!(audit.code, 0, "{audit:?}");
        assert!(audit.stdout.contains("0 missing"), "{audit:?}");

        // AND the pipeline goes on
        let next = Event::new(&scene.namespace, "k", 4);
        scene.database.execute(&scene.insert(&next)).await;
        all.push(next);
        let events: Vec<&Event> = all.iter().collect();
        self.assert_arrived(&scene, true, &events).await;
        tell(self, "dead-letter", &run);
        run.ask_to_stop().await;
    }
}

fn dead_letters(scene: &Scene<'_>, args: &[&str]) -> Output {
    let output = scene.headwater.run(&[&["dead-letters"], args].concat());
    println!(
        "$ headwater dead-letters {}\n{}{}",
        args.join(" "),
        output.stdout,
        output.stderr
    );
    output
}

/// The ids of those that are open.
#[track_caller]
fn open(scene: &Scene<'_>) -> Vec<String> {
    dead_letters(scene, &["list"]);
    let output = dead_letters(scene, &["list", "--format", "json"]);
    assert_eq!(output.code, 0, "{output:?}");
    let lines = output.stdout.lines();
    let lines = lines.map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    lines
        .map(|it| it["id"].as_str().unwrap().to_owned())
        .collect()
}

/// What the documents show of it.
fn tell(kind: Kind, policy: &str, run: &Running) {
    println!("{kind:?}, {policy}:\n{}", run.tail());
}

/// All promises, for each kind.
macro_rules! each {
    ($($name:ident: $kind:ident),+) => {$(
        mod $name {
            use super::Kind;

            #[tokio::test]
            async fn ends_the_run_and_is_held_before() {
                Kind::$kind.ends_the_run_and_is_held_before().await;
            }

            #[tokio::test]
            async fn is_passed_over_by_a_recovery_if_it_stands_as_a_letter() {
                let kind = Kind::$kind;
                kind.is_passed_over_by_a_recovery_if_it_stands_as_a_letter().await;
            }

            #[tokio::test]
            async fn becomes_a_letter_that_is_published_once_it_is_mended() {
                let kind = Kind::$kind;
                kind.becomes_a_letter_that_is_published_once_it_is_mended().await;
            }
        }
    )+};
}

each!(
    an_unknown_type: UnknownType,
    a_payload_that_does_not_fit: BadPayload,
    a_row_without_an_address: Unroutable,
    a_topic_that_kafka_cannot_have: IllegalName,
    a_message_that_is_too_large: TooLarge,
    a_message_for_a_missing_topic: Refused
);
