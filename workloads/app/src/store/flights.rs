//! Request coalescing: one computation per key at a time, whose result all concurrent callers share.

use std::{
    collections::HashMap,
    future::Future,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};

/// The number of independent shards of the table, which keeps lock contention low.
const SHARDS: usize = 16;

type Flight<T> = Shared<BoxFuture<'static, T>>;

/// The computations in flight. Each continues for as long as a caller waits for it, and is dropped otherwise.
pub struct Flights<T: Clone> {
    shards: Vec<Mutex<Table<T>>>,
    hasher: RandomState,
    numbers: AtomicU64,
}

type Table<T> = HashMap<String, (u64, WeakShared<BoxFuture<'static, T>>)>;

impl<T: Clone> Default for Flights<T> {
    fn default() -> Self {
        Self {
            shards: std::iter::repeat_with(Mutex::default)
                .take(SHARDS)
                .collect(),
            hasher: RandomState::new(),
            numbers: AtomicU64::new(0),
        }
    }
}

impl<T: Clone + Send + Sync + 'static> Flights<T> {
    /// Starts the computation for this key, or joins the one in flight. The second value is true if the computation
    /// began after this call; an older result may miss changes made in between.
    pub async fn join<F>(self: &Arc<Self>, key: &str, work: impl FnOnce() -> F) -> (T, bool)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (flight, fresh) = self.board(key, work);
        (flight.await, fresh)
    }

    fn board<F>(self: &Arc<Self>, key: &str, work: impl FnOnce() -> F) -> (Flight<T>, bool)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut table = self.table(key);
        if let Some(flight) = table.get(key).and_then(|(_, flight)| flight.upgrade()) {
            return (flight, false);
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let landing = Landing {
            flights: Arc::clone(self),
            key: key.to_owned(),
            number,
        };
        let work = work();
        let flight = async move {
            let _landing = landing;
            work.await
        };
        let flight = flight.boxed().shared();
        if let Some(weak) = flight.downgrade() {
            table.insert(key.to_owned(), (number, weak));
        }
        (flight, true)
    }

    fn table(&self, key: &str) -> MutexGuard<'_, Table<T>> {
        let shard = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[shard]
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

/// Removes a computation from the table once it has completed or all its callers have left.
struct Landing<T: Clone + Send + Sync + 'static> {
    flights: Arc<Flights<T>>,
    key: String,
    number: u64,
}

impl<T: Clone + Send + Sync + 'static> Drop for Landing<T> {
    fn drop(&mut self) {
        let mut table = self.flights.table(&self.key);
        // The next computation of this key may have started already.
        if table
            .get(&self.key)
            .is_some_and(|(number, _)| *number == self.number)
        {
            table.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn flights() -> Arc<Flights<u32>> {
        Arc::default()
    }

    fn in_the_air(flights: &Flights<u32>) -> usize {
        flights
            .shards
            .iter()
            .map(|shard| shard.lock().unwrap().len())
            .sum()
    }

    #[tokio::test]
    async fn who_asks_meanwhile_gets_the_same_answer_and_knows_that_it_is_older() {
        let flights = flights();
        let (answer, question) = oneshot::channel();
        let (first, fresh) = flights.board("a", || question.map(Result::unwrap));
        assert!(fresh);
        let (second, fresh) = flights.board("a", || async { unreachable!() });
        assert!(!fresh);
        let (other, fresh) = flights.board("b", || async { 2 });
        assert!(fresh);
        answer.send(1).unwrap();
        assert_eq!((first.await, second.await, other.await), (1, 1, 2));
        assert_eq!(in_the_air(&flights), 0);
    }

    #[tokio::test]
    async fn a_later_question_starts_anew() {
        let flights = flights();
        assert_eq!(flights.join("a", || async { 1 }).await, (1, true));
        assert_eq!(flights.join("a", || async { 2 }).await, (2, true));
    }

    #[tokio::test]
    async fn the_work_goes_on_when_the_one_who_began_it_leaves() {
        let flights = flights();
        let (answer, question) = oneshot::channel();
        let (first, _) = flights.board("a", || question.map(Result::unwrap));
        let (second, _) = flights.board("a", || async { unreachable!() });
        drop(first);
        answer.send(1).unwrap();
        assert_eq!(second.await, 1);
    }

    #[tokio::test]
    async fn work_that_everybody_left_is_never_taken_up_again() {
        let flights = flights();
        let (first, _) = flights.board("a", std::future::pending);
        drop(first);
        assert_eq!(in_the_air(&flights), 0);
        assert_eq!(flights.join("a", || async { 2 }).await, (2, true));
    }
}
