//! Bounds on the memory of buffers, in bytes. A number of items bounds little where a client chooses their size.

use std::sync::{
    Arc,
    atomic::{AtomicU64, AtomicUsize, Ordering},
};

/// The bytes that the items of one buffer may take together; cheap to clone.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    limit: usize,
    used: AtomicUsize,
    refused: AtomicU64,
}

/// The bytes of one item, which are free again once it is dropped.
#[derive(Debug)]
pub struct Share {
    budget: Budget,
    bytes: usize,
}

impl Budget {
    /// Returns a budget of this many bytes.
    #[must_use]
    pub fn new(limit: usize) -> Self {
        Self(Arc::new(Shared {
            limit,
            used: AtomicUsize::new(0),
            refused: AtomicU64::new(0),
        }))
    }

    /// Takes bytes for an item; `None` if they are not free, which is counted. Never waits.
    #[must_use]
    pub fn take(&self, bytes: usize) -> Option<Share> {
        self.hold(bytes).then(|| Share {
            budget: self.clone(),
            bytes,
        })
    }

    /// Takes bytes until they are [released](Self::release), for an item that cannot carry a [`Share`]. Returns false if
    /// they are not free, which is counted.
    #[must_use]
    pub fn hold(&self, bytes: usize) -> bool {
        let fits = self.try_hold(bytes);
        if !fits {
            self.count_refusal();
        }
        fits
    }

    /// Takes bytes like [`hold`](Self::hold), and counts nothing.
    #[must_use]
    pub fn try_hold(&self, bytes: usize) -> bool {
        let taken = |used: usize| {
            let used = used.checked_add(bytes)?;
            (used <= self.0.limit).then_some(used)
        };
        let counted = self
            .0
            .used
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, taken);
        counted.is_ok()
    }

    /// Frees bytes that were [held](Self::hold).
    pub fn release(&self, bytes: usize) {
        self.0.used.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Counts an item for which there was no room.
    pub fn count_refusal(&self) {
        self.0.refused.fetch_add(1, Ordering::Relaxed);
    }

    /// Returns the number of items for which there was no room.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// Returns the number of bytes that can be taken.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.0.limit
    }

    /// Returns the number of bytes that are taken.
    #[must_use]
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Share {
    /// Takes more bytes for the same item. Returns false if they are not free, which is counted.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let fits = self.budget.hold(bytes);
        if fits {
            self.bytes += bytes;
        }
        fits
    }

    /// Frees bytes that this item took.
    pub fn shrink(&mut self, bytes: usize) {
        let bytes = bytes.min(self.bytes);
        self.budget.release(bytes);
        self.bytes -= bytes;
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        self.budget.release(self.bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_taken_beyond_the_limit_and_everything_comes_back() {
        let budget = Budget::new(100);
        let first = budget.take(60).unwrap();
        assert!(budget.take(41).is_none() && budget.take(usize::MAX).is_none());
        let second = budget.take(40).unwrap();
        assert_eq!(budget.used(), 100);
        drop(first);
        assert!(budget.take(60).is_some());
        drop(second);
        assert_eq!((budget.used(), budget.limit()), (0, 100));
    }

    #[test]
    fn an_item_may_grow_within_the_limit_and_shrink() {
        let budget = Budget::new(100);
        let mut item = budget.take(60).unwrap();
        assert!(item.grow(40) && !item.grow(1));
        item.shrink(30);
        assert_eq!(budget.used(), 70);
        item.shrink(usize::MAX);
        assert_eq!(budget.used(), 0);
        assert!(item.grow(100));
        drop(item);
        assert_eq!(budget.used(), 0);
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let budget = Budget::new(100);
        let _item = budget.take(90).unwrap();
        assert!(budget.take(11).is_none() && !budget.hold(11) && !budget.try_hold(11));
        assert_eq!(budget.refused(), 2);
    }
}
