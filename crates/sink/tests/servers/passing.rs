//! A sink that goes on behind refusals: only what the broker will never take is refused, and all else arrives in its order.

use std::collections::BTreeSet;
use std::time::Duration;

use headwater_core::failure::Kind;
use headwater_core::ledger::{Ledger, Ticket};
use headwater_core::message::Message;
use headwater_core::sink::{Refusal, Report, Sink, Unsent};
use headwater_core::trouble::Trouble;
use headwater_sink::Error;
use headwater_sink::kafka::{Kafka, Passing, Settings};
use headwater_testkit::{Kafka as Cluster, unique};

use super::rights::{DESCRIBE, WRITE, grant, login, with_rights};
use super::talk::{LIMIT, message, noise, settings, with};

const ALL: [Kind; 3] = [Kind::TooLarge, Kind::Refused, Kind::Unroutable];

fn going_on(mut settings: Settings) -> Settings {
    settings.passing = Passing::of(&ALL);
    settings
}

/// Numbered from 0, with one key.
fn numbered(topic: &str, count: usize) -> Vec<Message> {
    let one = |number: usize| {
        let mut one = message(topic, Some("k"), number.to_string());
        one.id = number.to_string().as_str().into();
        one
    };
    (0..count).map(one).collect()
}

#[derive(Default)]
struct Went {
    delivered: usize,
    /// Ids.
    refused: Vec<(String, Refusal)>,
    runs: usize,
}

/// Carries all as a pipeline does that makes dead letters: behind a refusal it goes on, and after transient trouble it begins anew
/// with a new sink at the first message that was not settled.
async fn carry_on(settings: &Settings, messages: &[Message]) -> Went {
    let mut went = Went::default();
    let mut from = 0;
    while from < messages.len() {
        went.runs += 1;
        assert!(went.runs < 20, "it does not come to an end");
        let mut kafka = Kafka::open(settings.clone()).unwrap();
        let run = Run::new(&messages[from..]);
        let (settled, ended) = tokio::time::timeout(LIMIT, run.carry(&mut kafka, &mut went))
            .await
            .expect("an end within a minute");
        from += settled;
        if let Err(error) = ended {
            assert!(!error.is_fatal(), "{error}");
        }
    }
    went
}

struct Run<'a> {
    messages: &'a [Message],
    ledger: Ledger<usize>,
    next: usize,
    settled: usize,
    held: Option<(Message, Ticket)>,
}

impl<'a> Run<'a> {
    fn new(messages: &'a [Message]) -> Run<'a> {
        Run {
            messages,
            ledger: Ledger::new(1),
            next: 0,
            settled: 0,
            held: None,
        }
    }

    async fn carry(mut self, kafka: &mut Kafka, went: &mut Went) -> (usize, Result<(), Error>) {
        loop {
            if let Err(error) = self.push(kafka) {
                return (self.settled, Err(error));
            }
            if self.settled == self.messages.len() {
                return (self.settled, Ok(()));
            }
            match kafka.next_report().await {
                Ok(Report::Room) => {}
                Ok(Report::Delivered(ticket)) => {
                    went.delivered += 1;
                    self.settle(ticket);
                }
                Ok(Report::Refused(ticket, message, refusal)) => {
                    went.refused.push((message.id.to_string(), refusal));
                    self.settle(ticket);
                }
                Err(error) => return (self.settled, Err(error)),
            }
        }
    }

    fn push(&mut self, kafka: &mut Kafka) -> Result<(), Error> {
        loop {
            let (message, ticket) = match self.held.take() {
                Some(held) => held,
                None if self.next == self.messages.len() => return Ok(()),
                None => {
                    let message = self.messages[self.next].clone();
                    self.next += 1;
                    let ticket = self.ledger.admit(message.size());
                    assert_eq!(self.ledger.mark(self.next), None);
                    (message, ticket)
                }
            };
            match kafka.send(message, ticket) {
                Ok(()) => {}
                Err(Unsent::Later(message, ticket)) => {
                    self.held = Some((message, ticket));
                    return Ok(());
                }
                Err(Unsent::Broken(error)) => return Err(error),
            }
        }
    }

    fn settle(&mut self, ticket: Ticket) {
        if let Some(settled) = self.ledger.settle(ticket) {
            self.settled = settled;
        }
    }
}

async fn arrived(cluster: &Cluster, topic: &str) -> Vec<usize> {
    let found = cluster.consume_all(&[topic]).await.into_iter();
    let values = found.map(|m| String::from_utf8(m.value.unwrap()).unwrap());
    values.map(|value| value.parse().unwrap()).collect()
}

/// All but these, in order: doubled at most where a run began anew.
fn assert_arrived(arrived: &[usize], count: usize, but: &[usize], once: bool) {
    let mut seen = BTreeSet::new();
    let first: Vec<usize> = arrived
        .iter()
        .copied()
        .filter(|it| seen.insert(*it))
        .collect();
    let expected: Vec<usize> = (0..count).filter(|it| !but.contains(it)).collect();
    assert_eq!(first, expected);
    assert!(!once || arrived.len() == first.len(), "doubled");
}

#[tokio::test]
async fn small_neighbours_of_large_messages_all_arrive_in_their_order_and_once() {
    const COUNT: usize = 3000;
    let large = [0, 1, COUNT / 2, COUNT - 1];
    for (compression, max) in [("none", "1000000"), ("none", "5000000"), ("lz4", "5000000")] {
        let (cluster, topic) = (Cluster::shared(), unique("neighbours"));
        let mut settings = with(
            going_on(settings(&cluster.brokers())),
            &[("message.max.bytes", max)],
        );
        settings.compression = compression.into();
        let mut all = numbered(&topic, COUNT);
        for at in large {
            all[at].value = noise(2_000_000).into();
        }
        let went = carry_on(&settings, &all).await;
        let refused: Vec<usize> = went
            .refused
            .iter()
            .map(|(id, _)| id.parse().unwrap())
            .collect();
        assert_eq!((went.delivered, refused), (COUNT - 4, large.to_vec()));
        assert!(
            went.refused
                .iter()
                .all(|(_, it)| it.kind == Kind::TooLarge && !it.overtaken)
        );
        assert_eq!(went.runs, 1, "a refusal that was foreseen ends no run");
        assert_arrived(&arrived(cluster, &topic).await, COUNT, &large, true);
    }
}

#[tokio::test]
async fn when_a_limit_is_lowered_only_the_large_message_is_refused() {
    const COUNT: usize = 4000;
    let (cluster, topic) = (Cluster::shared(), unique("lowered"));
    let settings = going_on(settings(&cluster.brokers()));
    let first = carry_on(&settings, &numbered(&topic, 1)).await;
    assert_eq!((first.delivered, first.runs), (1, 1));
    let mut all = numbered(&topic, COUNT);
    all[COUNT / 2].value = noise(100_000).into();
    // The sink that knows the topic's old rules.
    let mut kafka = Kafka::open(settings.clone()).unwrap();
    let mut went = Went::default();
    let known = Run::new(&all[..1]).carry(&mut kafka, &mut went).await;
    known.1.unwrap();
    cluster
        .set_topic(&topic, &[("max.message.bytes", "50000")])
        .await;
    let rest = Run::new(&all[1..]);
    let (settled, ended) = tokio::time::timeout(LIMIT, rest.carry(&mut kafka, &mut went))
        .await
        .unwrap();
    assert!(!ended.unwrap_err().is_fatal());
    assert!(went.refused.is_empty(), "{:?}", went.refused);
    drop(kafka);
    let went = carry_on(&settings, &all[1 + settled..]).await;
    let refused: Vec<&str> = went.refused.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(refused, [(COUNT / 2).to_string()]);
    let mut arrived = arrived(cluster, &topic).await;
    arrived.remove(0);
    assert_arrived(&arrived, COUNT, &[COUNT / 2], false);
}

#[tokio::test]
async fn a_limit_that_is_raised_counts_from_then_on() {
    // GIVEN a topic that a message is too large for, which is known before it is sent
    let (cluster, topic) = (Cluster::shared(), unique("raised"));
    let low = [("max.message.bytes", "50000")];
    cluster.create_topic(&topic, 1, 1, &low).await;
    let mut settings = going_on(settings(&cluster.brokers()));
    settings.compression = "none".into();
    let mut all = numbered(&topic, 1);
    all[0].value = noise(100_000).into();
    let mut kafka = Kafka::open(settings).unwrap();
    let mut went = Went::default();
    let carried = Run::new(&all).carry(&mut kafka, &mut went).await;
    carried.1.unwrap();
    assert_eq!((went.delivered, went.refused.len()), (0, 1));
    let why = &went.refused[0].1.why;
    assert!(why.contains("(50000)"), "{why}");

    // WHEN the limit is raised, THEN the same sink delivers it a moment later
    let high = [("max.message.bytes", "1000000")];
    cluster.set_topic(&topic, &high).await;
    tokio::time::sleep(Duration::from_secs(6)).await;
    let carried = Run::new(&all).carry(&mut kafka, &mut went).await;
    carried.1.unwrap();
    assert_eq!((went.delivered, went.refused.len()), (1, 1));
}

#[tokio::test]
async fn a_topic_that_may_not_be_written_to_holds_up_no_other() {
    let cluster = with_rights();
    for topic in ["open", "closed", "unseen"] {
        cluster.create_topic(topic, 1, 1, &[]).await;
    }
    grant(cluster.port(0), WRITE, "open");
    grant(cluster.port(0), DESCRIBE, "closed");
    let settings = going_on(login(&cluster, "p"));
    let mut all = numbered("open", 300);
    for (index, message) in all.iter_mut().enumerate() {
        match index % 3 {
            1 => message.address.topic = "closed".into(),
            2 => message.address.topic = "unseen".into(),
            _ => {}
        }
    }
    let went = carry_on(&settings, &all).await;
    assert_eq!(
        (went.delivered >= 100, went.refused.len() >= 200),
        (true, true)
    );
    let refused: BTreeSet<usize> = went
        .refused
        .iter()
        .map(|(id, _)| id.parse().unwrap())
        .collect();
    assert!(
        refused.iter().all(|it| it % 3 != 0) && refused.len() == 200,
        "{refused:?}"
    );
    for (_, refusal) in &went.refused {
        assert_eq!(refusal.kind, Kind::Refused);
        assert!(refusal.why.contains("kafka-acls.sh"), "{}", refusal.why);
    }
    let open = arrived(&cluster, "open").await;
    let expected: Vec<usize> = (0..300).collect();
    let others: Vec<usize> = expected.iter().copied().filter(|it| it % 3 != 0).collect();
    assert_arrived(&open, 300, &others, false);
    // Once it may be written to, that is noticed.
    grant(cluster.port(0), WRITE, "closed");
    grant(cluster.port(0), WRITE, "unseen");
    tokio::time::sleep(Duration::from_secs(31)).await;
    let went = carry_on(&settings, &all).await;
    assert_eq!((went.delivered, went.refused.len(), went.runs), (300, 0, 1));
}

#[tokio::test]
async fn a_name_that_no_topic_can_have_holds_up_no_other() {
    let (cluster, topic) = (Cluster::shared(), unique("legal"));
    let settings = going_on(settings(&cluster.brokers()));
    let mut all = numbered(&topic, 10);
    all[3].address.topic = "no topic".into();
    let went = carry_on(&settings, &all).await;
    assert_eq!((went.delivered, went.runs), (9, 1));
    assert_eq!(went.refused[0].1.kind, Kind::Unroutable);
    assert_arrived(&arrived(cluster, &topic).await, 10, &[3], true);
}

#[tokio::test]
async fn a_message_without_a_key_for_a_compacted_topic_holds_up_no_other() {
    let (cluster, topic) = (Cluster::shared(), unique("keyed"));
    cluster
        .create_topic(&topic, 1, 1, &[("cleanup.policy", "compact")])
        .await;
    let settings = going_on(settings(&cluster.brokers()));
    let mut all = numbered(&topic, 100);
    for at in [0, 50] {
        all[at].address.key = None;
    }
    let went = carry_on(&settings, &all).await;
    assert_eq!((went.delivered, went.runs), (98, 1));
    assert!(went.refused.iter().all(|(_, it)| it.kind == Kind::Refused));
    assert_arrived(&arrived(cluster, &topic).await, 100, &[0, 50], true);
}

#[tokio::test]
async fn of_a_batch_whose_topic_tells_no_rules_only_the_guilty_one_is_refused() {
    const COUNT: usize = 1000;
    let cluster = with_rights();
    cluster
        .create_topic("small", 1, 1, &[("max.message.bytes", "50000")])
        .await;
    grant(cluster.port(0), WRITE, "small");
    let settings = going_on(login(&cluster, "p"));
    let mut all = numbered("small", COUNT);
    all[COUNT / 2].value = noise(100_000).into();
    let went = carry_on(&settings, &all).await;
    let refused: BTreeSet<&str> = went.refused.iter().map(|(id, _)| id.as_str()).collect();
    assert_eq!(refused, BTreeSet::from(["500"]));
    assert_arrived(
        &arrived(&cluster, "small").await,
        COUNT,
        &[COUNT / 2],
        false,
    );
}

#[tokio::test]
async fn a_message_behind_which_its_key_went_on_is_told_to_be_overtaken() {
    const COUNT: usize = 1000;
    // GIVEN a topic whose rules are not told
    let cluster = with_rights();
    cluster
        .create_topic("crossed", 2, 1, &[("max.message.bytes", "50000")])
        .await;
    grant(cluster.port(0), WRITE, "crossed");
    let settings = with(
        going_on(login(&cluster, "p")),
        &[("batch.num.messages", "10")],
    );

    // WHEN its first message is too large, and the others of its key are under way to another partition
    let mut all = numbered("crossed", COUNT);
    for message in &mut all {
        message.address.partition = Some(1);
    }
    all[0].address.partition = Some(0);
    all[0].value = noise(100_000).into();
    let went = carry_on(&settings, &all).await;

    // THEN it alone is refused, and it is known that its place is not kept
    let refused = went.refused.iter();
    let refused: BTreeSet<(&str, bool)> = refused
        .map(|(id, it)| (id.as_str(), it.overtaken))
        .collect();
    assert_eq!(refused, BTreeSet::from([("0", true)]));
    assert_arrived(&arrived(&cluster, "crossed").await, COUNT, &[0], false);
}
