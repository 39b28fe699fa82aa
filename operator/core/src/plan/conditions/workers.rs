//! `WorkersReady`: every desired worker processes jobs.

use super::{Verdict, View};
use crate::{
    model::{metadata::Component, stack::Queue},
    plan::verdict::workload,
};

/// Checks the workers' Deployment and its pods.
pub fn workers_ready(view: View<'_>, queue: &Queue) -> Verdict {
    // The only component that may have zero replicas while the stack runs.
    if queue.workers.replicas == 0 && !view.stack.stopped {
        return Verdict::yes(
            "ScaledToZero",
            "spec.workers.replicas is 0, so jobs wait: raise it to process them",
        );
    }
    workload::ready(view, Component::Worker)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::live::Workload,
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    #[test]
    fn the_workers_are_ready_when_every_wanted_pod_is() {
        let table = [
            (1, 1, true, "PodsReady"),
            (3, 2, false, "PodsStarting"),
            (0, 0, true, "ScaledToZero"),
        ];
        for (wanted, ready, holds, reason) in table {
            let mut stack = minimal_stack().queue();
            if let Some(queue) = &mut stack.queue {
                queue.workers.replicas = wanted;
            }
            let workload = Workload {
                existing: ready,
                updated: ready,
                ..workload(wanted, ready)
            };
            let view = View {
                stack: &stack,
                live: &live(Component::Worker, workload),
            };
            let found = workers_ready(view, stack.queue.as_ref().unwrap());
            assert_eq!((found.holds, found.reason), (holds, reason), "{wanted}");
        }
    }
}
