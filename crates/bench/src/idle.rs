//! `idle`: what a pipeline costs while nothing happens.

use std::time::Duration;

use headwater_testkit::{Kafka, Postgres};
use tokio::time::sleep;

use crate::Programs;
use crate::figure::Figure;
use crate::meter;
use crate::page::Section;
use crate::pipeline::begin;
use crate::topic;

/// After the last event, until it is called idle.
const SETTLE: Duration = Duration::from_secs(15);

pub async fn measure(programs: &Programs, seconds: u32, rounds: usize) -> Section {
    let (postgres, kafka) = (Postgres::start(17, &[]), Kafka::start(1));
    let mut section = Section::new("Idle", "PostgreSQL 17, Apache Kafka with one broker");
    section.line(&format!(
        "A pipeline that carried some events and then has nothing to do for {seconds} s; {rounds} rounds, Avro.\n"
    ));
    let (mut cpu, mut memory) = (Figure::default(), Figure::default());
    for _ in 0..rounds {
        let (share, kb) = round(programs, &postgres, &kafka, seconds).await;
        eprintln!("idle: {share:.3} % of a core, {kb} kB");
        cpu.add(share);
        memory.add(f64::from(kb) / 1024.0);
    }
    let row = vec![cpu.shown(2).to_string(), memory.shown(1).to_string()];
    section.table(&["CPU, % of one core", "memory, MB"], &[row]);
    section
}

async fn round(
    programs: &Programs,
    postgres: &Postgres,
    kafka: &Kafka,
    seconds: u32,
) -> (f64, u32) {
    let database = postgres.database("idle").await;
    let (headwater, topic) = begin(&programs.headwater, &database, kafka).await;
    let run = headwater.spawn(&["run"]);
    for key in 0..100 {
        database.execute(&crate::latency::insert(key)).await;
    }
    let brokers = kafka.brokers();
    let filling = move || topic::fill(&brokers, &topic, 100, SETTLE * 4);
    tokio::task::spawn_blocking(filling).await.unwrap();
    sleep(SETTLE).await;
    let before = meter::look(run.pid()).unwrap().cpu;
    sleep(Duration::from_secs(seconds.into())).await;
    let after = meter::look(run.pid()).unwrap().cpu;
    let spent = after.saturating_sub(before);
    let share = spent.as_secs_f64() * 100.0 / f64::from(seconds);
    (share, meter::memory(run.pid(), "VmRSS:").unwrap())
}
