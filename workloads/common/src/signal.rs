//! Termination signals.

use std::future::Future;

use tokio::signal::unix::{SignalKind, signal};

/// Completes on SIGTERM or SIGINT. The handlers are installed at once, so that an early signal is not lost.
///
/// # Errors
/// Fails if the handlers cannot be installed.
pub fn termination() -> anyhow::Result<impl Future<Output = ()>> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    Ok(async move {
        tokio::select! {
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
    })
}
