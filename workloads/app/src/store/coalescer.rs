//! Request coalescing: one computation per key at a time, whose result all concurrent callers share.

use std::{
    collections::HashMap,
    future::Future,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use futures::{
    FutureExt,
    future::{BoxFuture, Shared, WeakShared},
};
use parking_lot::{Mutex, MutexGuard};

/// The number of independent shards of the table, which keeps lock contention low.
const SHARDS: usize = 16;

type SharedFuture<T> = Shared<BoxFuture<'static, T>>;

/// The computations in flight. Each continues for as long as a caller waits for it, and is dropped otherwise.
pub struct Coalescer<T: Clone> {
    shards: Vec<Mutex<Table<T>>>,
    hasher: RandomState,
    numbers: AtomicU64,
}

type Table<T> = HashMap<String, Computation<T>>;

/// A computation in flight.
struct Computation<T> {
    number: u64,
    began: Instant,
    result: WeakShared<BoxFuture<'static, T>>,
}

impl<T: Clone> Default for Coalescer<T> {
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

impl<T: Clone + Send + Sync + 'static> Coalescer<T> {
    /// Starts the computation for this key, or joins the one in flight. The second value is the age that the latter had
    /// at this call, and `None` if the computation began after it; an older result may miss changes made in between.
    pub async fn join<F>(
        self: &Arc<Self>,
        key: &str,
        work: impl FnOnce() -> F,
    ) -> (T, Option<Duration>)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let (future, age) = self.join_or_start(key, work);
        (future.await, age)
    }

    fn join_or_start<F>(
        self: &Arc<Self>,
        key: &str,
        work: impl FnOnce() -> F,
    ) -> (SharedFuture<T>, Option<Duration>)
    where
        F: Future<Output = T> + Send + 'static,
    {
        let mut table = self.table(key);
        if let Some(computation) = table.get(key)
            && let Some(future) = computation.result.upgrade()
        {
            return (future, Some(computation.began.elapsed()));
        }
        let number = self.numbers.fetch_add(1, Ordering::Relaxed);
        let remove = RemoveOnDrop {
            coalescer: Arc::clone(self),
            key: key.to_owned(),
            number,
        };
        let work = work();
        let work = async move {
            let _remove = remove;
            work.await
        };
        let future = work.boxed().shared();
        if let Some(result) = future.downgrade() {
            let computation = Computation {
                number,
                began: Instant::now(),
                result,
            };
            table.insert(key.to_owned(), computation);
        }
        (future, None)
    }

    fn table(&self, key: &str) -> MutexGuard<'_, Table<T>> {
        let shard = self.hasher.hash_one(key) as usize % SHARDS;
        self.shards[shard].lock()
    }
}

/// Removes a computation from the table once it has completed or all its callers have left.
struct RemoveOnDrop<T: Clone + Send + Sync + 'static> {
    coalescer: Arc<Coalescer<T>>,
    key: String,
    number: u64,
}

impl<T: Clone + Send + Sync + 'static> Drop for RemoveOnDrop<T> {
    fn drop(&mut self) {
        let mut table = self.coalescer.table(&self.key);
        // The next computation of this key may have started already.
        if table
            .get(&self.key)
            .is_some_and(|computation| computation.number == self.number)
        {
            table.remove(&self.key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    fn coalescer() -> Arc<Coalescer<u32>> {
        Arc::default()
    }

    fn in_flight(coalescer: &Coalescer<u32>) -> usize {
        coalescer
            .shards
            .iter()
            .map(|shard| shard.lock().len())
            .sum()
    }

    #[tokio::test]
    async fn who_asks_meanwhile_gets_the_same_answer_and_knows_that_it_is_older() {
        let coalescer = coalescer();
        let (answer, question) = oneshot::channel();
        let (first, age) = coalescer.join_or_start("a", || question.map(Result::unwrap));
        assert_eq!(age, None);
        let begun = Instant::now();
        while begun.elapsed() < Duration::from_millis(1) {}
        let (second, age) = coalescer.join_or_start("a", || async { unreachable!() });
        assert!(age >= Some(Duration::from_millis(1)), "{age:?}");
        let (other, age) = coalescer.join_or_start("b", || async { 2 });
        assert_eq!(age, None);
        answer.send(1).unwrap();
        assert_eq!((first.await, second.await, other.await), (1, 1, 2));
        assert_eq!(in_flight(&coalescer), 0);
    }

    #[tokio::test]
    async fn a_later_question_starts_anew() {
        let coalescer = coalescer();
        assert_eq!(coalescer.join("a", || async { 1 }).await, (1, None));
        assert_eq!(coalescer.join("a", || async { 2 }).await, (2, None));
    }

    #[tokio::test]
    async fn the_work_goes_on_when_the_one_who_began_it_leaves() {
        let coalescer = coalescer();
        let (answer, question) = oneshot::channel();
        let (first, _) = coalescer.join_or_start("a", || question.map(Result::unwrap));
        let (second, _) = coalescer.join_or_start("a", || async { unreachable!() });
        drop(first);
        answer.send(1).unwrap();
        assert_eq!(second.await, 1);
    }

    #[tokio::test]
    async fn work_that_everybody_left_is_never_taken_up_again() {
        let coalescer = coalescer();
        let (first, _) = coalescer.join_or_start("a", std::future::pending);
        drop(first);
        assert_eq!(in_flight(&coalescer), 0);
        assert_eq!(coalescer.join("a", || async { 2 }).await, (2, None));
    }
}
