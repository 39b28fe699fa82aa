//! Helpers for the integration tests of app and worker. No program contains them.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test helper, and a failed test panics"
)]

mod blocking;
pub mod broker;
pub mod client;
pub mod database;
pub mod metrics;
pub mod openapi;
pub mod otlp;
pub mod pipe;
pub mod process;
pub mod proxy;
pub mod schema;
pub mod servers;
pub mod vector;
