//! The driver of one reconcile: five steps in a fixed order.
//!
//! `gather` reads the facts, `plan` of the crate `shortener-operator-core` validates the stack and builds its objects,
//! `apply` writes them, and `report` writes the status that the same crate computes. The driver only calls them.

pub mod apply;
pub mod context;
pub mod controller;
mod follow;
pub mod gather;
mod guarded;
mod lift;
pub mod missing_pods;
mod pace;
mod plan_only;
pub mod report;
mod specs;
mod stack_watch;
mod trace;
mod wake;

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use futures::FutureExt;
use kube::runtime::{controller::Action, reflector::ObjectRef};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        desired::Desired,
        facts::Facts,
        failure::StepFailure,
        metadata::{Component, StackIdentity, is_plan_only},
    },
    plan::{self, Outcome, Plan, ValidateError},
};
use tokio::time::timeout;

use crate::{kubernetes::refusal, telemetry::span::part};
use context::{GuardedStack, Scope, shortened};

/// Time for reading the facts. After that, the reconcile reports and is retried.
const READ_TIME: Duration = Duration::from_secs(10);
/// Time for writing the status and the Events, whatever the steps before took.
const REPORT_TIME: Duration = Duration::from_secs(10);
/// Longest time until the next reconcile of a stack without any event. The actual time is up to a fifth shorter, so that
/// stacks that were first seen together do not stay together.
const RESYNC: Duration = Duration::from_secs(300);
/// Time until a stack checks again for the stack that holds its host. The routes of another scope wake it no earlier.
const CONFLICT_RECHECK: Duration = Duration::from_secs(10);
/// Time until a stack is looked at again whose fields an older resource definition may have dropped.
const DEFINITION_RECHECK: Duration = Duration::from_secs(10);
/// Time until facts about a component that could not be read are read again.
const READ_RECHECK: Duration = Duration::from_secs(10);
/// Time until a stack is looked at again while it progresses without a fault: nothing else shows that the time of a state
/// is over.
const PROGRESS_RECHECK: Duration = Duration::from_secs(60);
/// Time until monitoring objects that could not be written are retried.
const MONITORING_RECHECK: Duration = Duration::from_secs(60);

/// An error of a reconcile, with one variant per step.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The objects that the stack depends on could not be read.
    #[error("cannot read an object that the stack depends on: {}", refusal::sentence(.0))]
    Gather(#[source] kube::Error),
    /// The spec conflicts with other objects of the cluster.
    #[error(transparent)]
    Validate(#[from] ValidateError),
    /// Children could not be written.
    #[error(transparent)]
    Apply(#[from] apply::ApplyError),
    /// The store of a drill that is over is still away.
    #[error("cannot give back the store of a drill that is over: {}; the operator retries", refusal::sentence(.0))]
    Lift(#[source] kube::Error),
    /// The status could not be written.
    #[error("cannot read or write the status of the stack: {}", refusal::sentence(.0))]
    Status(#[source] kube::Error),
    /// Reading took too long. Writing has a time for each child instead.
    #[error("the API server did not answer within {} s: check its latency; the operator retries", READ_TIME.as_secs())]
    ReadDeadline,
    /// Reporting took too long.
    #[error("the API server did not take the status within {} s: check its latency; the operator retries", REPORT_TIME.as_secs())]
    ReportDeadline,
    /// The resource has no uid or namespace, which happens only with a stale cache.
    #[error("the resource has no uid, name or namespace yet: the operator retries")]
    Incomplete,
    /// The spec has fields of a newer definition. Any of them may protect the stack, so nothing is changed without it.
    #[error(
        "this operator (version {version}) is older than the resource definition and does not have {0}: upgrade the operator, or remove these fields; until then it changes nothing of the stack",
        version = env!("CARGO_PKG_VERSION")
    )]
    UnknownFields(String),
    /// The resource does not parse.
    #[error("the resource cannot be parsed: {0}")]
    Unreadable(String),
    /// The code about this stack has panicked.
    #[error(
        "the operator has a bug ({0}): report it with the operator's log; the operator retries"
    )]
    Panicked(String),
}

/// Reconciles one stack with its spec and reports the result in its status.
///
/// # Errors
/// The error of the first step that failed. The status contains it too.
pub async fn reconcile(queued: Arc<GuardedStack>, scope: Arc<Scope>) -> Result<Action, Error> {
    let waiting = scope.context.metrics.waiting();
    let _permit = scope.context.permits.acquire().await;
    drop(waiting);
    // The stack may have been edited, paused or deleted while it waited for its turn.
    let reference = ObjectRef::from_obj(&*queued);
    let Some(guarded) = scope.own_stack(&reference) else {
        return Ok(Action::await_change());
    };
    let _running = scope.context.metrics.running();
    // On the heap, and only from here on: these futures take a hundred kilobytes, and after a start hundreds of stacks wait
    // for their turn.
    match &guarded.0 {
        Ok(stack) => Box::pin(reconcile_stack(stack, &guarded.1, &scope)).await,
        Err(invalid) => {
            let identity = StackIdentity::of(&*guarded).ok_or(Error::Incomplete)?;
            let lifted = lift::lift(&scope, &identity, None).await;
            let told = Box::pin(timeout(
                REPORT_TIME,
                report::unreadable(&scope, &identity, invalid),
            ))
            .await
            .unwrap_or(Err(Error::ReportDeadline));
            // Only the former is retried.
            lifted.and(told)
        }
    }
}

/// Does work on one stack. A panic ends that, and no work on another stack.
async fn caught<T>(work: impl Future<Output = Result<T, Error>>) -> Result<T, Error> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
        let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
        Err(Error::Panicked(text.unwrap_or_default()))
    })
}

/// Writes the status and the Events. Returns true while the stack progresses without a fault.
async fn tell(scope: &Scope, stack: &ShortenerStack, outcome: Outcome<'_>) -> Result<bool, Error> {
    let report = async {
        let told = timeout(REPORT_TIME, report::report(scope, stack, outcome)).await;
        told.unwrap_or(Err(Error::ReportDeadline))
    };
    part("status", report, trace::failure).await
}

async fn reconcile_stack(
    stack: &ShortenerStack,
    unknown: &[String],
    scope: &Scope,
) -> Result<Action, Error> {
    let identity = StackIdentity::of(stack).ok_or(Error::Incomplete)?;
    follow::drills(&scope.context, &identity);
    if stack.metadata.deletion_timestamp.is_some() {
        // The garbage collector deletes the children by their owner references, unless they are to outlive the stack.
        lift::lift(scope, &identity, None).await?;
        return Ok(Action::await_change());
    }
    let context = &scope.context;
    if !context.specs.is_whole(&context.client, stack).await {
        // A write of the status would store the stack without the fields.
        tracing::warn!(
            "the spec of the stack has changed without an edit: nothing is done until the resource definition is known to be current"
        );
        return Ok(Action::requeue(DEFINITION_RECHECK));
    }
    follow::links(scope, &identity);
    let done = told(stack, unknown, scope, &identity).await;
    lift::lift(scope, &identity, Some(stack)).await.and(done)
}

/// Runs the steps, and reports a failure of which the status does not say anything yet.
async fn told(
    stack: &ShortenerStack,
    unknown: &[String],
    scope: &Scope,
    identity: &StackIdentity,
) -> Result<Action, Error> {
    let done = match unknown {
        [] => caught(steps(stack, scope, identity)).await,
        fields => Err(Error::UnknownFields(fields.join(", "))),
    };
    match done {
        Err(error) if error.is_untold() => {
            let live = apply::observe(scope, identity);
            tell(scope, stack, Outcome::Failed(error.failure(), &live)).await?;
            Err(error)
        }
        done => done,
    }
}

async fn steps(
    stack: &ShortenerStack,
    scope: &Scope,
    identity: &StackIdentity,
) -> Result<Action, Error> {
    let plan_only = is_plan_only(stack);
    if plan_only {
        follow::rest(scope, identity);
    }
    let facts = read(stack, scope, identity).await?;
    if plan_only {
        let planned = plan_only::plan(scope, stack, facts);
        return part("plan", planned, trace::failure).await;
    }
    let conflict = facts.gateway.host_conflict.is_some();
    let unread = facts.is_incomplete();
    let Plan {
        stack: validated,
        desired,
        drain,
    } = planned(stack, scope, facts).await?;
    follow::stack(scope, stack, &validated, drain);
    let mut rest = if conflict {
        CONFLICT_RECHECK
    } else {
        shortened(RESYNC)
    };
    if unread {
        rest = rest.min(READ_RECHECK);
    }
    if let Some(drill) = &validated.drill {
        let left = drill.until.duration_since((scope.context.clock)());
        // The store is given back exactly at the end, whoever else is alive by then.
        rest = rest.min(Duration::try_from(left).unwrap_or_default());
    }
    if stack.spec.paused {
        let (mut live, written) = apply::pause(scope, identity).await;
        let recheck = missing_pods::follow(scope, stack, identity, &mut live).await;
        rest = recheck.map_or(rest, |recheck| rest.min(recheck));
        tell(scope, stack, Outcome::Paused(&validated, &live)).await?;
        written?;
    } else {
        let Some((mut live, written)) = write(scope, identity, desired).await else {
            return Ok(Action::await_change());
        };
        if !live.failed(Component::Worker) {
            follow::workers(scope, &validated);
        }
        let recheck = missing_pods::follow(scope, stack, identity, &mut live).await;
        rest = recheck.map_or(rest, |recheck| rest.min(recheck));
        let progresses = tell(scope, stack, Outcome::Applied(&validated, &live)).await?;
        written?;
        if progresses {
            rest = rest.min(PROGRESS_RECHECK);
        }
        if live.monitoring_refused.is_some() {
            rest = rest.min(MONITORING_RECHECK);
        }
        if !live.address_overdue && !live.ingresses.is_empty() {
            rest = rest.min(apply::ADDRESS_PATIENCE);
        }
    }
    Ok(Action::requeue(rest))
}

/// Reads the facts.
async fn read(
    stack: &ShortenerStack,
    scope: &Scope,
    identity: &StackIdentity,
) -> Result<Facts, Error> {
    let read = async {
        let facts = gather::gather(scope, stack, identity.clone());
        match timeout(READ_TIME, facts).await {
            Ok(facts) => facts.map_err(Error::Gather),
            Err(_) => Err(Error::ReadDeadline),
        }
    };
    part("gather", read, trace::failure).await
}

/// Writes the children. Returns `None` if the stack is gone.
async fn write(
    scope: &Scope,
    identity: &StackIdentity,
    desired: Desired,
) -> Option<apply::Applied> {
    let failure = |applied: &Option<apply::Applied>| {
        let (_, written) = applied.as_ref()?;
        let error = written.as_ref().err()?;
        Some((error.reason(), error.to_string()))
    };
    part("apply", apply::apply(scope, identity, desired), failure).await
}

/// Validates the stack and builds its child objects. Both are pure, and spans of their own show the time that they take.
async fn planned(stack: &ShortenerStack, scope: &Scope, facts: Facts) -> Result<Plan, Error> {
    let check = async {
        let checked = plan::check(stack, facts, &scope.context.defaults);
        checked.map_err(Error::Validate)
    };
    let checked = part("validate", check, trace::failure).await?;
    Ok(part("build", async { checked.build() }, |_| None).await)
}

impl Error {
    /// Returns the reason for conditions and metrics, one of a fixed set.
    pub fn reason(&self) -> &'static str {
        match self {
            Self::Gather(error) => refusal::reason(error, "ReadFailed"),
            Self::Validate(error) => error.reason(),
            Self::Apply(error) => error.reason(),
            Self::Lift(error) => refusal::reason(error, "ApplyFailed"),
            Self::Status(error) => refusal::reason(error, "StatusFailed"),
            Self::ReadDeadline | Self::ReportDeadline => "DeadlineExceeded",
            Self::Incomplete => "Incomplete",
            Self::UnknownFields(_) => "UnknownFields",
            Self::Unreadable(_) => "InvalidSpec",
            Self::Panicked(_) => "Panicked",
        }
    }

    /// Returns true if the stack was not there when its status was written: it was deleted meanwhile.
    fn is_absence(&self) -> bool {
        matches!(self, Self::Status(kube::Error::Api(status)) if refusal::is_absent(status))
    }

    /// Returns true when the status does not say so yet: it names refused children already, and it does not take the
    /// failure to write it.
    fn is_untold(&self) -> bool {
        !matches!(
            self,
            Self::Apply(_) | Self::Status(_) | Self::ReportDeadline
        )
    }

    /// Returns the failure as the status reports it.
    fn failure(&self) -> StepFailure {
        match self {
            Self::Validate(error) => StepFailure::from(error),
            Self::Gather(_)
            | Self::Apply(_)
            | Self::Lift(_)
            | Self::Status(_)
            | Self::ReadDeadline
            | Self::ReportDeadline
            | Self::Incomplete
            | Self::UnknownFields(_)
            | Self::Unreadable(_)
            | Self::Panicked(_) => StepFailure {
                reason: self.reason(),
                message: self.to_string(),
                needs_an_edit: false,
                waits: false,
            },
        }
    }
}

#[cfg(test)]
mod tests;
