//! `latency`: from commit to consumer, under a steady load of one-row transactions.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use headwater_testkit::{Database, Kafka, KafkaOptions, Postgres};
use rdkafka::consumer::{BaseConsumer, Consumer};
use rdkafka::message::Message as _;
use rdkafka::topic_partition_list::{Offset, TopicPartitionList};
use tokio::task::JoinSet;
use tokio::time::sleep_until;

use crate::Programs;
use crate::backlog::{NAMESPACE, postgres};
use crate::figure::Figure;
use crate::page::Section;
use crate::pipeline::begin;
use crate::topic::{self, PARTITIONS};

/// Each has a connection of its own, so that one slow commit does not hold up the load.
const WRITERS: u32 = 8;
/// Java's compiler and every cache have then seen what is to come.
const WARM_UP: u32 = 10;
const LIMIT: Duration = Duration::from_mins(1);

pub async fn measure(programs: &Programs, seconds: u32, rounds: usize) -> Section {
    // Commits must be flushed at once, as they are by default: what is not on disk is not sent.
    let postgres = Postgres::start(17, &[]);
    let kafka = Kafka::start_with(&KafkaOptions {
        fast: true,
        ..KafkaOptions::default()
    });
    let servers = format!(
        "{}, Apache Kafka with one broker, writers and consumer, all on the same machine",
        postgres::version(&postgres)
    );
    let mut section = Section::new("Latency", &servers);
    section.line(&format!(
        "From just before COMMIT is sent to the moment the consumer has the message, in ms; one row a transaction, {seconds} s, {rounds} rounds, the middle \
         one, and from where to where they went. Avro, `acks=all`, `lz4`, `linger` as by default, {PARTITIONS} partitions.\n"
    ));
    let database = postgres.database("latency").await;
    let (headwater, topic) = begin(&programs.headwater, &database, &kafka).await;
    let _run = headwater.spawn(&["run"]);
    let mut table = Vec::new();
    for rate in [1000, 100] {
        round(&database, &kafka, &topic, rate, WARM_UP).await;
        let [mut half, mut most, mut all] = [(); 3].map(|()| Figure::default());
        for _ in 0..rounds {
            let ages = round(&database, &kafka, &topic, rate, seconds).await;
            let at = |percent: usize| ages[(ages.len() - 1) * percent / 100];
            let [p50, p99, max] =
                [at(50), at(99), at(100)].map(|it: Duration| it.as_secs_f64() * 1000.0);
            eprintln!("{rate}/s: p50 {p50:.2} ms, p99 {p99:.2} ms, max {max:.2} ms");
            half.add(p50);
            most.add(p99);
            all.add(max);
        }
        table.push(vec![
            rate.to_string(),
            half.shown(2).to_string(),
            most.shown(2).to_string(),
            all.shown(1).to_string(),
        ]);
    }
    section.table(&["events/s", "p50", "p99", "longest"], &table);
    section
}

/// How long each event took, the shortest first.
async fn round(
    database: &Database<'_>,
    kafka: &Kafka,
    topic: &str,
    rate: u32,
    seconds: u32,
) -> Vec<Duration> {
    let count = rate * seconds;
    let arriving = Arrivals::begin(&kafka.brokers(), topic, count);
    let begun = tokio::time::Instant::now() + Duration::from_millis(100);
    let mut writers = JoinSet::new();
    for writer in 0..WRITERS {
        let client = database.connect().await;
        writers.spawn(async move {
            let mut sent = Vec::new();
            for number in (writer..count).step_by(usize::try_from(WRITERS).unwrap()) {
                sleep_until(begun + Duration::from_secs(1) * number / rate).await;
                client
                    .batch_execute(&format!("BEGIN; {}", insert(number)))
                    .await
                    .unwrap();
                sent.push((number, Instant::now()));
                client.batch_execute("COMMIT").await.unwrap();
            }
            sent
        });
    }
    let sent = writers.join_all().await;
    let arrived = tokio::task::spawn_blocking(move || arriving.end())
        .await
        .unwrap();
    let mut ages: Vec<Duration> = sent
        .into_iter()
        .flatten()
        .map(|(number, at)| arrived[usize::try_from(number).unwrap()].unwrap() - at)
        .collect();
    ages.sort();
    ages
}

/// A consumer that notes when each of `count` messages came.
struct Arrivals {
    arriving: JoinHandle<Vec<Option<Instant>>>,
    late: Arc<AtomicBool>,
}

impl Arrivals {
    fn begin(brokers: &str, topic: &str, count: u32) -> Arrivals {
        let consumer = at_the_end(brokers, topic);
        let late = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&late);
        let arriving = thread::spawn(move || {
            let mut arrived = vec![None; usize::try_from(count).unwrap()];
            let mut missing = count;
            while missing > 0 {
                assert!(
                    !told.load(Ordering::Relaxed),
                    "{missing} messages did not arrive"
                );
                let Some(message) = consumer.poll(Duration::from_millis(100)) else {
                    continue;
                };
                let now = Instant::now();
                let message = message.unwrap();
                let number: usize = std::str::from_utf8(message.key().unwrap())
                    .unwrap()
                    .parse()
                    .unwrap();
                if arrived[number].replace(now).is_none() {
                    missing -= 1;
                }
            }
            arrived
        });
        Arrivals { arriving, late }
    }

    /// All have been sent: they arrive soon, or never.
    fn end(self) -> Vec<Option<Instant>> {
        let end = Instant::now() + LIMIT;
        while !self.arriving.is_finished() && Instant::now() < end {
            thread::sleep(Duration::from_millis(10));
        }
        self.late.store(true, Ordering::Relaxed);
        self.arriving.join().unwrap()
    }
}

/// Reads what comes from now on.
fn at_the_end(brokers: &str, topic: &str) -> BaseConsumer {
    let consumer = topic::consumer(brokers);
    let mut all = TopicPartitionList::new();
    for partition in 0..PARTITIONS {
        let (_, high) = consumer.fetch_watermarks(topic, partition, LIMIT).unwrap();
        all.add_partition_offset(topic, partition, Offset::Offset(high))
            .unwrap();
    }
    consumer.assign(&all).unwrap();
    consumer
}

/// One event whose key is its number.
pub fn insert(number: u32) -> String {
    format!(
        r#"INSERT INTO eventlog.events VALUES (gen_random_uuid(), '{NAMESPACE}', gen_random_uuid(), 'PlaceOrderAction',
            '{{"cart": "c-4410", "coupon": null}}', now() AT TIME ZONE 'UTC', now() AT TIME ZONE 'UTC', '{number}', 'Order', 'OrderPlaced',
            '{{"gift": false, "lines": [{{"sku": "TEA-0451", "name": "Assam, second flush", "count": 3, "price": 1249}}], "state": "PLACED",
               "total": 145.35, "modelId": "{number}", "buyer": {{"id": {number}, "name": "Ada Lovelace", "city": "Ockham"}}, "coupon": null,
               "modelName": "Order", "placedAt": "2026-06-12T03:22:47.450789Z", "reference": "2026-06-12/{number}"}}',
            now() AT TIME ZONE 'UTC', false)"#
    )
}
