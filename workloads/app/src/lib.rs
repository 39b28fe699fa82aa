//! The link-shortening application: creates short codes and redirects them to their destinations.
//!
//! [`program`] reads [`config`], [`run`] connects [`state`] and [`router`], and drains on SIGTERM.

pub mod auth;
pub mod authorities;
pub mod body;
pub mod clicks;
pub mod client;
pub mod code;
pub mod config;
pub mod console;
pub mod cors;
pub mod cross_origin;
pub mod dead_letters;
pub mod destination;
pub mod error;
pub mod faults;
pub mod idempotency;
pub mod indexer;
pub mod job_ids;
pub mod limits;
pub mod location;
pub mod metrics;
pub mod observe;
pub mod page;
pub mod program;
pub mod publisher;
pub mod qr;
pub mod redirect;
pub mod rights;
pub mod route;
pub mod router;
pub mod routes;
pub mod run;
pub mod scope;
pub mod shortcut;
pub mod state;
pub mod storage;
pub mod store;
pub mod target;
pub mod template;
pub mod unescaped;
pub mod webhooks;
