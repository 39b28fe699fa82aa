//! `Ready`, `Progressing` and `Degraded`: summaries of the components' conditions.

use super::Verdict;
use crate::{
    model::metadata::PLAN_ONLY,
    plan::{stores::rabbitmq::DRAINING, verdict::workload::ROLLING_OUT},
};

type Components<'a> = &'a [(&'static str, Verdict)];

/// Returns the verdict `Ready`: true when every component is ready.
pub fn ready(components: Components<'_>) -> Verdict {
    match components.iter().find(|(_, verdict)| !verdict.holds) {
        Some((_, verdict)) => Verdict {
            holds: false,
            ..verdict.clone()
        },
        None => Verdict::yes("ComponentsReady", "every component is ready"),
    }
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
            "nothing is applied, and status.plan says what would be: remove the annotation {PLAN_ONLY} to apply it"
        ),
    )
}

/// Returns the verdict `Progressing`: true while a component changes without action by the user. `halted` is the verdict
/// on a stack to which nothing is applied.
pub fn progressing(components: Components<'_>, halted: Option<Verdict>) -> Verdict {
    if let Some(verdict) = halted {
        return verdict;
    }
    let moving = components.iter().find(|(_, verdict)| {
        verdict.reason == ROLLING_OUT
            || !(verdict.holds || verdict.fault || verdict.reason == "Stopped")
    });
    // A drain that the user started takes precedence over changes that happen by themselves.
    let draining = components
        .iter()
        .find(|(_, verdict)| verdict.reason == DRAINING);
    match draining.or(moving) {
        Some((_, verdict)) => Verdict::yes(verdict.reason, verdict.message.clone()),
        None => Verdict::no("Settled", "no change is in progress"),
    }
}

/// Returns the verdict `Degraded`: true when a component has a fault that the user must resolve.
pub fn degraded(components: Components<'_>) -> Verdict {
    match components.iter().find(|(_, verdict)| verdict.fault) {
        Some((_, verdict)) => Verdict::yes(verdict.reason, verdict.message.clone()),
        None => Verdict::no("NoFault", "no fault is known"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(verdicts: [Verdict; 2]) -> (bool, bool, bool) {
        let [first, second] = verdicts;
        let components = [("DatabaseReady", first), ("AppReady", second)];
        (
            ready(&components).holds,
            progressing(&components, None).holds,
            degraded(&components).holds,
        )
    }

    #[test]
    fn components_add_up_to_ready_progressing_and_degraded() {
        let good = || Verdict::yes("PodsReady", "good");
        let table = [
            (good(), (true, false, false)),
            (Verdict::no("PodsStarting", "1 of 2"), (false, true, false)),
            (Verdict::fault("CrashLoop", "ends"), (false, false, true)),
            (Verdict::yes(ROLLING_OUT, "1 of 2"), (true, true, false)),
            (Verdict::yes(DRAINING, "3 left"), (true, true, false)),
            (Verdict::no("Stopped", "stopped"), (false, false, false)),
        ];
        for (verdict, expected) in table {
            assert_eq!(summary([good(), verdict.clone()]), expected, "{verdict:?}");
        }
    }

    #[test]
    fn a_stack_to_which_nothing_is_applied_does_not_progress() {
        let components = [("AppReady", Verdict::no("PodsStarting", "1 of 2"))];
        for (halted, reason) in [(paused(), "Paused"), (plan_only(), "PlanOnly")] {
            let verdict = progressing(&components, Some(halted));
            assert_eq!((verdict.reason, verdict.holds), (reason, false));
        }
    }
}
