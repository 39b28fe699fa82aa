//! Conditions: one pure function each, from the live state to a verdict. No client, clock, environment or random
//! source.

mod app;
mod backup;
mod end_to_end;
mod gateway;
mod monitoring;
mod pending;
mod sole_entry;
mod summary;
mod telemetry;
mod webhooks;
mod workers;

use super::stores::{self, Definition};
use crate::{
    api::Profile,
    model::{drill::ActiveDrill, failure::StepFailure, metadata::Component},
    plan::verdict::workload,
};

pub(super) use super::stores::postgres::DATABASE_READY;
pub use super::verdict::{Verdict, View, workload::reported_failure};
pub use app::app_ready;
pub use backup::{BACKUP_READY, BACKUP_VERIFIED, UNKNOWN_YET, backups};
pub use end_to_end::{TASK, end_to_end, target};
pub use gateway::{gateway_ready, has_address};
pub use monitoring::{MONITORING_REFUSED, monitoring_ready};
pub use pending::held_back;
pub use sole_entry::{Attempts, allows_attempts, attempts, sole_entry};
pub use summary::{degraded, paused, plan_only, progressing, ready, serves};
pub use telemetry::telemetry_ready;
pub use webhooks::webhooks_ready;
pub use workers::workers_ready;

/// Reason while a drill takes a store away.
pub const DRILL_ACTIVE: &str = "DrillActive";

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
/// Condition type: webhooks are delivered.
pub const WEBHOOKS_READY: &str = "WebhooksReady";
/// Condition type: traces and logs have a receiver.
pub const TELEMETRY_READY: &str = "TelemetryReady";
/// Condition type: the monitoring objects of a stack without a collector are written.
pub const MONITORING_READY: &str = "MonitoringReady";
/// Condition type: the app accepts requests.
pub const APP_READY: &str = "AppReady";
/// Condition type: requests from outside reach the app.
pub const GATEWAY_READY: &str = "GatewayReady";

/// Condition type: nothing of the stack is reached past its gateway.
pub const SOLE_ENTRY: &str = "SoleEntry";
/// Condition type: the service works through its gateway.
pub const END_TO_END: &str = "EndToEnd";

/// Returns the conditions that are measured, each with its verdict, which is `None` until it is known. They say something
/// about the surroundings of the stack, so its summary does not depend on them.
pub fn measured(view: View<'_>) -> Vec<(&'static str, Option<Verdict>)> {
    let View { stack, .. } = view;
    let probed = stack.gateway.end_to_end.is_some();
    let end_to_end = probed.then(|| (END_TO_END, end_to_end(view)));
    let all = [(SOLE_ENTRY, sole_entry(view))]
        .into_iter()
        .chain(end_to_end);
    all.filter(|_| !stack.stopped).collect()
}

/// Returns the verdict on each component, by condition type, in the order in which requests depend on them.
pub fn components(view: View<'_>) -> Vec<(&'static str, Verdict)> {
    let stores = stores::all().filter_map(|store| {
        let condition = store.condition.as_ref()?;
        let verdict = (condition.verdict)(view);
        Some((condition.type_, named(view, &[store.component], verdict)?))
    });
    let others = [
        (
            APP_READY,
            named(
                view,
                &[Component::App, Component::Purge],
                Some(app_ready(view)),
            ),
        ),
        (
            GATEWAY_READY,
            named(view, &[Component::Gateway], Some(gateway_ready(view))),
        ),
        (
            WORKERS_READY,
            named(view, &[Component::Worker], workers(view)),
        ),
        (
            WEBHOOKS_READY,
            named(view, &[Component::Webhooks], webhooks(view)),
        ),
        (
            TELEMETRY_READY,
            named(
                view,
                &[Component::Otel, Component::Telemetry],
                telemetry(view),
            ),
        ),
        (MONITORING_READY, monitoring(view)),
    ];
    let others = others.into_iter();
    stores
        .chain(others.filter_map(|(type_, verdict)| Some((type_, verdict?))))
        .collect()
}

/// Returns the verdict on components that share a condition, with the reason for which one of them is held or a child of
/// theirs was refused. What exists of them is as it was, so the status stays that of their pods.
fn named(view: View<'_>, components: &[Component], verdict: Option<Verdict>) -> Option<Verdict> {
    let of = |component: &Component| Some((*component, failure(view, *component)?));
    let Some((component, failure)) = components.iter().find_map(of) else {
        let mut drills = components
            .iter()
            .filter_map(|store| view.stack.drill_of(*store));
        return match drills.next() {
            Some(drill) => verdict.map(|verdict| drilled(drill, &verdict)),
            None => verdict,
        };
    };
    let verdict = match verdict {
        Some(verdict) => verdict,
        None if view.stack.is_held(component) => as_it_is(view, component),
        None => return None,
    };
    let is_frozen = component == Component::Postgres && view.stack.takes_no_writes;
    // The verdict on a move says how far it is.
    if is_frozen && failure.waits {
        return Some(verdict);
    }
    let is_kept = view.stack.is_held(component) && keeps_templates(view, component);
    let meanwhile = match (is_kept, is_frozen) {
        (_, true) => "; until then writes get 503 and links redirect",
        (true, false) => "; until then the pod templates of the app and the workers do not change",
        (false, false) => "",
    };
    let message = format!("{}{meanwhile}", failure.message);
    let verdict = Verdict {
        holds: verdict.holds && !is_frozen,
        serves: verdict.serves && !is_frozen,
        ..verdict
    };
    let is_passing = failure.waits || view.live.retried.get(&component) == Some(failure);
    Some(Verdict {
        fault: !is_passing,
        moves: is_passing,
        reason: failure.reason,
        message,
        ..verdict
    })
}

/// Returns the verdict on a store that a drill takes away. It is not true as soon as too few servers are left.
fn drilled(drill: &ActiveDrill, verdict: &Verdict) -> Verdict {
    let ActiveDrill { name, until, .. } = drill;
    let verb = if verdict.serves { "takes" } else { "keeps" };
    let message = format!(
        "ShortenerDrill {name} {verb} the store away until {until:.0}: delete the drill to end it now"
    );
    let holds = verdict.serves;
    Verdict {
        holds,
        moves: holds,
        ..Verdict::no(DRILL_ACTIVE, message).serving(holds)
    }
}

/// Returns true when programs that exist keep their pod template because of a component.
fn keeps_templates(view: View<'_>, component: Component) -> bool {
    let mut programs = view.stack.kept_templates.keys();
    let store = stores::of(component);
    programs.any(|program| {
        *program == component || store.is_some_and(|store| store.clients.contains(program))
    })
}

/// Returns the reason for which a component is not as asked for. A program that does not exist yet waits for the database.
/// A component that waits shows the refused write of its child first: the wait may never end because of it.
fn failure(view: View<'_>, component: Component) -> Option<&StepFailure> {
    let View { stack, live } = view;
    let waits = stores::PROGRAMS.contains(&component) && !live.workloads.contains_key(&component);
    let database = stack.held.get(&Component::Postgres);
    let held = stack.held.get(&component);
    let held = held.or_else(|| database.filter(|_| waits));
    held.filter(|failure| !failure.waits)
        .or_else(|| live.refused.get(&component))
        .or_else(|| live.retried.get(&component))
        .or(held)
}

/// Returns the verdict on a component of which only the objects are known. Without pods of its own, as with a store that
/// the operator does not run, the app decides about the requests.
fn as_it_is(view: View<'_>, component: Component) -> Verdict {
    if view.live.workloads.contains_key(&component) {
        workload::ready(view, component)
    } else {
        Verdict::no("Held", "").serving(true)
    }
}

/// Returns the verdict on the workers. Those that drain a queue are no longer part of the stack.
fn workers(view: View<'_>) -> Option<Verdict> {
    let queue = view.stack.queue.as_ref();
    let queue = queue.filter(|queue| queue.draining.is_none())?;
    Some(rests(view).unwrap_or_else(|| workers_ready(view, queue)))
}

/// Returns the verdict on the delivery of webhooks, if there are receivers.
fn webhooks(view: View<'_>) -> Option<Verdict> {
    let receivers = view.stack.webhooks.first();
    receivers.map(|_| rests(view).unwrap_or_else(|| webhooks_ready(view)))
}

/// Returns the verdict on a program that does nothing until the links have moved to another database.
fn rests(view: View<'_>) -> Option<Verdict> {
    let message =
        "its pods start when the links have moved to the Cluster; until then its work waits";
    let rests = view.stack.takes_no_writes && !view.stack.stopped;
    rests.then(|| Verdict::no("MoveInProgress", message).moving())
}

fn telemetry(view: View<'_>) -> Option<Verdict> {
    let collector = view.stack.collector.as_ref()?;
    Some(telemetry_ready(view, collector))
}

/// Returns the verdict on the monitoring objects. With a collector, `TelemetryReady` includes it.
fn monitoring(view: View<'_>) -> Option<Verdict> {
    let View { stack, .. } = view;
    let held = stack.held.get(&Component::Stack);
    let held = held.map(|held| Verdict::fault(held.reason, held.message.clone()).serving(true));
    let alone = stack.collector.is_none();
    held.or_else(|| stack.monitoring.as_ref().map(|_| monitoring_ready(view)))
        .filter(|_| alone)
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
