//! The queue of a validated stack.

use super::{Pod, Store};

/// The job queue of a stack and its workers.
#[derive(Clone, Debug, PartialEq)]
pub struct Queue {
    /// Where the jobs wait.
    pub store: Store,
    /// How often a job is delivered at most.
    pub delivery_limit: i32,
    /// Memory limit of a broker that the operator runs, in bytes.
    pub broker_memory: u64,
    /// Who takes the jobs.
    pub workers: Workers,
    /// The profile is off, and what waits is still worked off.
    pub draining: Option<Draining>,
}

/// The workers of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Workers {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    /// How the pods run.
    pub pod: Pod,
}

/// How far a queue that is given up has come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Draining {
    /// Nobody can publish any more.
    pub closed: bool,
    /// Jobs that are left, if the broker tells.
    pub left: Option<i64>,
}
