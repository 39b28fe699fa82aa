//! The checks common to Deployments and StatefulSets.

use super::{Verdict, View, pods};
use crate::model::{live::Workload, metadata::Component};

/// Reason while a newer template replaces pods that still accept requests.
pub(in crate::plan) const ROLLING_OUT: &str = "RollingOut";

/// Returns the verdict on a component's pods. The first check that fails decides: the controller has observed the
/// workload, no pod has a problem, pods can be created, and enough of them are ready.
pub(in crate::plan) fn ready(view: View<'_>, component: Component) -> Verdict {
    let name = component.as_str();
    if view.stack.stopped {
        return Verdict::no(
            "Stopped",
            format!("the {name} is scaled to zero: set spec.stopped to false to start it"),
        );
    }
    let workload = view.live.workloads.get(&component);
    let Some(workload) = workload.filter(|workload| workload.observed) else {
        return Verdict::no(
            "Pending",
            format!("the cluster's controllers have not observed the {name} yet"),
        );
    };
    if let Some(problem) = pods::problem(&view.live.pods, component) {
        return problem;
    }
    let Workload {
        wanted,
        existing,
        ready,
        updated,
        ref failure,
        ..
    } = *workload;
    if let Some(failure) = failure {
        return Verdict::fault(
            "PodsNotCreated",
            format!("pods of the {name} cannot be created: {failure}"),
        );
    }
    // This state lasts only while the stack is paused. Otherwise the next reconcile restores the replicas.
    if wanted == 0 {
        return Verdict::no(
            "ScaledToZero",
            format!(
                "the {name} was scaled to zero manually while the stack is paused: set spec.paused to false to restore \
                 its replicas"
            ),
        );
    }
    if ready < wanted {
        return Verdict::no(
            "PodsStarting",
            format!("{ready} of {wanted} pods of the {name} are ready"),
        );
    }
    if updated < wanted || existing > wanted {
        return Verdict::yes(
            ROLLING_OUT,
            format!("{updated} of {wanted} pods of the {name} run the newest template"),
        );
    }
    Verdict::yes(
        "PodsReady",
        format!("{ready} of {wanted} pods of the {name} are ready"),
    )
}
