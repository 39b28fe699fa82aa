//! The HTTP server of probes and metrics, the operator's metrics, and its log.

pub mod http;
pub mod logging;
pub mod metrics;
