//! Which drills begin. A drill that is refused is never acted upon later.

use std::time::Duration;

use k8s_openapi::jiff::Timestamp;
use kube_core::ResourceExt;

use super::{component, is_over, phase};
use crate::{
    api::{DrilledStore, ShortenerDrill, ShortenerStack, ShortenerStackSpec},
    model::metadata::{Component, is_plan_only},
    plan::{
        conditions::{DEGRADED, END_TO_END, PROGRESSING, READY},
        stores,
    },
};

/// Longest time from the creation of a drill to its beginning: one leader after another needs a part of it.
const PATIENCE: Duration = Duration::from_secs(300);

/// The reason for which a drill is refused, with the remedy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// There is no such stack, it is being deleted, or another operator has it.
    StackNotFound,
    /// No operator ran when the drill was created, and nobody expects it any more.
    Outdated,
    /// `drills.enabled` of the stack is false.
    DrillsNotAllowed,
    /// Nothing is applied to the stack: it is paused, stopped or only planned.
    StackHalted,
    /// Another drill of the stack has begun, or was created earlier.
    AnotherDrill,
    /// The profile of the store is off.
    StoreNotInStack,
    /// The operator does not run the store.
    StoreNotManaged,
    /// The stack is not ready.
    StackNotReady,
    /// A change of the stack is in progress.
    StackChanging,
    /// The stack has no end-to-end probe, through which the requests of a drill go.
    NoProbe,
    /// The end-to-end probe fails, or its result is not known yet.
    ProbeFailed,
}

impl Refusal {
    /// Returns the reason for the condition.
    pub fn reason(self) -> &'static str {
        match self {
            Self::StackNotFound => "StackNotFound",
            Self::Outdated => "Outdated",
            Self::DrillsNotAllowed => "DrillsNotAllowed",
            Self::StackHalted => "StackHalted",
            Self::AnotherDrill => "AnotherDrill",
            Self::StoreNotInStack => "StoreNotInStack",
            Self::StoreNotManaged => "StoreNotManaged",
            Self::StackNotReady => "StackNotReady",
            Self::StackChanging => "StackChanging",
            Self::NoProbe => "NoProbe",
            Self::ProbeFailed => "ProbeFailed",
        }
    }

    /// Returns the message for the condition.
    pub fn message(self) -> &'static str {
        match self {
            Self::StackNotFound => {
                "this operator has no such ShortenerStack in the namespace of the drill: correct stackRef"
            }
            Self::Outdated => {
                "no operator began the drill within five minutes, and nobody may expect it any more: create it again"
            }
            Self::DrillsNotAllowed => {
                "the stack does not allow drills: set drills.enabled of the stack, and create the drill again"
            }
            Self::StackHalted => {
                "the stack is paused, stopped or only planned, so the store could not be given back: end that, and create the drill again"
            }
            Self::AnotherDrill => {
                "another drill of the stack runs, and there is one at a time: create the drill again when that one is complete"
            }
            Self::StoreNotInStack => {
                "the stack does not have this store, because its profile is off: name another store"
            }
            Self::StoreNotManaged => {
                "the operator does not run this store, so it cannot take it away: stop the store where it runs, or name another one"
            }
            Self::StackNotReady => {
                "the stack is not ready, and a drill would hide the cause: see its conditions, and create the drill again"
            }
            Self::StackChanging => {
                "a change of the stack is in progress, or a part of it is degraded: wait until Progressing and Degraded are False, and create the drill again"
            }
            Self::NoProbe => {
                "no one would see what the drill does: set gateway.endToEndProbe of the stack, and create the drill again"
            }
            Self::ProbeFailed => {
                "the end-to-end probe does not pass, and the requests of a drill go the same way: wait until EndToEnd is True, and create the drill again"
            }
        }
    }
}

/// Decides whether a drill begins now. `others` are the drills of the stack, with or without this one.
///
/// # Errors
/// The reason for which it does not.
pub fn admit<'a>(
    drill: &ShortenerDrill,
    others: impl IntoIterator<Item = &'a ShortenerDrill>,
    stack: Option<&ShortenerStack>,
    now: Timestamp,
) -> Result<(), Refusal> {
    let stack = stack.filter(|stack| stack.metadata.deletion_timestamp.is_none());
    let stack = stack.ok_or(Refusal::StackNotFound)?;
    let spec = &stack.spec;
    let checks = [
        (is_outdated(drill, now), Refusal::Outdated),
        (!spec.allows_drills(), Refusal::DrillsNotAllowed),
        (
            spec.paused || spec.stopped || is_plan_only(stack),
            Refusal::StackHalted,
        ),
        (
            others.into_iter().any(|other| precedes(other, drill)),
            Refusal::AnotherDrill,
        ),
        (!has(spec, drill.spec.store), Refusal::StoreNotInStack),
        (!runs(stack, drill.spec.store), Refusal::StoreNotManaged),
        (spec.gateway.end_to_end_probe.is_none(), Refusal::NoProbe),
        (!says(stack, READY, "True"), Refusal::StackNotReady),
        (!is_settled(stack), Refusal::StackChanging),
        (!says(stack, END_TO_END, "True"), Refusal::ProbeFailed),
    ];
    let refusal = checks.into_iter().find(|(refuses, _)| *refuses);
    refusal.map_or(Ok(()), |(_, refusal)| Err(refusal))
}

fn is_outdated(drill: &ShortenerDrill, now: Timestamp) -> bool {
    let created = drill.metadata.creation_timestamp.as_ref();
    created.is_some_and(|created| now > created.0 + PATIENCE)
}

/// Returns true when another drill has begun, or would begin first.
fn precedes(other: &ShortenerDrill, drill: &ShortenerDrill) -> bool {
    let age = |drill: &ShortenerDrill| {
        let created = drill.metadata.creation_timestamp.as_ref();
        (created.map(|created| created.0), drill.name_any())
    };
    other.metadata.uid != drill.metadata.uid
        && !is_over(other)
        && (phase(other).is_some() || age(other) < age(drill))
}

fn has(spec: &ShortenerStackSpec, store: DrilledStore) -> bool {
    let definition = stores::of(component(store));
    let profile = definition.and_then(|definition| definition.profile);
    profile.is_none_or(|profile| spec.profiles.contains(&profile))
}

/// Returns true when the operator runs a store, or lets CloudNativePG do so.
fn runs(stack: &ShortenerStack, store: DrilledStore) -> bool {
    let (spec, component) = (&stack.spec, component(store));
    let Some(definition) = stores::of(component) else {
        return false;
    };
    let is_cluster = component == Component::Postgres && spec.database.cloud_native_pg.is_some();
    let is_external = (definition.external)(spec, &stack.name_any()).is_some();
    (definition.wanted)(spec) && (is_cluster || !is_external)
}

fn is_settled(stack: &ShortenerStack) -> bool {
    let observed = stack
        .status
        .as_ref()
        .and_then(|status| status.observed_generation);
    let is_observed = observed == stack.metadata.generation;
    is_observed
        && [PROGRESSING, DEGRADED]
            .iter()
            .all(|type_| says(stack, type_, "False"))
}

fn says(stack: &ShortenerStack, type_: &str, status: &str) -> bool {
    let conditions = stack.status.iter().flat_map(|status| &status.conditions);
    let mut conditions = conditions.filter(|condition| condition.type_ == type_);
    conditions.any(|condition| condition.status == status)
}
