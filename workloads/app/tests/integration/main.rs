//! The application over real sockets against a real PostgreSQL and a real Redis.
//!
//! Run with `workloads/test-database.sh workloads/test-cache.sh cargo test -p shortener-app`; without `DATABASE_URL`
//! every test here fails, and those of the cache need `redis-server`.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

mod cache;
mod cache_faults;
mod cache_modes;
mod cache_server;
mod corpus;
mod drain;
mod hostile;
mod limits;
mod links;
mod observability;
mod outage;
mod process;
mod support;

use shortener_testing::client;
