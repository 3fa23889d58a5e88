//! The Kafka sink and its positions on real brokers.

#![allow(clippy::unwrap_used, clippy::expect_used)] // a failed step here is a failed test

mod servers {
    mod absence;
    mod delivery;
    mod order;
    mod passing;
    mod positions;
    mod refusal;
    mod rights;
    mod security;
    mod talk;
    mod token;
}
