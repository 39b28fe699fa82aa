//! The queue of a validated stack.

use std::collections::BTreeSet;

use k8s_openapi::ByteString;
use sha2::{Digest, Sha256};

use super::{Pod, Store};
use crate::{
    api::WorkersAutoscaling,
    model::{
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        topology::{QueueLimits, User, Users},
        worker_demand::WorkerCount,
    },
};

/// The job queue of a stack and its workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// The broker.
    pub store: Store,
    /// The operator's own user of a broker that it runs, or the only user of a RabbitmqCluster.
    pub operator: Option<BrokerOperator>,
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

impl Queue {
    /// Returns the users of the broker, if the operator runs it.
    pub fn users(&self) -> Option<Users<'_>> {
        let broker = self.store.managed()?;
        let operator = self.operator_user()?;
        let entry = |key: &str| broker.credentials.data.get(key);
        Some(Users {
            programs: User {
                name: String::from_utf8_lossy(&entry(USERNAME_KEY)?.0),
                password: &entry(PASSWORD_KEY)?.0,
                salt: salt(&broker.checksum),
            },
            operator,
        })
    }

    /// Returns the operator's own user of a broker whose state it watches.
    pub fn operator_user(&self) -> Option<User<'_>> {
        let operator = self.operator.as_ref()?;
        Some(User {
            name: operator.username.as_str().into(),
            password: &operator.password.0,
            salt: salt(&operator.checksum),
        })
    }
}

/// Returns the salt for a password with this checksum. A salt must differ between passwords but need not be secret. The
/// checksum is keyed and differs between passwords.
fn salt(checksum: &str) -> [u8; 4] {
    let [a, b, c, d, ..] = <[u8; 32]>::from(Sha256::digest(checksum));
    [a, b, c, d]
}

/// The user with which the operator uses a broker's management API.
#[derive(Clone, PartialEq)]
pub struct BrokerOperator {
    pub username: String,
    pub password: ByteString,
    /// Checksum of the password.
    pub checksum: String,
}

crate::debug_only!(BrokerOperator: username);

/// The workers of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    /// Limits and decision, if the number follows the queue.
    pub autoscaling: Option<Autoscaled>,
    pub pod: Pod,
}

impl Workers {
    /// Returns the largest number of pods without an edit of the spec.
    pub fn most(&self) -> i32 {
        let autoscaling = self.autoscaling.as_ref();
        autoscaling.map_or(self.replicas, |autoscaled| autoscaled.limits.max_replicas)
    }

    /// Returns the smallest number of pods without an edit of the spec.
    pub fn least(&self) -> i32 {
        let autoscaling = self.autoscaling.as_ref();
        autoscaling.map_or(self.replicas, |autoscaled| autoscaled.limits.min_replicas)
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
    pub limits: WorkersAutoscaling,
    pub count: WorkerCount,
}

/// State of a queue that is being drained.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// True when the app can no longer publish jobs.
    pub closed: bool,
    /// Number of jobs that are left, if the broker reports it.
    pub left: Option<i64>,
    /// True when workers are wanted. Without any, they are not created for an empty queue, because its removal, which
    /// begins with them, may have been interrupted by a restart of the operator.
    pub workers: bool,
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
    pub fn draining(self) -> Option<Draining> {
        match self {
            Self::Draining(draining) => Some(draining),
            Self::Wanted | Self::Skipped | Self::Drained => None,
        }
    }
}
