//! The worker with a real RabbitMQ, PostgreSQL and Qdrant.
//!
//! The tests start these servers, see `shortener_testing::servers`.

#![expect(
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

mod api;
mod application;
mod documents;
mod drain;
mod failures;
mod jobs;
mod outages;
mod process;
mod reindex;
mod rollouts;
mod soak;
mod support;
mod telemetry;
