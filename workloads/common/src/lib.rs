//! What the application and the worker share: settings, the server of the internal port, access to the database and to
//! the message broker, log lines, trace context and the exposition of metrics.

pub mod backoff;
pub mod config;
pub mod database;
pub mod exposition;
pub mod internal;
pub mod logging;
pub mod queue;
pub mod server;
pub mod signal;
pub mod trace;
