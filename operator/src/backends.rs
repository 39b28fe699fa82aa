//! The known faults of the stacks' external stores: the pods to ask, and what they have said.
//!
//! Reconciles name a pod of each stack with an external store, [`monitor`] asks it, and a stack is due for a reconcile
//! when a fault appears, changes or is gone. A store that stays as it is causes no write.

pub mod monitor;

use std::net::SocketAddr;

use shortener_operator_core::model::{
    metadata::StackKey,
    store_state::{StoreFaults, StoreRecord, StoreStates},
};

use crate::registry::Registry;

/// The pod that reports a stack's external stores, and its reports.
pub struct Entry {
    /// Pod to ask.
    pod: SocketAddr,
    /// True when the pod is to be asked before the next round.
    due: bool,
    record: StoreRecord,
}

/// The known faults of the stacks' external stores.
pub type Backends = Registry<Entry>;

impl Backends {
    /// Sets the pod to ask about a stack's stores. `reported` returns the faults that the stack's status shows, for a
    /// stack that is new here: they stay until a pod says something else.
    pub fn ask(&self, stack: &StackKey, pod: SocketAddr, reported: impl FnOnce() -> StoreFaults) {
        let mut entries = self.entries();
        let entry = entries.entry(stack.clone()).or_insert_with(|| Entry {
            pod,
            due: true,
            record: StoreRecord::remembering(reported()),
        });
        entry.due |= entry.pod != pod;
        entry.pod = pod;
        if entry.due {
            self.wake();
        }
    }

    /// Returns the pods to ask now: all of them, or only those that are new.
    pub fn pods(&self, all: bool) -> Vec<(StackKey, SocketAddr)> {
        let mut entries = self.entries();
        let due = entries.iter_mut().filter_map(|(stack, entry)| {
            let due = std::mem::take(&mut entry.due) || all;
            due.then(|| (stack.clone(), entry.pod))
        });
        due.collect()
    }

    /// Records the answer of a pod, or that there is none, and notifies the listeners if a fault has changed.
    pub fn heard(&self, stack: &StackKey, pod: SocketAddr, said: Option<StoreStates>) {
        // An answer that arrives after the pod was replaced counts no more.
        self.hear(stack, |entry| entry.pod == pod && entry.record.hear(said));
    }

    /// Returns the known faults of a stack's stores.
    pub fn faults(&self, stack: &StackKey) -> StoreFaults {
        let faults = self.read(stack, |entry| entry.record.faults().clone());
        faults.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use shortener_operator_core::model::{
        metadata::Component,
        store_state::{StoreFault, StoreState},
    };

    use super::*;

    fn stack() -> StackKey {
        ("links".to_owned(), "acme".to_owned())
    }

    fn pod(last: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, last], 9090))
    }

    fn says(state: StoreState) -> Option<StoreStates> {
        Some([(Component::Cache, state)].into())
    }

    #[test]
    fn only_a_new_pod_is_asked_before_the_next_round() {
        let backends = Backends::default();
        for (address, asked) in [(pod(1), 1), (pod(1), 0), (pod(2), 1)] {
            backends.ask(&stack(), address, StoreFaults::default);
            assert_eq!(backends.pods(false).len(), asked);
        }
        assert_eq!(backends.pods(true), [(stack(), pod(2))]);
        backends.forget(&stack());
        assert!(backends.pods(true).is_empty());
    }

    #[test]
    fn listeners_hear_of_changes_and_of_nothing_else() {
        let backends = Backends::default();
        backends.ask(&stack(), pod(1), StoreFaults::default);
        let mut told = backends.listen();
        let denied = StoreState::Down(StoreFault::LoginRefused);
        for (address, state, change) in [
            (pod(1), StoreState::Up, false),
            (pod(2), denied, false),
            (pod(1), denied, true),
            (pod(1), denied, false),
            (pod(1), StoreState::Up, true),
        ] {
            backends.heard(&stack(), address, says(state));
            assert_eq!(told.try_recv().is_ok(), change, "{address} {state:?}");
        }
        assert_eq!(backends.faults(&stack()), StoreFaults::default());
    }

    #[test]
    fn faults_of_a_status_stay_until_a_pod_says_something_else() {
        let backends = Backends::default();
        let known = || StoreFaults::from([(Component::Cache, StoreFault::TlsExpired)]);
        backends.ask(&stack(), pod(1), known);
        assert_eq!(backends.faults(&stack()), known());
        backends.heard(&stack(), pod(1), says(StoreState::Up));
        // Only a stack that is new takes them from its status.
        backends.ask(&stack(), pod(1), known);
        assert_eq!(backends.faults(&stack()), StoreFaults::default());
    }
}
