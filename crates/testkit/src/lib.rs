//! Real servers for tests and benchmarks: started on free ports, loaded, read back, judged, and never left behind.
//!
//! Never: used by the program itself.
//!
//! What a service test does: start or share [`Postgres`] or [`Mysql`] and [`Kafka`], take a fresh [`Database`]
//! or [`MysqlDatabase`], write a configuration
//! with [`Pipeline`], run [`Headwater`], write with [`Load`] or [`bulk_rows`], read with [`Kafka::consume_all`], and judge
//! with [`check`].

// A test that cannot get its servers has nothing better to do than to panic and say where.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::missing_panics_doc)]

mod canary;
mod checker;
mod headwater;
mod http;
mod kafka;
mod keeper;
mod load;
mod mysql;
mod outbox;
mod pipeline;
mod place;
mod port;
mod postgres;
mod process;
mod proxy;
mod witness;

pub use canary::{Canaries, percent_encoded};
pub use checker::{Reordered, Verdict, check};
pub use headwater::{Headwater, Output, Run};
pub use http::{Page, get, request};
pub use kafka::{Certificates, Consumed, Issuer, Kafka, KafkaOptions, Listener, Manner};
pub use load::{Committed, Load, Writing, Written, bulk_rows};
pub use mysql::{Mysql, MysqlDatabase, SecureMysql, Server};
pub use outbox::Outbox;
pub use pipeline::Pipeline;
pub use port::free_port;
pub use postgres::{CERTIFIED, Database, PASSWORD, Papers, Postgres, SecurePostgres, Shown, USER};
pub use proxy::Proxy;
pub use witness::Witness;

/// A name that no other test uses: the hint and eight random characters, fit for a topic, a database or a pipeline.
pub fn unique(hint: &str) -> String {
    let random = uuid::Uuid::new_v4().simple().to_string();
    format!("{hint}_{}", &random[..8])
}

/// Whether the suite was asked for its long form (`scripts/test --long`).
pub fn long() -> bool {
    std::env::var_os("HEADWATER_LONG").is_some_and(|v| v == "1")
}

/// The seed of a fault test: the usual one, a new one each time in the long form, or that which `HEADWATER_SEED` gives again.
/// It is printed, and a failed test shows what it printed.
pub fn seed(usual: u64) -> u64 {
    let given = std::env::var("HEADWATER_SEED").ok();
    let seed = match given {
        Some(given) => given.parse().expect("HEADWATER_SEED is a number"),
        None if long() => u64::from(uuid::Uuid::new_v4().as_fields().0),
        None => usual,
    };
    println!("HEADWATER_SEED={seed}");
    seed
}
