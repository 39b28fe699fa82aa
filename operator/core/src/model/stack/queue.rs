//! The queue of a validated stack.

use std::collections::BTreeSet;

use super::{Pod, Store};
use crate::{
    api::WorkersAutoscaling,
    model::{topology::QueueLimits, worker_demand::WorkerCount},
};

/// The job queue of a stack and its workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The broker.
    pub store: Store,
    /// Limits of the queues of a broker that the operator runs.
    pub limits: QueueLimits,
    /// Tasks that can be enqueued without a key.
    pub public_tasks: BTreeSet<String>,
    /// Memory limit of a broker that the operator runs, in bytes.
    pub broker_memory: u64,
    /// The workers that process the jobs.
    pub workers: Workers,
    /// State of the drain, if the profile is off and the queue is not drained yet.
    pub draining: Option<Draining>,
}

/// The workers of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    /// Limits and decision, if the number follows the queue.
    pub autoscaling: Option<Autoscaled>,
    /// Settings of the pods.
    pub pod: Pod,
}

impl Workers {
    /// Returns the largest number of pods without an edit of the spec.
    pub fn most(&self) -> i32 {
        let autoscaling = self.autoscaling.as_ref();
        autoscaling.map_or(self.replicas, |autoscaled| autoscaled.limits.max_replicas)
    }

    /// Returns the decision on their number, if it follows the queue.
    pub fn count(&self) -> Option<&WorkerCount> {
        self.autoscaling
            .as_ref()
            .map(|autoscaled| &autoscaled.count)
    }
}

/// A number of workers that follows the queue.
#[derive(Clone, Debug, PartialEq)]
pub struct Autoscaled {
    /// Limits of the number.
    pub limits: WorkersAutoscaling,
    /// The decision.
    pub count: WorkerCount,
}

/// State of a queue that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// True when the app can no longer publish jobs.
    pub closed: bool,
    /// Number of jobs that are left, if the broker reports it.
    pub left: Option<i64>,
}

/// The decision about a queue whose profile may be off.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Drain {
    /// The profile is on.
    Wanted,
    /// The queue has no objects, or the user skips the wait.
    Skipped,
    /// The queue keeps its objects until it is empty.
    Draining(Draining),
    /// The queue is empty, so its objects are removed.
    Drained,
}

impl Drain {
    /// Returns the state of a queue that drains.
    #[must_use]
    pub fn draining(self) -> Option<Draining> {
        match self {
            Self::Draining(draining) => Some(draining),
            Self::Wanted | Self::Skipped | Self::Drained => None,
        }
    }
}
