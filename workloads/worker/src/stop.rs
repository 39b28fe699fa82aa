//! The shutdown signal within the process.

use tokio::sync::watch;

/// True once the process should end.
pub type Stop = watch::Receiver<bool>;

/// Completes once the process should end.
pub async fn asked(stop: &mut Stop) {
    // A dropped sender counts as a shutdown, too.
    let _ = stop.wait_for(|stop| *stop).await;
}
