//! Black-box tests of the built program on real databases and Kafka: one file a promise.
//!
//! Each test is GIVEN / WHEN / THEN: servers and a load, something that happens, and what the checker counts afterwards.

// Test code: a failed expectation is the test's answer.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod admin;
mod audit;
mod binlog;
mod blocked;
mod check_rows;
mod crash;
mod dead_letters;
mod failover;
mod idle;
mod instances;
mod kafka_away;
mod kafka_security;
mod kills;
mod lost_log;
mod memory;
mod peek;
mod policies;
mod readers;
mod recover;
mod replay;
mod rights;
mod routes;
mod scene;
mod secrets;
mod settings;
mod several_hosts;
mod skips;
mod snapshot;
mod standby;
mod stop;
mod tls;
mod writers;
