//! Admission to the pools of the database: as many operations as a pool has connections, and a bounded wait for others.
//!
//! Without it, a slow database collects the work of clients that have given up and come back, and answers nothing else.

use prometheus_client::{metrics::counter::Counter, registry::Registry};
use tokio::{
    sync::{Semaphore, SemaphorePermit},
    time::timeout,
};

use super::StoreError;
use crate::{
    metrics::{Gauge, counters, gauge},
    time_limits::DATABASE_WAIT,
};

/// The maximum number of operations of a pool that wait for a connection.
const WAITING: usize = 256;

/// The metrics of both pools.
#[derive(Clone, Debug, Default)]
pub struct AdmissionMetrics {
    /// Operations that wait for a connection, or for the statement that they share.
    waiting: Gauge,
    refused_look_ups: Counter,
    refused_changes: Counter,
}

impl AdmissionMetrics {
    /// Registers the metrics. Both series of the counter exist from the first scrape on.
    pub fn register(registry: &mut Registry) -> Self {
        let waiting = gauge(
            registry,
            "database_waiting",
            "Operations that wait for a connection to the database, or for the statement that they share",
        );
        let [refused_look_ups, refused_changes] = counters(
            registry,
            "database_refused",
            "Operations that were refused because the connections to the database are busy",
            "pool",
            ["look_up", "change"],
        );
        Self {
            waiting,
            refused_look_ups,
            refused_changes,
        }
    }
}

/// Admission to the two pools. Each has connections of its own, so neither a flood of unknown codes nor a pile of creates keeps the
/// other from an answer.
#[derive(Debug)]
pub(super) struct Admission {
    /// Look-ups of names that a client may have guessed.
    pub(super) look_ups: PoolAdmission,
    /// All other operations.
    pub(super) changes: PoolAdmission,
}

impl Admission {
    /// Divides this number of connections.
    pub(super) fn new(connections: u32, metrics: &AdmissionMetrics) -> Self {
        let look_ups = (connections / 2).max(1);
        let pool = |connections: u32, refused: &Counter| PoolAdmission {
            connections: connections.max(1),
            turns: Semaphore::new(connections.max(1) as usize),
            places: Semaphore::new(WAITING),
            waiting: metrics.waiting.clone(),
            refused: refused.clone(),
        };
        Self {
            look_ups: pool(look_ups, &metrics.refused_look_ups),
            changes: pool(
                connections.saturating_sub(look_ups),
                &metrics.refused_changes,
            ),
        }
    }
}

#[derive(Debug)]
pub(super) struct PoolAdmission {
    /// The number of connections, at least one.
    pub(super) connections: u32,
    turns: Semaphore,
    places: Semaphore,
    /// The operations of both pools that wait.
    pub(super) waiting: Gauge,
    refused: Counter,
}

/// Counts an operation that waits until it is dropped.
struct Waits<'a>(&'a Gauge);

impl Drop for Waits<'_> {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl PoolAdmission {
    /// Waits for the right to use one connection, in the order of arrival.
    ///
    /// # Errors
    /// Fails at once if too many operations wait already, and otherwise after a short time.
    pub(super) async fn turn(&self) -> Result<SemaphorePermit<'_>, StoreError> {
        if let Ok(turn) = self.turns.try_acquire() {
            return Ok(turn);
        }
        let Ok(_place) = self.places.try_acquire() else {
            return Err(self.refuse());
        };
        self.waiting.inc();
        let _waits = Waits(&self.waiting);
        match timeout(DATABASE_WAIT, self.turns.acquire()).await {
            Ok(Ok(turn)) => Ok(turn),
            _ => Err(self.refuse()),
        }
    }

    /// Counts an operation that is refused, and returns its error.
    pub(super) fn refuse(&self) -> StoreError {
        self.refused.inc();
        StoreError::Busy
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::Pin, task::Poll};

    use tokio::time::Instant;

    use super::*;

    /// Polls a future once, as a request that goes on waiting does.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
    }

    #[test]
    fn each_lane_has_half_of_the_connections_and_at_least_one() {
        for (connections, look_ups, changes) in [(1, 1, 1), (2, 1, 1), (5, 2, 3), (10, 5, 5)] {
            let admission = Admission::new(connections, &AdmissionMetrics::default());
            let divided = (
                admission.look_ups.connections,
                admission.changes.connections,
            );
            assert_eq!(divided, (look_ups, changes));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_would_end_too_late_is_refused() {
        let metrics = AdmissionMetrics::default();
        let admission = Admission::new(2, &metrics);
        let turn = admission.changes.turn().await.unwrap();
        let start = Instant::now();
        let refused = admission.changes.turn().await;
        assert!(matches!(refused, Err(StoreError::Busy)));
        assert!(start.elapsed() >= DATABASE_WAIT && start.elapsed() < DATABASE_WAIT * 2);
        let counted = |metrics: &AdmissionMetrics| {
            let refused = (
                metrics.refused_look_ups.get(),
                metrics.refused_changes.get(),
            );
            (metrics.waiting.get(), refused)
        };
        assert_eq!(counted(&metrics), (0, (0, 1)));

        let mut next = Box::pin(admission.changes.turn());
        assert!(poll_once(&mut next).await.is_pending());
        assert_eq!(counted(&metrics), (1, (0, 1)));
        assert!(
            admission.look_ups.turn().await.is_ok(),
            "the other pool is free"
        );
        drop(turn);
        assert!(next.await.is_ok(), "whoever waits is next");
        assert_eq!(counted(&metrics), (0, (0, 1)));
    }

    #[tokio::test(start_paused = true)]
    async fn one_too_many_is_refused_at_once_and_there_is_room_when_one_leaves() {
        let admission = Admission::new(2, &AdmissionMetrics::default());
        let _turn = admission.look_ups.turn().await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..WAITING {
            let mut one = Box::pin(admission.look_ups.turn());
            assert!(poll_once(&mut one).await.is_pending());
            waiting.push(one);
        }
        let refused = poll_once(&mut Box::pin(admission.look_ups.turn())).await;
        assert!(matches!(refused, Poll::Ready(Err(StoreError::Busy))));
        waiting.pop();
        let mut last = Box::pin(admission.look_ups.turn());
        assert!(poll_once(&mut last).await.is_pending());
    }
}
