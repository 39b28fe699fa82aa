//! Problems that keep pods from running, in messages that help to resolve them.

use std::sync::Arc;

use k8s_openapi::{
    api::core::v1::{ContainerStatus, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::Time,
    jiff::Timestamp,
};
use kube_core::ResourceExt;

use super::{
    Verdict,
    patience::{NODE_LOST, PODS_OVERDUE, UNSCHEDULABLE, VOLUME_ELSEWHERE},
};
use crate::{
    model::{
        backup_run,
        live::Live,
        metadata::{COMPONENT_LABEL, Component},
    },
    plan::stores::external::MIGRATE,
};

/// Parts of the scheduler's message about nodes that cannot use the volume of a pod, of newer and of older versions.
const VOLUME_CONFLICTS: [&str; 2] = [
    "didn't match PersistentVolume's node affinity",
    "volume node affinity conflict",
];

/// Returns the pods of a component, without those that are being deleted.
pub(in crate::plan) fn of(
    pods: &[Arc<Pod>],
    component: Component,
) -> impl Iterator<Item = &Arc<Pod>> {
    with_deleted(pods, component).filter(|pod| pod.metadata.deletion_timestamp.is_none())
}

fn with_deleted(pods: &[Arc<Pod>], component: Component) -> impl Iterator<Item = &Arc<Pod>> {
    let its = move |pod: &&Arc<Pod>| {
        let label = pod.labels().get(COMPONENT_LABEL);
        label.is_some_and(|label| label == component.as_str())
    };
    pods.iter().filter(its)
}

/// Returns true when a pod is ready.
pub(in crate::plan) fn is_ready(pod: &Pod) -> bool {
    condition(pod, "Ready").is_some_and(|ready| ready.status == "True")
}

/// Returns the first problem among a component's pods, if there is one. Problems that time often resolves come last.
pub(in crate::plan) fn problem(live: &Live, component: Component) -> Option<Verdict> {
    let pods = || of(&live.pods, component);
    let broken = pods().find_map(|pod| container_problem(pod));
    let migrates = waits_for_backup(live, component);
    broken
        .or_else(|| pods().find_map(|pod| unschedulable(pod, live.at)))
        .or_else(|| pods().find_map(|pod| overdue(pod, live.at).filter(|_| !migrates)))
}

/// Returns true while a pod of a component migrates the database and a backup runs: the migration waits for the dump, which
/// holds all tables.
pub(super) fn waits_for_backup(live: &Live, component: Component) -> bool {
    let runs = |pod: &Pod, name: Option<&str>| {
        containers(pod).any(|container| {
            let state = container.state.as_ref();
            let is_running = state.is_some_and(|state| state.running.is_some());
            is_running && name.is_none_or(|name| container.name == name)
        })
    };
    of(&live.pods, component).any(|pod| runs(pod, Some(MIGRATE)))
        && of(&live.pods, Component::Backup).any(|pod| runs(pod, None))
}

/// Returns the containers of a pod, in the order in which they start.
fn containers(pod: &Pod) -> impl Iterator<Item = &ContainerStatus> {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_ref());
    let later = status.and_then(|status| status.container_statuses.as_ref());
    init.into_iter()
        .flatten()
        .chain(later.into_iter().flatten())
}

/// Returns the verdict if the node of a component's pod does not answer, or if a pod has not ended after its grace period.
pub(in crate::plan) fn lost(live: &Live, component: Component) -> Option<Verdict> {
    let pods = || with_deleted(&live.pods, component);
    let silent = pods().find_map(|pod| silent(pod));
    silent.or_else(|| pods().find_map(|pod| unended(pod, live.at)))
}

fn unended(pod: &Pod, now: Timestamp) -> Option<Verdict> {
    let deletion = pod.metadata.deletion_timestamp.as_ref();
    let (name, node) = (pod.name_any(), node(pod));
    let what = format!("pod {name} was deleted and has not ended on node {node}");
    NODE_LOST
        .is_over(deletion, now)
        .then(|| NODE_LOST.fault(&what))
}

/// Returns the verdict if the node of a pod does not answer. A Deployment replaces the pod when its deletion begins. A
/// StatefulSet does so only when it has ended, which nothing confirms.
fn silent(pod: &Pod) -> Option<Verdict> {
    let (name, node) = (pod.name_any(), node(pod));
    let what = format!("node {node} of pod {name} does not answer");
    let mut owners = pod.owner_references().iter();
    let is_stateful = owners.any(|owner| owner.kind == "StatefulSet");
    let is_deleted = pod.metadata.deletion_timestamp.is_some();
    if !is_silent(pod) || (is_deleted && !is_stateful) {
        return None;
    }
    Some(if is_stateful {
        NODE_LOST.fault(&what)
    } else {
        let replaced = format!("{what}: another pod takes its place within a minute");
        Verdict::no(NODE_LOST.reason, replaced).moving()
    })
}

fn node(pod: &Pod) -> &str {
    let node = pod.spec.as_ref().and_then(|spec| spec.node_name.as_deref());
    node.unwrap_or("(unknown)")
}

/// Returns true for a pod whose node does not answer. Kubernetes then takes a pod for unready without a reason, and all that
/// the node has told of its containers stays. A node itself always tells a reason.
fn is_silent(pod: &Pod) -> bool {
    let is_unready = condition(pod, "Ready").is_some_and(|ready| {
        ready.status == "False" && ready.reason.as_deref().unwrap_or_default().is_empty()
    });
    let containers = condition(pod, "ContainersReady");
    is_unready && containers.is_some_and(|containers| containers.status == "True")
}

/// Returns a condition of a pod.
fn condition<'a>(pod: &'a Pod, type_: &str) -> Option<&'a PodCondition> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    conditions.iter().find(|condition| condition.type_ == type_)
}

/// Returns the time since which all pods of a component have been ready or not.
pub(in crate::plan) fn ready_since(live: &Live, component: Component) -> Option<&Time> {
    let conditions = of(&live.pods, component).filter_map(|pod| condition(pod, "Ready"));
    conditions
        .filter_map(|ready| ready.last_transition_time.as_ref())
        .max()
}

/// Returns the verdict if a pod has not been ready for long.
fn overdue(pod: &Pod, now: Timestamp) -> Option<Verdict> {
    let status = pod.status.as_ref()?;
    let has_ended = matches!(status.phase.as_deref(), Some("Succeeded" | "Failed"));
    let is_waiting = !has_ended && !is_silent(pod);
    let ready = condition(pod, "Ready").filter(|ready| ready.status == "False" && is_waiting)?;
    if !PODS_OVERDUE.is_over(ready.last_transition_time.as_ref(), now) {
        return None;
    }
    let containers = status.container_statuses.iter().flatten();
    let waiting = containers.filter(|container| !container.ready);
    let names: Vec<&str> = waiting.map(|container| container.name.as_str()).collect();
    Some(PODS_OVERDUE.fault(&format!(
        "pod {} is not ready (containers that are not: {})",
        pod.name_any(),
        names.join(", ")
    )))
}

fn unschedulable(pod: &Pod, now: Timestamp) -> Option<Verdict> {
    let condition = condition(pod, "PodScheduled")
        .filter(|condition| condition.reason.as_deref() == Some("Unschedulable"))?;
    let why = condition
        .message
        .as_deref()
        .unwrap_or("the scheduler gives no reason");
    let what = format!("pod {} cannot be scheduled ({why})", pod.name_any());
    let since = condition.last_transition_time.as_ref();
    let is_elsewhere = VOLUME_CONFLICTS.iter().any(|part| why.contains(part));
    let patience = if is_elsewhere {
        VOLUME_ELSEWHERE
    } else {
        UNSCHEDULABLE
    };
    Some(patience.verdict("Unschedulable", &what, since, now))
}

fn container_problem(pod: &Pod) -> Option<Verdict> {
    containers(pod).find_map(|container| waiting_problem(pod, container))
}

fn waiting_problem(pod: &Pod, container: &ContainerStatus) -> Option<Verdict> {
    let waiting = container.state.as_ref()?.waiting.as_ref()?;
    let (name, container_name) = (pod.name_any(), &container.name);
    let detail = waiting.message.as_deref().unwrap_or_default();
    match waiting.reason.as_deref()? {
        "ErrImagePull" | "ImagePullBackOff" | "InvalidImageName" | "ErrImageNeverPull" => {
            Some(Verdict::fault(
                "ImagePullFailed",
                format!(
                    "pod {name} cannot pull image {} of container {container_name}: {detail}",
                    container.image
                ),
            ))
        }
        "CrashLoopBackOff" => Some(Verdict::fault(
            "CrashLoop",
            format!(
                "container {container_name} of pod {name} keeps crashing{}{}: see kubectl logs {name} -c {container_name} -n {} --previous",
                last_end(container),
                last_error(pod, container),
                pod.namespace().unwrap_or_default()
            ),
        )),
        "CreateContainerConfigError" | "CreateContainerError" | "RunContainerError" => {
            Some(Verdict::fault(
                "ContainerNotCreated",
                format!("container {container_name} of pod {name} cannot be created: {detail}"),
            ))
        }
        _ => None,
    }
}

fn last_end(container: &ContainerStatus) -> String {
    let last = container
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    last.map_or_else(String::new, |end| {
        format!(
            " (exit code {}, {})",
            end.exit_code,
            end.reason.as_deref().unwrap_or("reason unknown")
        )
    })
}

/// Returns the error of a container that prepares a pod. Containers that serve log more than one reason.
fn last_error(pod: &Pod, container: &ContainerStatus) -> String {
    let status = pod.status.as_ref();
    let init = status.and_then(|status| status.init_container_statuses.as_deref());
    let prepares = init.is_some_and(|init| init.iter().any(|init| init.name == container.name));
    let last = container.last_state.as_ref();
    let ended = last.and_then(|state| state.terminated.as_ref());
    let log = ended.and_then(|end| end.message.as_deref());
    let error = log.filter(|_| prepares).and_then(backup_run::error_of);
    error.map_or_else(String::new, |error| format!(": {error}"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(status: serde_json::Value) -> Arc<Pod> {
        let labels = json!({COMPONENT_LABEL: "app"});
        Arc::new(
            serde_json::from_value(
                json!({"metadata": {"name": "acme-app-0", "labels": labels}, "status": status}),
            )
            .unwrap(),
        )
    }

    /// Returns the first problem of the app with this pod, a number of minutes after the start of 2026.
    fn found(pod: Arc<Pod>, minutes: i64) -> Option<Verdict> {
        let start: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        let live = Live {
            at: start + k8s_openapi::jiff::SignedDuration::from_mins(minutes),
            pods: vec![pod],
            ..Live::default()
        };
        problem(&live, Component::App).or_else(|| lost(&live, Component::App))
    }

    #[test]
    fn what_time_often_resolves_is_a_fault_only_after_its_time() {
        let condition = |type_: &str, reason: &str| {
            json!({"conditions": [{
                "type": type_, "status": "False", "reason": reason,
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            }]})
        };
        let nowhere = condition("PodScheduled", "Unschedulable");
        let unready = condition("Ready", "ContainersNotReady");
        let mut ended = unready.clone();
        ended["phase"] = "Failed".into();
        for (status, minutes, expected) in [
            (&nowhere, 4, Some(("Unschedulable", false))),
            (&nowhere, 6, Some(("Unschedulable", true))),
            (&unready, 9, None),
            (&unready, 11, Some(("PodsOverdue", true))),
            (&ended, 11, None),
        ] {
            let found = found(pod(status.clone()), minutes);
            let found = found.map(|verdict| (verdict.reason, verdict.fault));
            assert_eq!(found, expected, "{status} after {minutes} minutes");
        }
    }

    #[test]
    fn a_pod_that_does_not_end_is_named_with_its_node_and_the_remedy() {
        let mut gone = Pod::clone(&pod(json!({})));
        gone.metadata.deletion_timestamp = Some(Time("2026-01-01T00:00:00Z".parse().unwrap()));
        gone.spec = Some(k8s_openapi::api::core::v1::PodSpec {
            node_name: Some("worker-2".to_owned()),
            ..Default::default()
        });
        let gone = Arc::new(gone);
        assert_eq!(found(gone.clone(), 1), None, "within a minute");
        let found = found(gone, 2).unwrap();
        assert!(found.fault && found.reason == "NodeLost", "{found:?}");
        for part in ["acme-app-0", "node worker-2", "out-of-service"] {
            assert!(found.message.contains(part), "{}", found.message);
        }
    }

    /// Returns a pod of a kind of owner whose readiness has this reason, and that is being deleted or not.
    fn unready(owner: &str, reason: Option<&str>, is_deleted: bool) -> Arc<Pod> {
        let ready = json!({
            "type": "Ready", "status": "False", "reason": reason,
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        let containers = json!({"type": "ContainersReady", "status": "True"});
        let mut unready = Pod::clone(&pod(json!({"conditions": [ready, containers]})));
        let owner = json!({"apiVersion": "apps/v1", "kind": owner, "name": "acme-app", "uid": "u"});
        unready.metadata.owner_references = serde_json::from_value(json!([owner])).unwrap();
        unready.metadata.deletion_timestamp =
            is_deleted.then(|| Time("2026-01-01T00:05:00Z".parse().unwrap()));
        unready.spec = Some(k8s_openapi::api::core::v1::PodSpec {
            node_name: Some("worker-2".to_owned()),
            ..Default::default()
        });
        Arc::new(unready)
    }

    #[test]
    fn a_node_that_does_not_answer_is_named_at_once_and_is_a_fault_for_what_stays_on_it() {
        const LOST: &str = "NodeLost";
        let gates = Some("ReadinessGatesNotReady");
        for (pod, minutes, expected) in [
            (unready("StatefulSet", None, false), 0, Some((LOST, true))),
            (unready("StatefulSet", None, false), 60, Some((LOST, true))),
            (unready("StatefulSet", None, true), 5, Some((LOST, true))),
            (unready("StatefulSet", gates, false), 0, None),
            (unready("ReplicaSet", None, false), 0, Some((LOST, false))),
            (unready("ReplicaSet", None, true), 5, None),
            (unready("ReplicaSet", None, true), 7, Some((LOST, true))),
        ] {
            let found = found(pod.clone(), minutes);
            let told = found.as_ref().map(|found| (found.reason, found.fault));
            assert_eq!(told, expected, "{pod:?} after {minutes} minutes");
            let named = |found: &Verdict| found.message.contains("node worker-2");
            assert!(found.is_none_or(|found| named(&found)), "{pod:?}");
        }
        let stays = found(unready("StatefulSet", None, false), 0).unwrap();
        for part in [
            "acme-app-0",
            "when the node is back",
            "out-of-service",
            "restore a backup",
        ] {
            assert!(stays.message.contains(part), "{}", stays.message);
        }
    }

    #[test]
    fn a_volume_that_no_node_can_use_is_told_with_its_remedy() {
        for conflict in VOLUME_CONFLICTS {
            let condition = json!({
                "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
                "message": format!("0/3 nodes are available: 3 node(s) {conflict}."),
                "lastTransitionTime": "2026-01-01T00:00:00Z",
            });
            let found = found(pod(json!({"conditions": [condition]})), 6).unwrap();
            assert!(
                found.fault && found.message.contains("restore a backup"),
                "{found:?}"
            );
        }
    }

    fn waiting(reason: &str) -> serde_json::Value {
        json!({"containerStatuses": [{
            "name": "app", "image": "app:none", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": reason, "message": "why"}},
            "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
        }]})
    }

    fn failed_to_prepare() -> serde_json::Value {
        let mut status = waiting("CrashLoopBackOff");
        let mut container = status["containerStatuses"][0].take();
        container["lastState"]["terminated"]["message"] =
            "begins\nerror: the file is cut\nends".into();
        json!({"initContainerStatuses": [container]})
    }

    #[test]
    fn problems_are_named_with_pod_and_cause() {
        let unschedulable = json!({"conditions": [
            {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes are available"}
        ]});
        let table = [
            (
                waiting("ImagePullBackOff"),
                Some(("ImagePullFailed", "app:none")),
            ),
            (
                waiting("CrashLoopBackOff"),
                Some(("CrashLoop", "exit code 2")),
            ),
            (
                failed_to_prepare(),
                Some((
                    "CrashLoop",
                    "Error): error: the file is cut: see kubectl logs",
                )),
            ),
            (
                waiting("CreateContainerConfigError"),
                Some(("ContainerNotCreated", "why")),
            ),
            (waiting("PodInitializing"), None),
            (unschedulable, Some(("Unschedulable", "0/1 nodes"))),
            (json!({}), None),
        ];
        for (status, expected) in table {
            let found = found(pod(status.clone()), 0);
            assert_eq!(
                found.as_ref().map(|verdict| verdict.reason),
                expected.map(|(reason, _)| reason),
                "{status}"
            );
            if let (Some(found), Some((_, part))) = (found, expected) {
                assert!(
                    found.message.contains(part) && found.message.contains("acme-app-0"),
                    "{}",
                    found.message
                );
            }
        }
    }

    #[test]
    fn pods_of_other_components_do_not_matter() {
        let live = Live {
            pods: vec![pod(waiting("ImagePullBackOff"))],
            ..Live::default()
        };
        assert_eq!(problem(&live, Component::Postgres), None);
    }
}
