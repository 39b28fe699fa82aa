//! `Progressing` of a stack that holds back the changes of a release.

use super::{Verdict, summary::SETTLED};
use crate::{api::PendingChange, model::metadata::RELEASE};

/// Reason of `Progressing` while a settled stack holds changes back.
const CHANGES_PENDING: &str = "ChangesPending";
/// Number of workloads that the sentence names. The status lists all of them.
const NAMED: usize = 3;

/// Returns the verdict `Progressing`, which names what waits for the user once nothing else moves.
pub fn held_back(progressing: Verdict, pending: &[PendingChange]) -> Verdict {
    if pending.is_empty() || progressing.reason != SETTLED {
        return progressing;
    }
    let names: Vec<&str> = pending
        .iter()
        .take(NAMED)
        .map(|change| change.workload.as_str())
        .collect();
    let more = match pending.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    Verdict::no(
        CHANGES_PENDING,
        format!(
            "this release of the operator would restart {}{more}; with upgradePolicy OnSpecChange this is pending (see \
             status.pendingChanges): edit the spec, or set the annotation {RELEASE} of the stack to another value, when \
             their pods may restart",
            names.join(", ")
        ),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pending(workloads: &[&str]) -> Vec<PendingChange> {
        let workloads = workloads.iter();
        workloads
            .map(|workload| PendingChange {
                workload: (*workload).to_owned(),
                fields: vec!["spec.containers[app].image".to_owned()],
            })
            .collect()
    }

    #[test]
    fn a_settled_stack_names_what_waits_and_the_remedy() {
        let settled = || Verdict::no(SETTLED, "no change is in progress");
        assert_eq!(held_back(settled(), &[]), settled());
        let moving = Verdict::yes("RollingOut", "1 of 2");
        let paused = Verdict::no("Paused", "the stack is paused");
        for other in [moving, paused] {
            assert_eq!(held_back(other.clone(), &pending(&["a"])), other);
        }
        let found = held_back(settled(), &pending(&["a", "b"]));
        assert_eq!((found.holds, found.reason), (false, CHANGES_PENDING));
        for part in ["restart a, b;", "edit the spec", RELEASE] {
            assert!(found.message.contains(part), "{}", found.message);
        }
        let found = held_back(settled(), &pending(&["a", "b", "c", "d", "e"]));
        assert!(
            found.message.contains("a, b, c and 2 more;"),
            "{}",
            found.message
        );
    }
}
