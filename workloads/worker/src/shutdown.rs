//! The shutdown signal within the process.

use tokio::sync::watch;

/// True once the process should end.
pub type Shutdown = watch::Receiver<bool>;

/// Completes once the process should end.
pub async fn requested(shutdown: &mut Shutdown) {
    // A dropped sender counts as a shutdown, too.
    let _ = shutdown.wait_for(|requested| *requested).await;
}
