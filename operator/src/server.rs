//! The HTTP server of probes and metrics, the operator's health and metrics, and its log.

pub mod health;
pub mod http;
pub mod logging;
pub mod metrics;
