//! What the application and the worker share: settings, the server of the internal port, access to the database, to the
//! message broker and to the vector store, log lines, traces and their export, and the exposition of metrics.

pub mod backoff;
pub mod config;
pub mod database;
pub mod documents;
pub mod exposition;
pub mod internal;
pub mod logging;
pub mod program;
pub mod queue;
pub mod server;
pub mod signal;
pub mod telemetry;
pub mod trace;
pub mod vector;
