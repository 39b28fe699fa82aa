//! Last step: from the outcome of the other steps to the status. Pure; the driver writes it, once per reconcile.

mod backups;
mod ignored;
mod measured;
mod volumes;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::ResourceExt;

pub(super) use backups::runs;

use super::{
    conditions::{self, DEGRADED, PROGRESSING, READY, RECONCILING, STALLED, Verdict, View},
    diff::Changes,
    validate::public_url,
};
use crate::{
    api::{
        AppStatus, PlanStatus, Profile, QueueStatus, ShortenerStack, ShortenerStackStatus,
        WorkersStatus,
    },
    model::{
        failure::StepFailure,
        live::Live,
        metadata::{Component, StackIdentity, worker_selector},
        queue_state::QueueState,
        stack::ValidatedStack,
    },
};

/// The outcome of a reconcile.
pub enum Outcome<'a> {
    /// The children were written, except those that the live state names as refused.
    Applied(&'a ValidatedStack, &'a Live),
    /// The stack is paused: nothing was written. The second field is the live state.
    Paused(&'a ValidatedStack, &'a Live),
    /// The stack is only planned: nothing was written. The last field is what would be.
    Planned(&'a ValidatedStack, &'a Live, &'a Changes),
    /// A step failed before anything could be written. The second field is the live state.
    Failed(StepFailure, &'a Live),
}

/// Returns the status of a stack after an outcome. A condition keeps its transition time while its status stays the
/// same.
pub fn status(stack: &ShortenerStack, outcome: Outcome<'_>, now: &Time) -> ShortenerStackStatus {
    let previous = stack.status.clone().unwrap_or_default();
    let generation = stack.metadata.generation;
    let stamp = |(type_, verdict)| condition(&previous.conditions, type_, verdict, generation, now);
    let live: &Live = match &outcome {
        Outcome::Applied(_, live)
        | Outcome::Paused(_, live)
        | Outcome::Planned(_, live, _)
        | Outcome::Failed(_, live) => live,
    };
    let verdicts = match &outcome {
        Outcome::Applied(validated, _) => of_live(validated, live, None),
        Outcome::Paused(validated, _) => of_live(validated, live, Some(conditions::paused())),
        Outcome::Planned(validated, ..) => of_live(validated, live, Some(conditions::plan_only())),
        Outcome::Failed(failure, _) => of_failure(failure, live, &previous),
    };
    let mut conditions: Vec<Condition> = verdicts.into_iter().map(stamp).collect();
    let known = match &outcome {
        Outcome::Applied(validated, _)
        | Outcome::Paused(validated, _)
        | Outcome::Planned(validated, ..) => Some(*validated),
        Outcome::Failed(..) => None,
    };
    conditions.extend(match known {
        Some(stack) => measured::results(View { stack, live }, &previous.conditions, stamp),
        None => last_seen(stack, &previous),
    });
    let backups = backups::listed(known, live, &previous.backups);
    if let Some(stack) = known {
        let view = View { stack, live };
        let verdicts = backups::conditions(view, &backups, &previous.conditions, now, stamp);
        conditions.extend(verdicts);
    }
    let (profiles, desired_workers) = match outcome {
        Outcome::Applied(validated, _) => {
            (names(&validated.profiles()), decided_workers(validated))
        }
        Outcome::Paused(..) | Outcome::Planned(..) | Outcome::Failed(..) => {
            (previous.profiles.clone(), previous.workers.desired_replicas)
        }
    };
    let plan = match outcome {
        Outcome::Planned(_, _, changes) => Some(Box::new(PlanStatus::from(changes))),
        Outcome::Applied(..) | Outcome::Paused(..) | Outcome::Failed(..) => None,
    };
    let pending = known.map(|validated| validated.pending.clone());
    ShortenerStackStatus {
        observed_generation: generation,
        conditions,
        url: Some(url(stack, known, previous.url)),
        profiles_summary: profiles.join(", "),
        profiles,
        ignored_settings: ignored::settings(&stack.spec),
        app: pods_of_the_app(live),
        workers: workers(&stack.name_any(), live, desired_workers),
        queue: depth(live, previous.queue),
        plan,
        pending_changes: pending.unwrap_or(previous.pending_changes),
        volumes: volumes::sizes(live),
        backups,
    }
}

/// Returns the base URL of the short links. In a conflict about a host it is not that of the spec.
fn url(stack: &ShortenerStack, known: Option<&ValidatedStack>, before: Option<String>) -> String {
    let served = known.map(|validated| validated.public_url.clone());
    let of_spec = || public_url(&stack.spec, &stack.spec.gateway.hosts);
    served.or(before).unwrap_or_else(of_spec)
}

fn pods_of_the_app(live: &Live) -> AppStatus {
    let app = live.workloads.get(&Component::App);
    app.map_or_else(AppStatus::default, |app| AppStatus {
        replicas: app.existing,
        ready_replicas: app.ready,
    })
}

/// Returns the number of workers that follows the queue.
fn decided_workers(stack: &ValidatedStack) -> Option<i32> {
    let workers = stack.queue.as_ref().map(|queue| &queue.workers);
    workers.and_then(|workers| Some(workers.count()?.replicas))
}

/// Returns the conditions of the components that are on, as they were observed last.
fn last_seen(stack: &ShortenerStack, previous: &ShortenerStackStatus) -> Vec<Condition> {
    let on = |type_| {
        conditions::profile(type_).is_none_or(|profile| stack.spec.profiles.contains(&profile))
    };
    let seen = previous
        .conditions
        .iter()
        .filter(|old| !SUMMARY.contains(&old.type_.as_str()) && on(&old.type_));
    seen.cloned().collect()
}

/// Returns the status of a resource that does not parse: its summary and what is live, and the rest as it was.
pub fn unreadable(
    error: &str,
    identity: &StackIdentity,
    generation: Option<i64>,
    (previous, live): (&ShortenerStackStatus, &Live),
    now: &Time,
) -> ShortenerStackStatus {
    let failure = StepFailure {
        reason: "InvalidSpec",
        message: format!("the resource cannot be parsed: {error}. Correct the named field"),
        needs_an_edit: true,
        waits: false,
    };
    let stamp = |(type_, verdict)| condition(&previous.conditions, type_, verdict, generation, now);
    let verdicts = of_failure(&failure, live, previous).into_iter();
    let seen = previous.conditions.iter();
    let seen = seen.filter(|old| !SUMMARY.contains(&old.type_.as_str()));
    ShortenerStackStatus {
        observed_generation: generation,
        conditions: verdicts.map(stamp).chain(seen.cloned()).collect(),
        app: pods_of_the_app(live),
        workers: workers(&identity.name, live, previous.workers.desired_replicas),
        queue: depth(live, previous.queue),
        plan: None,
        volumes: volumes::sizes(live).or_else(|| previous.volumes.clone()),
        ..previous.clone()
    }
}

/// Returns the workers as the scale subresource needs them. `decided` is their number if that follows the queue.
fn workers(stack: &str, live: &Live, decided: Option<i32>) -> WorkersStatus {
    let workers = live.workloads.get(&Component::Worker);
    WorkersStatus {
        replicas: workers.map_or(0, |workers| workers.existing),
        selector: worker_selector(stack),
        desired_replicas: decided,
    }
}

/// Returns the conditions whose status or reason has changed, for Events. Conditions for kstatus are left out.
pub fn changes<'a>(
    before: Option<&ShortenerStackStatus>,
    after: &'a ShortenerStackStatus,
) -> Vec<&'a Condition> {
    let before = before
        .map(|status| status.conditions.as_slice())
        .unwrap_or_default();
    let known = |new: &Condition| {
        before.iter().any(|old| {
            old.type_ == new.type_ && old.status == new.status && old.reason == new.reason
        })
    };
    after
        .conditions
        .iter()
        .filter(|condition| !known(condition) && !FOR_KSTATUS.contains(&condition.type_.as_str()))
        .collect()
}

/// Returns the numbers of workers before and after a decision on it, for an Event; `None` if it has not changed.
pub fn scaling(
    before: Option<&ShortenerStackStatus>,
    after: &ShortenerStackStatus,
) -> Option<(i32, i32)> {
    let numbers = (
        before?.workers.desired_replicas?,
        after.workers.desired_replicas?,
    );
    (numbers.0 != numbers.1).then_some(numbers)
}

/// Returns true when the condition `Ready` is true.
pub fn is_ready(status: &ShortenerStackStatus) -> bool {
    is_true(status, READY)
}

/// Returns true when the stack progresses without a fault. If that takes too long, it becomes one.
pub fn is_progressing(status: &ShortenerStackStatus) -> bool {
    is_true(status, PROGRESSING) && !is_true(status, DEGRADED)
}

fn is_true(status: &ShortenerStackStatus, type_: &str) -> bool {
    let mut conditions = status.conditions.iter();
    conditions.any(|condition| condition.type_ == type_ && condition.status == "True")
}

/// Conditions of the stack as a whole.
const SUMMARY: [&str; 5] = [READY, PROGRESSING, DEGRADED, RECONCILING, STALLED];
/// Longest message of a condition in bytes, as in Kubernetes' own kinds.
const LONGEST_MESSAGE: usize = 32 << 10;
/// Conditions that repeat others for kstatus.
const FOR_KSTATUS: [&str; 2] = [RECONCILING, STALLED];

type Verdicts = Vec<(&'static str, Verdict)>;

fn of_live(stack: &ValidatedStack, live: &Live, halted: Option<Verdict>) -> Verdicts {
    let components = conditions::components(View { stack, live });
    let failures = || {
        let failures = stack.held.values().chain(live.refused.values());
        failures.filter(|failure| !failure.waits)
    };
    let ready = conditions::ready(&components);
    let degraded = conditions::degraded(&components, failures().next());
    let stalled = failures().find(|failure| failure.needs_an_edit);
    // kstatus takes a stack that is ready for one that is as its spec says, so it needs to be told of a fault.
    let faulty = ready.holds && degraded.holds && halted.is_none();
    let progressing = conditions::progressing(&components, halted, live.retried.values().next());
    let progressing = conditions::held_back(progressing, &stack.pending);
    let for_kstatus = match stalled {
        Some(failure) => Some((
            STALLED,
            Verdict::yes(failure.reason, failure.message.clone()),
        )),
        None if progressing.holds => Some((RECONCILING, progressing.clone())),
        None => faulty.then(|| (RECONCILING, degraded.clone())),
    };
    let mut verdicts = vec![
        (READY, ready),
        (PROGRESSING, progressing),
        (DEGRADED, degraded),
    ];
    verdicts.extend(components);
    verdicts.extend(for_kstatus);
    verdicts
}

/// Returns the last known size of the queue of a broker that the operator runs.
fn depth(live: &Live, previous: Option<QueueStatus>) -> Option<QueueStatus> {
    match &live.queue {
        // This process has not queried the broker yet.
        QueueState::Unknown => {
            previous.filter(|_| live.workloads.contains_key(&Component::Rabbitmq))
        }
        QueueState::NeverReached(_) | QueueState::Unreachable(_) => None,
        QueueState::Report(report) => report.depth.map(|depth| QueueStatus {
            ready: depth.ready,
            unacked: depth.unacked,
            total: depth.total(),
        }),
    }
}

fn names(profiles: &[Profile]) -> Vec<String> {
    let names = profiles.iter().map(|profile| profile.as_str().to_owned());
    names.collect()
}

/// Returns the summary after a failure. It takes nothing from a stack that was ready and whose pods still are.
fn of_failure(failure: &StepFailure, live: &Live, previous: &ShortenerStackStatus) -> Verdicts {
    let (reason, message) = (failure.reason, failure.message.as_str());
    let running = |component| {
        let workload = live.workloads.get(&component);
        workload.is_some_and(|workload| workload.ready > 0)
    };
    let mut verdicts = failed(reason, message, failure.needs_an_edit);
    if is_ready(previous) && running(Component::App) && running(Component::Gateway) {
        verdicts.retain(|(type_, _)| *type_ != READY);
        verdicts.insert(0, (READY, conditions::serves()));
        if !failure.needs_an_edit {
            verdicts.push((RECONCILING, Verdict::yes(reason, message)));
        }
    }
    verdicts
}

fn failed(reason: &'static str, message: &str, stalled: bool) -> Verdicts {
    let stalled = stalled.then(|| (STALLED, Verdict::yes(reason, message)));
    let summary = [
        (READY, Verdict::no(reason, message)),
        (PROGRESSING, Verdict::no(reason, message)),
        (DEGRADED, Verdict::yes(reason, message)),
    ];
    summary.into_iter().chain(stalled).collect()
}

fn condition(
    previous: &[Condition],
    type_: &str,
    verdict: Verdict,
    generation: Option<i64>,
    now: &Time,
) -> Condition {
    let status = if verdict.holds { "True" } else { "False" };
    let mut message = verdict.message;
    // Parts of it are words of others, and the API server refuses a status that is too long as a whole.
    message.truncate(message.floor_char_boundary(LONGEST_MESSAGE));
    let since = previous
        .iter()
        .find(|old| old.type_ == type_ && old.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
        message,
        observed_generation: generation,
        last_transition_time: since
            .map_or_else(|| now.clone(), |old| old.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests;
