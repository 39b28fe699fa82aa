//! The app over real sockets with a real PostgreSQL, PgBouncer, Redis, RabbitMQ and Qdrant.
//!
//! The tests start these servers, see `shortener_testing::servers`.

#![expect(
    clippy::expect_used,
    clippy::panic,
    clippy::unwrap_used,
    reason = "everything here is a test, helpers included"
)]

mod audit;
mod backends;
mod cache;
mod cache_faults;
mod cache_modes;
mod cache_server;
mod check_links;
mod clicks;
mod client_address;
mod connections;
mod console;
mod corpus;
mod database_lookups;
mod dead_letters;
mod docs;
mod docs_faults;
mod docs_telemetry;
mod drain;
mod hostile;
mod jobs;
mod keys;
mod labels;
mod limits;
mod links;
mod lookups;
mod management;
mod management_port;
mod migrations;
mod observability;
mod outage;
mod pages;
mod pooler;
mod process;
mod proxy;
mod purge;
mod qr;
mod replica;
mod rights;
mod schema;
mod search;
mod shared_limits;
mod shortcut;
mod storage;
mod support;
mod takedown;
mod telemetry;
mod telemetry_faults;
mod templates;
mod transfer;
mod visitors;
mod webhooks;

use shortener_testing::client;
