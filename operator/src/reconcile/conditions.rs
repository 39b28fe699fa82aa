//! Conditions: one pure function each, from what is live to a verdict. No client, clock, environment or random source.

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

use super::{apply::Live, stack::ValidatedStack};
use crate::api::Profile;

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

/// Condition type: the stack serves.
pub const READY: &str = "Ready";
/// Condition type: the stack is on its way to what the spec says.
pub const PROGRESSING: &str = "Progressing";
/// Condition type: something needs a person.
pub const DEGRADED: &str = "Degraded";
/// Condition type that kstatus knows, there only while it holds: the stack is on its way.
pub const RECONCILING: &str = "Reconciling";
/// Condition type that kstatus knows, there only while it holds: nothing goes on until the spec is edited.
pub const STALLED: &str = "Stalled";
/// Condition type: the database takes connections.
pub const DATABASE_READY: &str = "DatabaseReady";
/// Condition type: the cache takes connections.
pub const CACHE_READY: &str = "CacheReady";
/// Condition type: the broker takes jobs.
pub const QUEUE_READY: &str = "QueueReady";
/// Condition type: workers take jobs.
pub const WORKERS_READY: &str = "WorkersReady";
/// Condition type: somebody takes traces and logs.
pub const TELEMETRY_READY: &str = "TelemetryReady";
/// Condition type: those who watch a stack without traces and logs know of it.
pub const MONITORING_READY: &str = "MonitoringReady";
/// Condition type: the vector store takes connections.
pub const VECTOR_READY: &str = "VectorReady";
/// Condition type: the app takes requests.
pub const APP_READY: &str = "AppReady";
/// Condition type: requests from outside reach the app.
pub const GATEWAY_READY: &str = "GatewayReady";

/// What a condition function may look at.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    /// The stack as it should be.
    pub stack: &'a ValidatedStack,
    /// The stack as it is.
    pub live: &'a Live,
}

/// What a condition function finds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// The condition's status.
    pub holds: bool,
    /// It will not come right by waiting.
    pub fault: bool,
    /// CamelCase, for machines.
    pub reason: &'static str,
    /// A sentence, for people.
    pub message: String,
}

impl Verdict {
    /// The condition holds.
    pub fn yes(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: true,
            fault: false,
            reason,
            message: message.into(),
        }
    }

    /// The condition does not hold yet.
    pub fn no(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            fault: false,
            reason,
            message: message.into(),
        }
    }

    /// The condition does not hold until somebody acts.
    pub fn fault(reason: &'static str, message: impl Into<String>) -> Self {
        Self {
            holds: false,
            fault: true,
            reason,
            message: message.into(),
        }
    }
}

/// The verdict on each component, by condition type, in the order in which requests depend on them.
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
        // Workers that finish what is left of a queue are no part of the stack any more.
        queue
            .filter(|queue| queue.draining.is_none())
            .map(|queue| (WORKERS_READY, workers_ready(view, queue))),
        stack
            .collector
            .as_ref()
            .map(|collector| (TELEMETRY_READY, telemetry_ready(view, collector))),
        // With a collector `TelemetryReady` tells it.
        stack
            .monitoring
            .as_ref()
            .filter(|_| stack.collector.is_none())
            .map(|_| (MONITORING_READY, monitoring_ready(view))),
    ];
    verdicts.into_iter().flatten().collect()
}

/// The profile that a condition type speaks of; none for the base stack.
pub fn profile(type_: &str) -> Option<Profile> {
    match type_ {
        CACHE_READY => Some(Profile::Caching),
        QUEUE_READY | WORKERS_READY => Some(Profile::Queue),
        TELEMETRY_READY => Some(Profile::Observability),
        VECTOR_READY => Some(Profile::Vector),
        _ => None,
    }
}
