//! Observations of the stacks that the operator keeps between reconciles.
//!
//! Reconciles say what to watch, a task that runs beside them watches it, and listeners are told of the stacks whose status
//! should follow.

use std::collections::HashMap;

use futures::channel::mpsc::{UnboundedReceiver, UnboundedSender, unbounded};
use parking_lot::{Mutex, MutexGuard};
use shortener_operator_core::model::metadata::StackKey;
use tokio::sync::Notify;

/// One entry for each observed stack.
pub struct Registry<E> {
    entries: Mutex<HashMap<StackKey, E>>,
    listeners: Mutex<Vec<UnboundedSender<StackKey>>>,
    wake: Notify,
}

impl<E> Default for Registry<E> {
    fn default() -> Self {
        Self {
            entries: Mutex::default(),
            listeners: Mutex::default(),
            wake: Notify::default(),
        }
    }
}

impl<E> Registry<E> {
    /// Locks the entries.
    pub(crate) fn entries(&self) -> MutexGuard<'_, HashMap<StackKey, E>> {
        self.entries.lock()
    }

    /// Returns a part of a stack's entry; `None` if the stack has none.
    pub(crate) fn read<T>(&self, stack: &StackKey, part: impl FnOnce(&E) -> T) -> Option<T> {
        self.entries.lock().get(stack).map(part)
    }

    /// Changes a stack's entry, if it has one, and tells the listeners if `change` returns true.
    pub(crate) fn hear(&self, stack: &StackKey, change: impl FnOnce(&mut E) -> bool) {
        let follows = self.entries.lock().get_mut(stack).is_some_and(change);
        if follows {
            self.tell(stack);
        }
    }

    /// Tells the listeners of a stack.
    pub(crate) fn tell(&self, stack: &StackKey) {
        self.listeners
            .lock()
            .retain(|listener| listener.unbounded_send(stack.clone()).is_ok());
    }

    /// Calls a function that records a metric of a stack, unless `is_watched` is false for its entry or it was forgotten
    /// meanwhile: the metric would stay.
    pub(crate) fn record_if(
        &self,
        stack: &StackKey,
        is_watched: impl FnOnce(&E) -> bool,
        record: impl FnOnce(),
    ) {
        let entries = self.entries.lock();
        if entries.get(stack).is_some_and(is_watched) {
            record();
        }
    }

    /// Removes the entry of a stack.
    pub fn forget(&self, stack: &StackKey) {
        self.entries.lock().remove(stack);
    }

    /// Returns a stream of the stacks whose status should follow their entry, from now on.
    pub fn listen(&self) -> UnboundedReceiver<StackKey> {
        let (sender, receiver) = unbounded();
        self.listeners.lock().push(sender);
        receiver
    }

    /// Ends the wait of [`Self::woken`].
    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    /// Waits until a stack is to be watched that was not, or in another way.
    pub(crate) async fn woken(&self) {
        self.wake.notified().await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stack() -> StackKey {
        ("links".to_owned(), "acme".to_owned())
    }

    fn with_entry() -> Registry<u8> {
        let registry = Registry::default();
        registry.entries().insert(stack(), 1);
        registry
    }

    #[test]
    fn listeners_are_told_of_a_change_that_counts_until_they_are_gone() {
        let registry = with_entry();
        let mut told = registry.listen();
        drop(registry.listen());
        registry.hear(&stack(), |_| false);
        assert!(told.try_recv().is_err());
        registry.hear(&stack(), |entry| {
            *entry += 1;
            true
        });
        assert_eq!(told.try_recv(), Ok(stack()));
        assert_eq!(registry.read(&stack(), |entry| *entry), Some(2));
        assert_eq!(registry.listeners.lock().len(), 1);
        registry.forget(&stack());
        registry.hear(&stack(), |_| true);
        assert!(told.try_recv().is_err());
        assert_eq!(registry.read(&stack(), |entry| *entry), None);
    }

    #[test]
    fn no_metric_is_recorded_of_a_stack_that_is_forgotten() {
        let (registry, mut recorded) = (with_entry(), 0);
        registry.record_if(&stack(), |_| true, || recorded += 1);
        registry.record_if(&stack(), |_| false, || recorded += 10);
        registry.forget(&stack());
        registry.record_if(&stack(), |_| true, || recorded += 100);
        assert_eq!(recorded, 1);
    }
}
