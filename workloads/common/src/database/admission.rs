//! The admission to the database: as many operations as there are connections, and a bounded wait for others.
//!
//! Without it, a slow database collects the work of clients that have given up and come back, and answers nothing else.

use std::{
    future::pending,
    sync::{Arc, atomic::AtomicU32},
    time::Duration,
};

use prometheus_client::{
    metrics::{counter::Counter, family::Family, gauge::Gauge},
    registry::Registry,
};
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::{Instant, timeout_at},
};

use super::StoreError;

/// The maximum number of changes that wait for a connection.
const WAITING_CHANGES: usize = 256;
/// The maximum number of look-ups that wait. There are more of them, because one statement answers many. Others than these
/// have half of the connections that the default memory holds.
pub(super) const WAITING_LOOK_UPS: usize = 512;
/// The time after which an operation that waits for a connection is refused. An operation that began later could end after
/// the deadline of its request, and would be work for an answer that comes too late.
pub(super) const LONGEST_WAIT: Duration = Duration::from_secs(5);
/// The share of the connections that the other lane never takes: one of so many.
const RESERVED: usize = 5;

/// The two kinds of operations. Each has connections and places of its own, so neither a flood of unknown codes nor a pile
/// of creates keeps the other from an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lane {
    /// Look-ups of names that a client may have guessed.
    LookUps,
    /// All other operations.
    Changes,
}

/// The metrics of the admission.
#[derive(Clone, Debug)]
pub struct AdmissionMetrics {
    waiting: Gauge<u32, AtomicU32>,
    refused_look_ups: Counter,
    refused_changes: Counter,
}

impl AdmissionMetrics {
    /// Registers the metrics. Both series of the counter exist from the first scrape on.
    pub fn register(registry: &mut Registry) -> Self {
        let refused = Family::<[(&str, &str); 1], Counter>::default();
        let child = |lane: &'static str| refused.get_or_create_owned(&[("lane", lane)]);
        let metrics = Self {
            waiting: Gauge::default(),
            refused_look_ups: child("look_up"),
            refused_changes: child("change"),
        };
        registry.register(
            "database_waiting",
            "Operations that wait for a connection to the database, or for the statement that they share",
            metrics.waiting.clone(),
        );
        registry.register(
            "database_refused",
            "Operations that were refused because the connections to the database are busy",
            refused,
        );
        metrics
    }
}

/// The places for operations.
#[derive(Debug)]
pub(super) struct Admission {
    connections: Arc<Semaphore>,
    look_ups: Places,
    changes: Places,
    metrics: AdmissionMetrics,
}

/// The places of one lane.
#[derive(Debug)]
struct Places {
    /// The connections that the lane may take.
    connections: Arc<Semaphore>,
    waiting: Arc<Semaphore>,
}

/// The right to use one connection until it is dropped.
pub(super) struct Turn {
    _of_the_lane: OwnedSemaphorePermit,
    _connection: OwnedSemaphorePermit,
}

/// The place of an operation that waits, counted until it is dropped.
pub(super) struct Place {
    end: Instant,
    waiting: Gauge<u32, AtomicU32>,
    _place: OwnedSemaphorePermit,
}

impl Place {
    /// Returns the time from which on the operation is refused.
    pub(super) fn end(&self) -> Instant {
        self.end
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.waiting.dec();
    }
}

impl Admission {
    /// Returns places for this number of connections.
    pub(super) fn new(connections: u32, metrics: AdmissionMetrics) -> Self {
        let connections = (connections as usize).max(1);
        let reserved = connections.div_ceil(RESERVED).min(connections - 1);
        let of_a_lane = |waiting| Places {
            connections: Arc::new(Semaphore::new(connections - reserved)),
            waiting: Arc::new(waiting),
        };
        Self {
            connections: Arc::new(Semaphore::new(connections)),
            look_ups: of_a_lane(Semaphore::new(WAITING_LOOK_UPS)),
            changes: of_a_lane(Semaphore::new(WAITING_CHANGES)),
            metrics,
        }
    }

    fn places(&self, lane: Lane) -> &Places {
        match lane {
            Lane::LookUps => &self.look_ups,
            Lane::Changes => &self.changes,
        }
    }

    /// Takes a connection if one is free.
    pub(super) fn try_enter(&self, lane: Lane) -> Option<Turn> {
        let try_acquire = |places: &Arc<Semaphore>| Arc::clone(places).try_acquire_owned().ok();
        Some(Turn {
            _of_the_lane: try_acquire(&self.places(lane).connections)?,
            _connection: try_acquire(&self.connections)?,
        })
    }

    /// Waits for a connection, in the order of arrival.
    ///
    /// # Errors
    /// Fails at once if too many operations wait already, and otherwise after a short time.
    pub(super) async fn enter(&self, lane: Lane) -> Result<Turn, StoreError> {
        let place = self.place(lane)?;
        let turn = timeout_at(place.end(), self.turn(lane)).await;
        turn.map_err(|_| self.refuse(lane))
    }

    /// Takes a place among the operations that wait.
    ///
    /// # Errors
    /// Fails if too many operations wait already.
    pub(super) fn place(&self, lane: Lane) -> Result<Place, StoreError> {
        let waiting = Arc::clone(&self.places(lane).waiting);
        let Ok(place) = waiting.try_acquire_owned() else {
            return Err(self.refuse(lane));
        };
        self.metrics.waiting.inc();
        Ok(Place {
            end: Instant::now() + LONGEST_WAIT,
            waiting: self.metrics.waiting.clone(),
            _place: place,
        })
    }

    /// Waits for a connection, on behalf of operations that have places.
    pub(super) async fn turn(&self, lane: Lane) -> Turn {
        Turn {
            _of_the_lane: acquire(&self.places(lane).connections).await,
            _connection: acquire(&self.connections).await,
        }
    }

    /// Counts an operation that is refused, and returns its error.
    pub(super) fn refuse(&self, lane: Lane) -> StoreError {
        match lane {
            Lane::LookUps => self.metrics.refused_look_ups.inc(),
            Lane::Changes => self.metrics.refused_changes.inc(),
        };
        StoreError::Busy
    }
}

/// Waits for one of these places, which never close.
pub(super) async fn acquire(places: &Arc<Semaphore>) -> OwnedSemaphorePermit {
    match Arc::clone(places).acquire_owned().await {
        Ok(place) => place,
        Err(_) => pending().await,
    }
}

#[cfg(test)]
mod tests {
    use std::{future::poll_fn, pin::Pin, task::Poll};

    use super::{Lane::*, *};

    /// Polls a future once, as a request that goes on waiting does.
    async fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
        poll_fn(|context| Poll::Ready(Pin::new(&mut *future).poll(context))).await
    }

    fn admission(connections: u32) -> Admission {
        let metrics = AdmissionMetrics::register(&mut Registry::default());
        Admission::new(connections, metrics)
    }

    #[test]
    fn each_lane_leaves_a_fifth_of_the_connections_to_the_other() {
        for (connections, for_one) in [(1, 1), (2, 1), (4, 3), (5, 4), (10, 8), (20, 16)] {
            for (first, second) in [(LookUps, Changes), (Changes, LookUps)] {
                let admission = admission(connections);
                let enter =
                    |lane| -> Vec<_> { std::iter::from_fn(|| admission.try_enter(lane)).collect() };
                let turns = enter(first);
                assert_eq!(turns.len(), for_one, "{first:?}, of {connections}");
                let others = enter(second);
                assert_eq!(others.len(), connections as usize - for_one);
                drop((turns, others));
                assert_eq!(enter(second).len(), for_one, "what was used is free again");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_operation_that_would_end_too_late_is_refused() {
        let admission = admission(1);
        let turn = admission.try_enter(Changes).unwrap();
        let start = Instant::now();
        assert!(matches!(
            admission.enter(LookUps).await,
            Err(StoreError::Busy)
        ));
        assert!(start.elapsed() >= LONGEST_WAIT && start.elapsed() < LONGEST_WAIT * 2);
        assert_eq!(admission.metrics.refused_look_ups.get(), 1);
        assert_eq!(admission.metrics.waiting.get(), 0);

        let mut next = Box::pin(admission.enter(Changes));
        assert!(poll_once(&mut next).await.is_pending());
        assert_eq!(admission.metrics.waiting.get(), 1);
        drop(turn);
        assert!(next.await.is_ok(), "whoever waits is next");
        assert_eq!(admission.metrics.refused_changes.get(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn one_too_many_of_a_lane_is_refused_at_once_and_makes_room_when_it_leaves() {
        for (lane, other, most) in [
            (Changes, LookUps, WAITING_CHANGES),
            (LookUps, Changes, WAITING_LOOK_UPS),
        ] {
            let admission = admission(1);
            let turn = admission.try_enter(lane).unwrap();
            let mut waiting: Vec<_> = (0..most).map(|_| Box::pin(admission.enter(lane))).collect();
            for one in &mut waiting {
                assert!(poll_once(one).await.is_pending());
            }
            let refused = poll_once(&mut Box::pin(admission.enter(lane))).await;
            assert!(matches!(refused, Poll::Ready(Err(StoreError::Busy))));
            // The other lane has places of its own.
            let mut of_the_other = Box::pin(admission.enter(other));
            assert!(poll_once(&mut of_the_other).await.is_pending());
            // A client that leaves is not waited for.
            waiting.pop();
            let mut last = Box::pin(admission.enter(lane));
            assert!(poll_once(&mut last).await.is_pending());
            drop(turn);
        }
    }
}
