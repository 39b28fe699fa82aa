//! The application over real sockets against a real PostgreSQL.
//!
//! Run with `workloads/test-database.sh cargo test -p shortener-app`; without `DATABASE_URL` every test here fails.

#![expect(
    clippy::expect_used,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

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
