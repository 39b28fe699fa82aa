//! Code that the app and the worker share: settings, memory, open files, the HTTP server and its internal port, access
//! to the database, the message broker and the vector store with TLS, the state of the stores, the removal of expired
//! data, structured logging, traces and their export, and the exposition of metrics.

pub mod accept;
pub mod backends;
pub mod backoff;
pub mod batcher;
pub mod budget;
pub mod config;
pub mod database;
pub mod documents;
pub mod exposition;
pub mod internal;
pub mod logging;
pub mod memory;
pub mod metrics;
pub mod open_files;
pub mod program;
pub mod purge;
pub mod queue;
pub mod server;
pub mod signal;
pub mod supervised;
pub mod telemetry;
pub mod time_limits;
pub mod tls;
pub mod vector;
mod words;

pub use shortener_telemetry::trace;
