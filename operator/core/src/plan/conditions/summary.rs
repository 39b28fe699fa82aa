//! `Ready`, `Progressing` and `Degraded`: summaries of the components' conditions.

use super::{APP_READY, DATABASE_READY, GATEWAY_READY, Verdict};
use crate::{
    model::{failure::StepFailure, metadata::PLAN_ONLY},
    plan::stores::rabbitmq::DRAINING,
};

type Components<'a> = &'a [(&'static str, Verdict)];

/// Conditions of the components without which a redirect or a write is not served. The others are optional: requests
/// are served without them, more slowly or with fewer routes.
const SERVING: [&str; 3] = [DATABASE_READY, APP_READY, GATEWAY_READY];

/// Reason of `Progressing` while nothing changes.
pub(super) const SETTLED: &str = "Settled";

/// Returns the verdict `Ready`: true when redirects and writes are served, even by fewer pods than asked for, or by pods
/// of an earlier template.
pub fn ready(components: Components<'_>) -> Verdict {
    let away = components
        .iter()
        .find(|(type_, verdict)| SERVING.contains(type_) && !verdict.serves);
    match away {
        Some((_, verdict)) => Verdict {
            holds: false,
            ..verdict.clone()
        },
        None => serves(),
    }
}

/// Returns the verdict on a stack that serves.
pub fn serves() -> Verdict {
    Verdict::yes("Serving", "redirects and writes are served")
}

/// Returns the verdict `Progressing` of a stack that is paused.
pub fn paused() -> Verdict {
    Verdict::no(
        "Paused",
        "the stack is paused: set spec.paused to false to apply changes",
    )
}

/// Returns the verdict `Progressing` of a stack that is only planned.
pub fn plan_only() -> Verdict {
    Verdict::no(
        "PlanOnly",
        format!(
            "nothing is applied, and status.plan shows the changes: remove the annotation {PLAN_ONLY} to apply them"
        ),
    )
}

/// Returns the verdict `Progressing`: true while a component changes without action by the user. `halted` is the verdict
/// on a stack to which nothing is applied, and `retried` a write for no component that is tried again soon.
pub fn progressing(
    components: Components<'_>,
    halted: Option<Verdict>,
    retried: Option<&StepFailure>,
) -> Verdict {
    if let Some(verdict) = halted {
        return verdict;
    }
    let moving = components.iter().find(|(_, verdict)| {
        verdict.moves || !(verdict.holds || verdict.fault || verdict.reason == "Stopped")
    });
    // A drain that the user started takes precedence over changes that happen by themselves.
    let draining = components
        .iter()
        .find(|(_, verdict)| verdict.reason == DRAINING);
    match (draining.or(moving), retried) {
        (Some((_, verdict)), _) => Verdict::yes(verdict.reason, verdict.message.clone()),
        (None, Some(failure)) => Verdict::yes(failure.reason, failure.message.clone()),
        (None, None) => Verdict::no(SETTLED, "no change is in progress"),
    }
}

/// Returns the verdict `Degraded`: true when a component has a fault that waiting does not mend, or there is a `failure` of a
/// component without a condition.
pub fn degraded(components: Components<'_>, failure: Option<&StepFailure>) -> Verdict {
    let fault = components.iter().find(|(_, verdict)| verdict.fault);
    match (fault, failure) {
        (Some((_, verdict)), _) => Verdict::yes(verdict.reason, verdict.message.clone()),
        (None, Some(failure)) => Verdict::yes(failure.reason, failure.message.clone()),
        (None, None) => Verdict::no("NoFault", "no fault is known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns `Ready`, `Progressing` and `Degraded` of a stack of which one condition has this verdict.
    fn summary(type_: &'static str, verdict: Verdict) -> (bool, bool, bool) {
        let types = [DATABASE_READY, "CacheReady", APP_READY, GATEWAY_READY];
        let components = types.map(|other| {
            let good = Verdict::yes("PodsReady", "good");
            (
                other,
                if other == type_ {
                    verdict.clone()
                } else {
                    good
                },
            )
        });
        (
            ready(&components).holds,
            progressing(&components, None, None).holds,
            degraded(&components, None).holds,
        )
    }

    #[test]
    fn components_add_up_to_ready_progressing_and_degraded() {
        let starting = || Verdict::no("PodsStarting", "1 of 2");
        let crash = || Verdict::fault("CrashLoop", "ends");
        let table = [
            (Verdict::yes("PodsReady", "good"), (true, false, false)),
            (starting(), (false, true, false)),
            (starting().serving(true), (true, true, false)),
            (crash(), (false, false, true)),
            (crash().serving(true), (true, false, true)),
            (
                Verdict::yes("RollingOut", "1 of 2").moving(),
                (true, true, false),
            ),
            (Verdict::yes(DRAINING, "3 left"), (true, true, false)),
            (Verdict::no("Stopped", "stopped"), (false, false, false)),
        ];
        for (verdict, expected) in table {
            assert_eq!(summary(APP_READY, verdict.clone()), expected, "{verdict:?}");
        }
    }

    #[test]
    fn an_optional_part_takes_no_readiness() {
        let table = [
            (Verdict::no("PodsStarting", "0 of 1"), (true, true, false)),
            (Verdict::fault("CrashLoop", "ends"), (true, false, true)),
        ];
        for (verdict, expected) in table {
            assert_eq!(
                summary("CacheReady", verdict.clone()),
                expected,
                "{verdict:?}"
            );
        }
    }

    #[test]
    fn a_stack_to_which_nothing_is_applied_does_not_progress() {
        let components = [("AppReady", Verdict::no("PodsStarting", "1 of 2"))];
        for (halted, reason) in [(paused(), "Paused"), (plan_only(), "PlanOnly")] {
            let verdict = progressing(&components, Some(halted), None);
            assert_eq!((verdict.reason, verdict.holds), (reason, false));
        }
    }
}
