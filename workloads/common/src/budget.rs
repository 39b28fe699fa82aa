//! Bounds on the memory of buffers, in bytes. A number of items bounds little where a client chooses their size.

use std::sync::Arc;

use prometheus_client::metrics::counter::Counter;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The bytes of one item, which are free again once it is dropped.
pub type Share = OwnedSemaphorePermit;

/// The bytes that the items of one buffer may take together; cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget {
    limit: usize,
    free: Arc<Semaphore>,
    /// Counts the items for which there was no room.
    pub(crate) refused: Counter,
}

impl Budget {
    /// Returns a budget of this many bytes.
    pub fn new(limit: usize) -> Self {
        let limit = limit.min(Semaphore::MAX_PERMITS);
        Self {
            limit,
            free: Arc::new(Semaphore::new(limit)),
            refused: Counter::default(),
        }
    }

    /// Takes bytes for an item; `None` if they are not free, which is counted. Never waits.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Share> {
        let bytes = u32::try_from(bytes).ok();
        let share =
            bytes.and_then(|bytes| Arc::clone(&self.free).try_acquire_many_owned(bytes).ok());
        if share.is_none() {
            self.refused.inc();
        }
        share
    }

    /// Returns the number of items for which there was no room.
    pub fn refused(&self) -> u64 {
        self.refused.get()
    }

    /// Returns the number of bytes that can be taken.
    pub fn limit(&self) -> usize {
        self.limit
    }

    /// Returns the number of bytes that are taken.
    pub fn used(&self) -> usize {
        self.limit - self.free.available_permits()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_limit_and_everything_comes_back() {
        let budget = Budget::new(100);
        let mut first = budget.take(60).unwrap();
        assert!(budget.take(41).is_none() && budget.take(usize::MAX).is_none());
        first.merge(budget.take(40).unwrap());
        assert_eq!((budget.used(), budget.refused()), (100, 2));
        drop(first);
        assert_eq!((budget.used(), budget.limit()), (0, 100));
        assert!(budget.take(100).is_some());
    }
}
