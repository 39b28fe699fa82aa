//! The process's logger: one JSON object per line on standard output, filtered by `RUST_LOG` (default `info`).

use tracing_subscriber::{EnvFilter, filter::LevelFilter};

/// Installs the process's logger. A second call has no effect.
pub fn init() {
    let filter = EnvFilter::builder()
        .with_default_directive(LevelFilter::INFO.into())
        .from_env_lossy();
    // The only error is that a logger is already installed, and that one stays in use.
    let _ = tracing_subscriber::fmt()
        .json()
        .flatten_event(true)
        .with_span_list(false)
        .with_env_filter(filter)
        .try_init();
}
