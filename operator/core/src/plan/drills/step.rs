//! The next step of a drill that has begun.

use std::time::Duration;

use k8s_openapi::{apimachinery::pkg::apis::meta::v1::Condition, jiff::Timestamp};

use super::{allows, component, has_begun, phase, tally::Tally, times};
use crate::{
    api::{DrillPhase, ShortenerDrill, ShortenerStack},
    plan::{
        conditions,
        stores::{self, Definition},
    },
};

/// Longest time for which requests are sent after the store was given back.
pub const RECOVERY_LIMIT: Duration = Duration::from_secs(300);

/// The next step of a drill.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// Requests are sent.
    Send,
    /// The store is given back, and requests are still sent.
    GiveBack,
    /// The drill is complete. It is false if the store is not back.
    Complete {
        /// True when the store is ready again.
        is_back: bool,
    },
}

/// Returns the next step of a drill that has begun. `stack` is `None` if it is gone.
pub fn step(
    drill: &ShortenerDrill,
    stack: Option<&ShortenerStack>,
    tally: &Tally,
    now: Timestamp,
) -> Step {
    let Some((start, end)) = times(drill) else {
        return Step::Complete { is_back: false };
    };
    let is_over = now >= end || !has_begun(start, now) || !stack.is_some_and(allows);
    if phase(drill) == Some(DrillPhase::Active) {
        return if is_over { Step::GiveBack } else { Step::Send };
    }
    let is_back = stack.is_some_and(|stack| is_ready(drill, stack));
    let since = Duration::try_from(now.duration_since(end)).unwrap_or_default();
    let is_settled = is_back && tally.is_steady(now) && tally.awaited_jobs() <= 0;
    if is_settled || since >= RECOVERY_LIMIT {
        Step::Complete { is_back }
    } else {
        Step::Send
    }
}

/// Returns true when the pods of the store are gone because of an active drill.
pub fn is_away(drill: &ShortenerDrill, stack: &ShortenerStack) -> bool {
    let is_gone =
        |found: &Condition| found.status == "False" && found.reason == conditions::DRILL_ACTIVE;
    phase(drill) == Some(DrillPhase::Active) && condition(drill, stack).is_some_and(is_gone)
}

/// Returns true when the condition of the store is true.
fn is_ready(drill: &ShortenerDrill, stack: &ShortenerStack) -> bool {
    condition(drill, stack).is_some_and(|found| found.status == "True")
}

/// Returns the condition of the store.
fn condition<'a>(drill: &ShortenerDrill, stack: &'a ShortenerStack) -> Option<&'a Condition> {
    let definition = stores::of(component(drill.spec.store));
    let own = |definition: &'static Definition| definition.condition.as_ref();
    let type_ = definition
        .and_then(own)
        .map_or(conditions::TELEMETRY_READY, |own| own.type_);
    let mut conditions = stack.status.as_ref()?.conditions.iter();
    conditions.find(|condition| condition.type_ == type_)
}
