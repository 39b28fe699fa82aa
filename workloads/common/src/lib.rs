//! What the application and the worker share: log lines, trace context and the exposition of metrics.

pub mod exposition;
pub mod logging;
pub mod trace;
