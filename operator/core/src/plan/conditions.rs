//! Conditions: one pure function each, from the live state to a verdict. No client, clock, environment or random
//! source.

mod app;
mod cache;
mod database;
mod gateway;
mod monitoring;
mod pods;
mod queue;
mod store;
mod summary;
mod telemetry;
mod vector;
mod workers;
mod workload;

use crate::{
    api::Profile,
    model::{live::Live, stack::ValidatedStack},
};

pub use app::app_ready;
pub use cache::cache_ready;
pub use database::database_ready;
pub use gateway::gateway_ready;
pub use monitoring::{MONITORING_REFUSED, monitoring_ready};
pub use queue::queue_ready;
pub use summary::{degraded, progressing, ready};
pub use telemetry::telemetry_ready;
pub use vector::vector_ready;
pub use workers::workers_ready;

/// Condition type: the stack serves requests.
pub const READY: &str = "Ready";
/// Condition type: a change towards the spec is in progress.
pub const PROGRESSING: &str = "Progressing";
/// Condition type: a fault requires action by the user.
pub const DEGRADED: &str = "Degraded";
/// Condition type of kstatus, present only while true: a change towards the spec is in progress.
pub const RECONCILING: &str = "Reconciling";
/// Condition type of kstatus, present only while true: the stack waits for an edit of the spec.
pub const STALLED: &str = "Stalled";
/// Condition type: the database accepts connections.
pub const DATABASE_READY: &str = "DatabaseReady";
/// Condition type: the cache accepts connections.
pub const CACHE_READY: &str = "CacheReady";
/// Condition type: the broker accepts jobs.
pub const QUEUE_READY: &str = "QueueReady";
/// Condition type: the workers process jobs.
pub const WORKERS_READY: &str = "WorkersReady";
/// Condition type: traces and logs have a receiver.
pub const TELEMETRY_READY: &str = "TelemetryReady";
/// Condition type: the monitoring objects of a stack without a collector are written.
pub const MONITORING_READY: &str = "MonitoringReady";
/// Condition type: the vector store accepts connections.
pub const VECTOR_READY: &str = "VectorReady";
/// Condition type: the app accepts requests.
pub const APP_READY: &str = "AppReady";
/// Condition type: requests from outside reach the app.
pub const GATEWAY_READY: &str = "GatewayReady";

/// The input of a condition function.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The desired state of the stack.
    pub stack: &'a ValidatedStack,
    /// The live state of the stack.
    pub live: &'a Live,
}

/// The result of a condition function.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Status of the condition.
    pub holds: bool,
    /// True when waiting does not resolve the problem.
    pub fault: bool,
    /// Reason in CamelCase, for machines.
    pub reason: &'static str,
    /// Message of one sentence, for the user.
    pub message: String,
}

impl Verdict {
    /// Returns a verdict: the condition is true.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: true,
            fault: false,
            reason,
            message: message.into(),
        }
    }

    /// Returns a verdict: the condition is not true yet.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            fault: false,
            reason,
            message: message.into(),
        }
    }

    /// Returns a verdict: the condition stays false until the user acts.
    pub fn fault(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            fault: true,
            reason,
            message: message.into(),
        }
    }
}

/// Returns the verdict on each component, by condition type, in the order in which requests depend on them.
pub fn components(view: View<'_>) -> Vec<(&'static str, Verdict)> {
    let View { stack, .. } = view;
    let queue = stack.queue.as_ref();
    let verdicts = [
        Some((DATABASE_READY, database_ready(view))),
        stack
            .cache
            .as_ref()
            .map(|cache| (CACHE_READY, cache_ready(view, cache))),
        queue.map(|queue| (QUEUE_READY, queue_ready(view, queue))),
        stack
            .vector
            .as_ref()
            .map(|vector| (VECTOR_READY, vector_ready(view, vector))),
        Some((APP_READY, app_ready(view))),
        Some((GATEWAY_READY, gateway_ready(view))),
        // Workers that drain a queue are no longer part of the stack.
        queue
            .filter(|queue| queue.draining.is_none())
            .map(|queue| (WORKERS_READY, workers_ready(view, queue))),
        stack
            .collector
            .as_ref()
            .map(|collector| (TELEMETRY_READY, telemetry_ready(view, collector))),
        // With a collector, `TelemetryReady` includes it.
        stack
            .monitoring
            .as_ref()
            .filter(|_| stack.collector.is_none())
            .map(|_| (MONITORING_READY, monitoring_ready(view))),
    ];
    verdicts.into_iter().flatten().collect()
}

/// Returns the profile that a condition type belongs to; `None` for the base stack.
pub fn profile(type_: &str) -> Option<Profile> {
    match type_ {
        CACHE_READY => Some(Profile::Caching),
        QUEUE_READY | WORKERS_READY => Some(Profile::Queue),
        TELEMETRY_READY => Some(Profile::Observability),
        VECTOR_READY => Some(Profile::Vector),
        _ => None,
    }
}
