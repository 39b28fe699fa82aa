//! Conditions: one pure function each, from the live state to a verdict. No client, clock, environment or random
//! source.

mod app;
mod gateway;
mod monitoring;
mod summary;
mod telemetry;
mod workers;

use super::stores::{self, Definition};
use crate::api::Profile;

pub(super) use super::stores::postgres::DATABASE_READY;
pub use super::verdict::{Verdict, View};
pub use app::app_ready;
pub use gateway::gateway_ready;
pub use monitoring::{MONITORING_REFUSED, monitoring_ready};
pub use summary::{degraded, progressing, ready, serves};
pub use telemetry::telemetry_ready;
pub use workers::workers_ready;

/// Condition type: redirects and writes are served through the gateway.
pub const READY: &str = "Ready";
/// Condition type: a change towards the spec is in progress.
pub const PROGRESSING: &str = "Progressing";
/// Condition type: a part of the stack is below what was asked for, and waiting does not mend it.
pub const DEGRADED: &str = "Degraded";
/// Condition type of kstatus, present only while true: the stack is not as asked for yet.
pub const RECONCILING: &str = "Reconciling";
/// Condition type of kstatus, present only while true: the stack waits for an edit of the spec.
pub const STALLED: &str = "Stalled";
/// Condition type: the workers process jobs.
pub const WORKERS_READY: &str = "WorkersReady";
/// Condition type: traces and logs have a receiver.
pub const TELEMETRY_READY: &str = "TelemetryReady";
/// Condition type: the monitoring objects of a stack without a collector are written.
pub const MONITORING_READY: &str = "MonitoringReady";
/// Condition type: the app accepts requests.
pub const APP_READY: &str = "AppReady";
/// Condition type: requests from outside reach the app.
pub const GATEWAY_READY: &str = "GatewayReady";

/// Returns the verdict on each component, by condition type, in the order in which requests depend on them.
pub fn components(view: View<'_>) -> Vec<(&'static str, Verdict)> {
    let View { stack, .. } = view;
    let queue = stack.queue.as_ref();
    let stores = stores::all().filter_map(|store| {
        let condition = store.condition.as_ref()?;
        Some((condition.type_, (condition.verdict)(view)?))
    });
    let others = [
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
    stores.chain(others.into_iter().flatten()).collect()
}

/// Returns the profile that a condition type belongs to; `None` for the base stack.
pub fn profile(type_: &str) -> Option<Profile> {
    let is_its = |store: &&Definition| {
        let condition = store.condition.as_ref();
        condition.is_some_and(|condition| condition.type_ == type_)
    };
    match type_ {
        WORKERS_READY => Some(Profile::Queue),
        TELEMETRY_READY => Some(Profile::Observability),
        _ => stores::all().find(is_its)?.profile,
    }
}
