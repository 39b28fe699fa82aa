//! Facts about the queue.

use crate::model::queue_record::QueueRecord;

/// Facts about the queue. The drain of a queue whose profile is off depends on them, and the number of workers if it
/// follows the queue.
#[derive(Clone, Debug, Default)]
pub struct QueueFacts {
    /// The objects of the queue that exist.
    pub parts: QueueParts,
    /// True when no client can publish jobs any more.
    pub closed: bool,
    /// Number of workers that the cluster has, if their Deployment exists.
    pub workers: Option<i32>,
    /// The known state of the queue.
    pub record: QueueRecord,
}

impl QueueFacts {
    /// Returns true when the queue may still hold jobs: its objects tell so, or all of them vanished in mid drain.
    pub fn may_hold_jobs(&self) -> bool {
        self.parts.may_hold_jobs() || self.record.is_draining()
    }
}

/// The objects of a queue that exist and belong to the stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueParts {
    /// True when the workers' Deployment exists.
    pub workers: bool,
    /// True when the broker's StatefulSet exists, or its RabbitmqCluster has members.
    pub broker: bool,
    /// True when the broker's Service exists. A broker that the operator does not run has none.
    pub service: bool,
}

impl QueueParts {
    /// Returns true when the queue may still hold jobs. A person may have deleted either the workers or the broker, whose
    /// jobs are in its volume, so neither of them alone ends a drain. The workers and a Service without a broker tell
    /// such a deletion from workers of an external broker.
    fn may_hold_jobs(self) -> bool {
        self.broker || (self.workers && self.service)
    }
}
