//! Last step: from the outcome of the other steps to the status. Pure; the driver writes it, once per reconcile.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_core::ResourceExt;

use super::{
    conditions::{self, DEGRADED, PROGRESSING, READY, RECONCILING, STALLED, Verdict, View},
    diff::Changes,
    error::ValidateError,
    validate::public_url,
};
use crate::{
    api::{
        AppStatus, PlanStatus, Profile, QueueStatus, ShortenerStack, ShortenerStackStatus,
        WorkersStatus,
    },
    model::{
        live::{Applied, Live},
        metadata::{Component, worker_selector},
        queue_state::QueueState,
        stack::ValidatedStack,
    },
};

/// The outcome of a reconcile.
pub enum Outcome<'a> {
    /// Every child was written.
    Applied(&'a ValidatedStack, &'a Applied),
    /// The stack is paused: nothing was written. The second field is the live state.
    Paused(&'a ValidatedStack, &'a Live),
    /// The stack is only planned: nothing was written. The last field is what would be.
    Planned(&'a ValidatedStack, &'a Live, &'a Changes),
    /// A step failed.
    Failed(StepFailure),
}

/// The failure of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StepFailure {
    /// Reason in CamelCase, for machines, one of a fixed set.
    pub reason: &'static str,
    /// Message with the remedy, for the user.
    pub message: String,
    /// True when only an edit of the spec helps.
    pub needs_an_edit: bool,
}

impl From<&ValidateError> for StepFailure {
    fn from(error: &ValidateError) -> Self {
        Self {
            reason: error.reason(),
            message: error.to_string(),
            needs_an_edit: error.needs_an_edit(),
        }
    }
}

/// Returns the status of a stack after an outcome. A condition keeps its transition time while its status stays the
/// same.
pub fn status(stack: &ShortenerStack, outcome: Outcome<'_>, now: &Time) -> ShortenerStackStatus {
    let previous = stack.status.clone().unwrap_or_default();
    let generation = stack.metadata.generation;
    let stamp = |(type_, verdict)| condition(&previous.conditions, type_, verdict, generation, now);
    let (conditions, app) = match &outcome {
        Outcome::Applied(validated, applied) => of_live(validated, applied.live(), None),
        Outcome::Paused(validated, live) => of_live(validated, live, Some(conditions::paused())),
        Outcome::Planned(validated, live, _) => {
            of_live(validated, live, Some(conditions::plan_only()))
        }
        Outcome::Failed(failure) => (of_failure(failure), previous.app.clone()),
    };
    let (workers, queue) = match &outcome {
        Outcome::Applied(validated, applied) => of_queue(validated, applied.live(), &previous),
        Outcome::Paused(validated, live) | Outcome::Planned(validated, live, _) => {
            of_queue(validated, live, &previous)
        }
        Outcome::Failed(_) => (previous.workers.replicas, previous.queue),
    };
    let profiles = match outcome {
        Outcome::Applied(validated, _) => names(&validated.profiles()),
        Outcome::Paused(..) | Outcome::Planned(..) | Outcome::Failed(_) => {
            previous.profiles.clone()
        }
    };
    let plan = match outcome {
        Outcome::Planned(_, _, changes) => Some(PlanStatus::from(changes)),
        Outcome::Applied(..) | Outcome::Paused(..) | Outcome::Failed(_) => None,
    };
    let mut conditions: Vec<Condition> = conditions.into_iter().map(stamp).collect();
    if let Outcome::Failed(_) = outcome {
        // The conditions of the components that are on keep their last observed state.
        let on = |type_| {
            conditions::profile(type_).is_none_or(|profile| stack.spec.profiles.contains(&profile))
        };
        let seen = previous
            .conditions
            .iter()
            .filter(|old| !SUMMARY.contains(&old.type_.as_str()) && on(&old.type_));
        conditions.extend(seen.cloned());
    }
    ShortenerStackStatus {
        observed_generation: generation,
        conditions,
        url: Some(public_url(&stack.spec)),
        profiles,
        app,
        workers: WorkersStatus {
            replicas: workers,
            selector: worker_selector(&stack.name_any()),
        },
        queue,
        plan,
    }
}

/// Returns the status of a resource that does not parse.
pub fn unreadable(
    error: &str,
    generation: Option<i64>,
    previous: &ShortenerStackStatus,
    now: &Time,
) -> ShortenerStackStatus {
    let message = format!("the resource cannot be parsed: {error}. Correct the named field");
    let stamp = |(type_, verdict)| condition(&previous.conditions, type_, verdict, generation, now);
    ShortenerStackStatus {
        observed_generation: generation,
        conditions: failed("InvalidSpec", &message, true)
            .into_iter()
            .map(stamp)
            .collect(),
        ..ShortenerStackStatus::default()
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

/// Returns true when the condition `Ready` is true.
pub fn is_ready(status: &ShortenerStackStatus) -> bool {
    status
        .conditions
        .iter()
        .any(|condition| condition.type_ == READY && condition.status == "True")
}

/// Conditions of the stack as a whole.
const SUMMARY: [&str; 5] = [READY, PROGRESSING, DEGRADED, RECONCILING, STALLED];
/// Conditions that repeat others for kstatus.
const FOR_KSTATUS: [&str; 2] = [RECONCILING, STALLED];

type Verdicts = Vec<(&'static str, Verdict)>;

fn of_live(stack: &ValidatedStack, live: &Live, halted: Option<Verdict>) -> (Verdicts, AppStatus) {
    let components = conditions::components(View { stack, live });
    let mut verdicts = vec![
        (READY, conditions::ready(&components)),
        (PROGRESSING, conditions::progressing(&components, halted)),
        (DEGRADED, conditions::degraded(&components)),
    ];
    verdicts.extend(components);
    let progressing = verdicts.iter().find(|(type_, _)| *type_ == PROGRESSING);
    let reconciling = progressing
        .filter(|(_, verdict)| verdict.holds)
        .map(|(_, verdict)| (RECONCILING, verdict.clone()));
    verdicts.extend(reconciling);
    let app = live.workloads.get(&Component::App);
    let app = app.cloned().unwrap_or_default();
    (
        verdicts,
        AppStatus {
            replicas: app.existing,
            ready_replicas: app.ready,
        },
    )
}

/// Returns the number of existing workers, and the last known size of the queue.
fn of_queue(
    stack: &ValidatedStack,
    live: &Live,
    previous: &ShortenerStackStatus,
) -> (i32, Option<QueueStatus>) {
    let workers = live.workloads.get(&Component::Worker);
    let managed = stack.queue.as_ref().and_then(|queue| queue.store.managed());
    let depth = managed.and_then(|_| match &live.queue {
        // This process has not queried the broker yet.
        QueueState::Unknown => previous.queue,
        QueueState::Unreachable(_) => None,
        QueueState::Report(report) => report.depth.map(|depth| QueueStatus {
            ready: depth.ready,
            unacked: depth.unacked,
            total: depth.total(),
        }),
    });
    (workers.map_or(0, |workers| workers.existing), depth)
}

fn names(profiles: &[Profile]) -> Vec<String> {
    let names = profiles.iter().map(|profile| profile.as_str().to_owned());
    names.collect()
}

fn of_failure(failure: &StepFailure) -> Verdicts {
    failed(failure.reason, &failure.message, failure.needs_an_edit)
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
    let since = previous
        .iter()
        .find(|old| old.type_ == type_ && old.status == status);
    Condition {
        type_: type_.to_owned(),
        status: status.to_owned(),
        reason: verdict.reason.to_owned(),
        message: verdict.message,
        observed_generation: generation,
        last_transition_time: since
            .map_or_else(|| now.clone(), |old| old.last_transition_time.clone()),
    }
}

#[cfg(test)]
mod tests;
