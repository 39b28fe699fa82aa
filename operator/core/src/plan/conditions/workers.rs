//! `WorkersReady`: every desired worker processes jobs.

use super::{Verdict, View};
use crate::{
    model::{metadata::Component, stack::Queue},
    plan::verdict::workload,
};

/// Checks the workers' Deployment and its pods.
pub fn workers_ready(view: View<'_>, queue: &Queue) -> Verdict {
    // The only component that may have zero replicas while the stack runs.
    if queue.workers.replicas > 0 || view.stack.stopped {
        return workload::ready(view, Component::Worker);
    }
    let message = if queue.workers.autoscaling.is_some() {
        "there is no job, so no worker runs: spec.workers.autoscaling starts one for the first job"
    } else {
        "spec.workers.replicas is 0, so jobs wait until you or an autoscaler raise it"
    };
    Verdict::yes("ScaledToZero", message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::WorkersAutoscaling,
        model::{live::Workload, stack::Autoscaled, worker_demand::WorkerDemand},
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    #[test]
    fn no_worker_is_no_reason_to_raise_a_number_that_follows_the_queue() {
        let mut stack = minimal_stack().queue();
        let limits = WorkersAutoscaling {
            min_replicas: 0,
            max_replicas: 5,
            jobs_per_worker: 10,
            stabilization_window_seconds: 300,
        };
        if let Some(queue) = &mut stack.queue {
            let count = WorkerDemand::default().decide(&limits, None);
            queue.workers.replicas = count.replicas;
            queue.workers.autoscaling = Some(Autoscaled { limits, count });
        }
        let view = View {
            stack: &stack,
            live: &live(Component::Worker, workload(0, 0)),
        };
        let found = workers_ready(view, stack.queue.as_ref().unwrap());
        assert!(found.holds && !found.message.contains("raise"), "{found:?}");
    }

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
