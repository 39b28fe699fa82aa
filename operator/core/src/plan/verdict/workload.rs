//! The checks common to Deployments and StatefulSets.

use super::{Verdict, View, patience::PODS_OVERDUE, pods};
use crate::{
    api::ShortenerStackStatus,
    model::{live::Workload, metadata::Component},
};

/// Reason while a newer template replaces pods that still accept requests.
pub(in crate::plan) const ROLLING_OUT: &str = "RollingOut";

/// Reason while the volume of a store grows, on which its pods run.
pub(in crate::plan) const VOLUME_RESIZING: &str = "VolumeResizing";

/// Reason while the controller cannot create pods.
const PODS_NOT_CREATED: &str = "PodsNotCreated";

/// Reason while every desired pod of the newest template is ready.
pub(in crate::plan) const PODS_READY: &str = "PodsReady";

/// Returns the verdict on a component's pods. The first check that fails decides: the controller has observed the
/// workload, no pod has a problem, pods can be created, and enough of them are ready. A problem beside enough ready
/// pods, as of a new template that does not start, is a fault and takes nothing from the component's status.
pub(in crate::plan) fn ready(view: View<'_>, component: Component) -> Verdict {
    let name = component.as_str();
    if view.stack.stopped {
        return Verdict::no(
            "Stopped",
            format!("the {name} is scaled to zero: set spec.stopped to false to start it"),
        );
    }
    let workload = view.live.workloads.get(&component);
    let serves = workload.is_some_and(|workload| workload.ready > 0);
    let Some(workload) = workload.filter(|workload| workload.observed) else {
        let message = format!("the cluster's controllers have not observed the {name} yet");
        return Verdict::no("Pending", message).serving(serves);
    };
    let waits = pods::waits_for_backup(view.live, component);
    let problem = pods::problem(view.live, component)
        .or_else(|| not_created(name, workload))
        .or_else(|| pods::lost(view.live, component).filter(|_| workload.ready < workload.wanted))
        .or_else(|| (workload.overdue && !waits).then(|| rollout_overdue(name)));
    match problem {
        Some(problem) => Verdict {
            holds: serves && workload.ready >= workload.wanted,
            serves,
            ..problem
        },
        None => {
            let mut counted = counted(name, workload).serving(serves);
            if waits {
                counted.message += "; a new one migrates the database when the backup has ended";
            }
            counted
        }
    }
}

/// Returns a verdict if the controller cannot create pods.
fn not_created(name: &str, workload: &Workload) -> Option<Verdict> {
    let failure = workload.failure.as_ref()?;
    let message = format!("{}{failure}", not_created_because(name));
    Some(Verdict::fault(PODS_NOT_CREATED, message))
}

/// Returns the verdict on a rollout that its controller has given up waiting for.
fn rollout_overdue(name: &str) -> Verdict {
    PODS_OVERDUE.fault(&format!("a new pod of the {name} is not ready"))
}

/// Returns the begin of the sentence that names the failure to create pods.
fn not_created_because(name: &str) -> String {
    format!("pods of the {name} cannot be created: ")
}

/// Returns the failure to create pods of a component that a status names. An operator that has just started knows no other
/// yet.
pub fn reported_failure(status: &ShortenerStackStatus, component: Component) -> Option<String> {
    let start = not_created_because(component.as_str());
    let conditions = status.conditions.iter();
    let mut told = conditions.filter(|condition| condition.reason == PODS_NOT_CREATED);
    let failure = told.find_map(|condition| condition.message.strip_prefix(&start))?;
    Some(failure.to_owned())
}

/// Returns the verdict on the numbers of pods.
fn counted(name: &str, workload: &Workload) -> Verdict {
    let Workload {
        wanted,
        existing,
        ready,
        updated,
        ..
    } = *workload;
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
        )
        .moving();
    }
    Verdict::yes(
        PODS_READY,
        format!("{ready} of {wanted} pods of the {name} are ready"),
    )
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use k8s_openapi::api::core::v1::Pod;
    use serde_json::json;

    use super::*;
    use crate::{
        model::metadata::labels,
        testing::{
            live::{live, workload},
            stack::minimal_stack,
        },
    };

    #[test]
    fn a_migration_that_waits_for_a_backup_is_progress_for_as_long_as_it_runs() {
        let pod = |component: Component, container: &str| -> Arc<Pod> {
            let status = json!({
                "initContainerStatuses": [{
                    "name": container, "image": "", "imageID": "", "ready": false, "restartCount": 0,
                    "state": {"running": {}},
                }],
                "conditions": [{
                    "type": "Ready", "status": "False", "reason": "ContainersNotReady",
                    "lastTransitionTime": "2026-01-01T00:00:00Z",
                }],
            });
            let metadata = json!({"name": "acme-app-b", "labels": labels("acme", component)});
            let pod = json!({"metadata": metadata, "status": status});
            Arc::new(serde_json::from_value(pod).unwrap())
        };
        let backup = pod(Component::Backup, "dump");
        for (pods, progresses) in [
            (vec![pod(Component::App, "migrate"), backup.clone()], true),
            (vec![pod(Component::App, "migrate")], false),
            (vec![pod(Component::App, "other"), backup], false),
        ] {
            let rollout = Workload {
                existing: 3,
                updated: 1,
                overdue: true,
                ..workload(2, 2)
            };
            let mut live = live(Component::App, rollout);
            live.at = "2026-01-01T06:00:00Z".parse().unwrap();
            live.pods = pods;
            let stack = minimal_stack();
            let view = View {
                stack: &stack,
                live: &live,
            };
            let found = ready(view, Component::App);
            assert_eq!((found.holds, found.serves), (true, true), "{found:?}");
            assert_eq!((found.moves, found.fault), (progresses, !progresses));
            let waits = found.message.ends_with("when the backup has ended");
            assert_eq!(waits, progresses, "{found:?}");
        }
    }

    #[test]
    fn the_status_that_names_a_failure_tells_it_again() {
        let lacking = Workload {
            existing: 0,
            failure: Some("exceeded quota: small".to_owned()),
            ..workload(1, 0)
        };
        let (stack, live) = (minimal_stack(), live(Component::Postgres, lacking));
        let view = View {
            stack: &stack,
            live: &live,
        };
        let verdict = ready(view, Component::Postgres);
        assert!(verdict.fault && !verdict.serves, "{verdict:?}");
        assert_eq!(verdict.reason, "PodsNotCreated");
        let status = |reason: &str| -> ShortenerStackStatus {
            serde_json::from_value(json!({"conditions": [{
                "type": "DatabaseReady", "status": "False", "reason": reason,
                "message": verdict.message, "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]}))
            .unwrap()
        };
        let told = reported_failure(&status(verdict.reason), Component::Postgres);
        assert_eq!(told.as_deref(), Some("exceeded quota: small"));
        let of_another = reported_failure(&status(verdict.reason), Component::Cache);
        assert_eq!(of_another, None);
        let starting = reported_failure(&status("PodsStarting"), Component::Postgres);
        assert_eq!(starting, None);
    }
}
