//! The end of the process, as those hear of it who have something to finish first.

use tokio::sync::watch;

/// Whether the process was asked to end.
pub type Stop = watch::Receiver<bool>;

/// Completes when the process was asked to end.
pub async fn asked(stop: &mut Stop) {
    // Whoever would ask is gone: that is the end as well.
    let _ = stop.wait_for(|stop| *stop).await;
}
