//! What the integration tests of app and worker share; no part of any program.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test helper, and a failed test panics"
)]

pub mod broker;
pub mod client;
pub mod metrics;
pub mod otlp;
pub mod process;
pub mod proxy;
pub mod vector;
