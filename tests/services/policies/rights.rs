//! A topic among others that may not be written to, with a real authoriser and each policy.

use std::collections::BTreeMap;

use headwater_testkit::{Kafka, Outbox as _, free_port, unique};

use super::hold::{hang_up, ready};
use super::{header, letters, letters_topic, numbered};
use crate::rights::kafka::{as_a_guest, with_an_authoriser};
use crate::rights::{printed, split};
use crate::scene::{Event, LIMIT, Scene};

/// A pipeline of a user who may write to one topic and to that of letters, and not to the other one.
struct Half<'a> {
    scene: Scene<'a>,
    open: String,
    closed: String,
    /// Kafka's tool, up to what it is to grant.
    granting: String,
}

impl<'a> Half<'a> {
    async fn open(kafka: &'a Kafka, hint: &str, failure: &str) -> Half<'a> {
        let mut scene = as_a_guest(kafka, hint).await;
        let bases = ["open", "closed"].map(unique);
        let [open, closed] = bases
            .clone()
            .map(|base| format!("{base}.{}", scene.namespace));
        let (_, commands) = split(printed(&scene));
        let positions = scene.pipeline.positions_topic();
        let command = commands.iter().find(|it| it.contains(&positions)).unwrap();
        kafka.administer(command);
        let (granting, _) = command.split_once("--operation").unwrap();
        let letters = letters_topic(&scene);
        scene.pipeline.more = String::new();
        // The names are not known before there are rows: `init` would ask for the right.
        for base in bases {
            let route = format!(
                "[[route]]\ntopic = \"{base}.{{namespace}}\"\nkey = \"{{model_id}}\"\nheaders = {{ id = \"{{id}}\" }}\n"
            );
            scene.pipeline.more.push_str(&route);
        }
        scene.pipeline.more.push_str("[failure]\n");
        scene.pipeline.more.push_str(failure);
        for topic in [&open, &closed, &letters] {
            kafka.create_topic(topic, 1, 1, &[]).await;
        }
        let half = Half {
            granting: granting.to_owned(),
            scene,
            open,
            closed,
        };
        half.scene.configure();
        half.grant(&["Write"], &[&half.open, &letters]);
        half.scene.init();
        half
    }

    fn grant(&self, operations: &[&str], topics: &[&str]) {
        let operations = operations.iter().map(|it| format!("--operation {it}"));
        let topics = topics.iter().map(|it| format!("--topic '{it}'"));
        let what: Vec<String> = operations.chain(topics).collect();
        let command = format!("{} {}", self.granting, what.join(" "));
        self.scene.kafka.administer(&command);
    }

    async fn commit(&self, seqs: std::ops::RangeInclusive<i64>) -> Vec<Event> {
        let all = numbered(&self.scene.namespace, seqs);
        let rows: Vec<String> = all.iter().map(|it| self.scene.insert(it)).collect();
        self.scene.database.execute_each(&rows).await;
        all
    }

    /// How often each event is on the topic, which has all of them before long.
    async fn assert_all(&self, topic: &str, events: &[Event], once: bool) {
        let kafka = self.scene.kafka;
        let count = u64::try_from(events.len()).unwrap();
        assert!(kafka.wait_for_messages(topic, count, LIMIT).await);
        let consumed = kafka.consume_all(&[topic]).await;
        let mut times: BTreeMap<String, usize> = BTreeMap::new();
        for message in &consumed {
            *times.entry(header(message, "id").to_owned()).or_default() += 1;
        }
        let mut wanted: Vec<String> = events.iter().map(|it| it.id.to_string()).collect();
        wanted.sort_unstable();
        let found: Vec<&String> = times.keys().collect();
        assert_eq!(found, wanted.iter().collect::<Vec<_>>(), "{topic}");
        assert!(
            !once || consumed.len() == wanted.len(),
            "doubled: {times:?}"
        );
    }

    fn assert_tells_the_command(&self, said: &str) {
        let told = format!(
            "--allow-principal 'User:guest' --operation Write --topic '{}'",
            self.closed
        );
        for word in ["kafka-acls.sh", &told] {
            assert!(said.contains(word), "no {word}: {said}");
        }
    }
}

#[tokio::test]
async fn one_topic_among_others_that_may_not_be_written_to_is_met_by_each_policy() {
    let kafka = with_an_authoriser();
    it_stops(&kafka).await;
    it_holds(&kafka).await;
    letters_are_made(&kafka).await;
}

async fn it_stops(kafka: &Kafka) {
    // GIVEN a pipeline that stops
    let half = Half::open(kafka, "aclstop", "policy = \"stop\"").await;
    let mut run = half.scene.start().await;

    // WHEN events come for the topic, THEN it ends with code 3 and the command that grants the right
    let all = half.commit(1..=3).await;
    assert_eq!(run.ended_within(LIMIT).await, 3, "{}", run.tail());
    println!("{}", run.tail());
    half.assert_tells_the_command(&run.tail());
    assert_eq!(kafka.message_count(&half.closed).await, 0);

    // WHEN it was granted, THEN all of them arrive everywhere
    half.grant(&["Write"], &[&half.closed]);
    let mut run = half.scene.start().await;
    for topic in [&half.open, &half.closed] {
        half.assert_all(topic, &all, false).await;
    }
    run.ask_to_stop().await;
}

async fn it_holds(kafka: &Kafka) {
    // GIVEN a pipeline that holds
    let mut half = Half::open(kafka, "aclhold", "when_stopped = \"hold\"").await;
    let port = free_port();
    half.scene.pipeline.admin = format!("listen = \"127.0.0.1:{port}\"");
    half.scene.configure();
    let mut run = half.scene.start().await;

    // WHEN events come for the topic, THEN it stays up and says which right it lacks
    let all = half.commit(1..=3).await;
    let why = ready(port, 503, "it holds").await;
    println!("/ready: {why}");
    half.assert_tells_the_command(&why);
    assert_eq!(kafka.message_count(&half.closed).await, 0);

    // WHEN it was granted, THEN a SIGHUP lets it go on
    half.grant(&["Write"], &[&half.closed]);
    hang_up(&run);
    ready(port, 200, "ready").await;
    for topic in [&half.open, &half.closed] {
        half.assert_all(topic, &all, false).await;
    }
    run.ask_to_stop().await;
}

async fn letters_are_made(kafka: &Kafka) {
    // GIVEN a pipeline that makes letters
    let half = Half::open(kafka, "aclletter", "policy = \"dead-letter\"").await;
    let mut run = half.scene.start().await;

    // WHEN events come for the topic, THEN letters are made for it, and the other topic gets them all
    let mut all = half.commit(1..=3).await;
    letters(&half.scene, 3).await;
    half.assert_all(&half.open, &all, false).await;
    all.extend(half.commit(4..=6).await);
    let made = letters(&half.scene, 6).await;
    half.assert_all(&half.open, &all, false).await;
    assert_eq!(kafka.message_count(&half.closed).await, 0);
    for letter in &made {
        assert_eq!(header(letter, "headwater-kind"), "refused");
        assert_eq!(header(letter, "headwater-topic"), half.closed);
        assert_eq!(header(letter, "headwater-route"), "2");
        half.assert_tells_the_command(header(letter, "headwater-error"));
    }

    // WHEN it was granted and they are replayed, THEN each is there once, and marked once
    let letters = letters_topic(&half.scene);
    half.grant(&["Write"], &[&half.closed]);
    half.grant(
        &["Read", "DescribeConfigs"],
        &[&half.open, &half.closed, &letters],
    );
    let replay = ["dead-letters", "replay", "--all"];
    let output = half.scene.headwater.run(&replay);
    assert_eq!(output.code, 0, "{output:?}");
    half.assert_all(&half.closed, &all, true).await;
    let marks = kafka.consume_all(&[&letters]).await;
    let marks = marks
        .iter()
        .filter(|it| !header(it, "headwater-replayed").is_empty());
    assert_eq!(marks.count(), made.len());
    let list = half.scene.headwater.run(&["dead-letters", "list"]);
    assert!(list.stdout.contains("0 open"), "{list:?}");
    let audit = ["audit", "--to", "2100-01-01"];
    let output = half.scene.headwater.run(&audit);
    assert_eq!(output.code, 0, "{output:?}");
    run.ask_to_stop().await;
}
