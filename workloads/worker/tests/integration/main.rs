//! The worker against a real RabbitMQ and a real PostgreSQL.
//!
//! Run with `workloads/test-database.sh workloads/test-broker.sh cargo test -p shortener-worker`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

mod drain;
mod failures;
mod jobs;
mod outages;
mod process;
mod soak;
mod support;
