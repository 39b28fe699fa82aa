//! Drills: which one is active, which are refused, what the requests meanwhile show, and what the status says. A store is
//! away only while an active drill says so, so every reconcile after its end gives the store back.

mod admission;
mod promise;
mod status;
mod step;
mod tally;

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Time, jiff::Timestamp};
use kube_core::ResourceExt;

use crate::{
    api::{DrillPhase, DrilledStore, LONGEST_DRILL, ShortenerDrill, ShortenerStack},
    model::{
        drill::ActiveDrill,
        metadata::{Component, StackKey},
    },
};

pub use admission::{Refusal, admit};
pub use promise::{GAP_LIMIT, LONGEST_PAUSE, is_cached, kinds, promise};
pub use status::{Report, begun, complete, inconclusive, refused, reported};
pub use step::{RECOVERY_LIMIT, Step, is_away, step};
pub use tally::{Answer, Tally};

/// Longest time by which the clocks of two replicas of the operator differ.
const CLOCK_TOLERANCE: Duration = Duration::from_secs(5);

/// Returns the stack that a drill names.
pub fn target(drill: &ShortenerDrill) -> StackKey {
    let namespace = drill.metadata.namespace.clone().unwrap_or_default();
    (namespace, drill.spec.stack_ref.name.clone())
}

/// Returns the component that a drill takes away.
pub fn component(store: DrilledStore) -> Component {
    match store {
        DrilledStore::Cache => Component::Cache,
        DrilledStore::Queue => Component::Rabbitmq,
        DrilledStore::Database => Component::Postgres,
        DrilledStore::Vector => Component::Qdrant,
        DrilledStore::Telemetry => Component::Telemetry,
    }
}

/// Returns the phase of a drill; `None` until it has begun or is refused.
pub fn phase(drill: &ShortenerDrill) -> Option<DrillPhase> {
    drill.status.as_ref()?.phase
}

/// Returns true when nothing more happens to a drill.
pub fn is_over(drill: &ShortenerDrill) -> bool {
    matches!(
        phase(drill),
        Some(DrillPhase::Complete | DrillPhase::Refused)
    )
}

/// Returns the times at which a drill has begun and ends, if it has begun. The end never is later than the longest drill.
fn times(drill: &ShortenerDrill) -> Option<(Timestamp, Timestamp)> {
    let status = drill.status.as_ref()?;
    let (Time(start), Time(end)) = (status.start_time.clone()?, status.end_time.clone()?);
    let longest = Duration::from_secs(LONGEST_DRILL.unsigned_abs().into());
    // Who edits the status can write the last time that there is.
    let longest = start.checked_add(longest).unwrap_or(Timestamp::MAX);
    Some((start, end.min(longest)))
}

/// Returns true unless the start of a drill is in the future: the clock was corrected, or that of another replica is ahead.
fn has_begun(start: Timestamp, now: Timestamp) -> bool {
    start <= now + CLOCK_TOLERANCE
}

/// Returns true when a store of a stack may be away.
fn allows(stack: &ShortenerStack) -> bool {
    stack.spec.allows_drills() && stack.metadata.deletion_timestamp.is_none()
}

/// Returns the drill of a stack that is active now. `drills` may be those of all stacks.
pub fn active<'a>(
    drills: impl IntoIterator<Item = &'a ShortenerDrill>,
    stack: &ShortenerStack,
    now: Timestamp,
) -> Option<ActiveDrill> {
    if !allows(stack) {
        return None;
    }
    let key = (stack.namespace().unwrap_or_default(), stack.name_any());
    let running = drills.into_iter().filter_map(|drill| {
        let is_its = target(drill) == key && phase(drill) == Some(DrillPhase::Active);
        let (start, end) = times(drill).filter(|_| is_its)?;
        (has_begun(start, now) && now < end).then(|| {
            let active = ActiveDrill {
                name: drill.name_any(),
                store: component(drill.spec.store),
                until: end,
            };
            (start, active)
        })
    });
    running
        .min_by_key(|(start, active)| (*start, active.name.clone()))
        .map(|(_, active)| active)
}

#[cfg(test)]
mod tests;
