//! The worker with a real RabbitMQ, PostgreSQL and Qdrant.
//!
//! Run with `workloads/test-database.sh workloads/test-broker.sh workloads/test-vector.sh cargo test -p
//! shortener-worker`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

mod application;
mod documents;
mod drain;
mod failures;
mod jobs;
mod outages;
mod process;
mod soak;
mod support;
mod telemetry;
mod without_vector;
