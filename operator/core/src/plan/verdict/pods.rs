//! Problems that keep pods from running, in messages that help to resolve them.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use kube_core::ResourceExt;

use super::Verdict;
use crate::model::metadata::{COMPONENT_LABEL, Component};

/// Returns the pods of a component, without those that are being deleted.
pub(in crate::plan) fn of(
    pods: &[Arc<Pod>],
    component: Component,
) -> impl Iterator<Item = &Arc<Pod>> {
    let its = move |pod: &&Arc<Pod>| {
        let label = pod.labels().get(COMPONENT_LABEL);
        label.is_some_and(|label| label == component.as_str())
            && pod.metadata.deletion_timestamp.is_none()
    };
    pods.iter().filter(its)
}

/// Returns the first problem among a component's pods, if there is one.
pub(in crate::plan) fn problem(pods: &[Arc<Pod>], component: Component) -> Option<Verdict> {
    of(pods, component).find_map(|pod| unschedulable(pod).or_else(|| container_problem(pod)))
}

fn unschedulable(pod: &Pod) -> Option<Verdict> {
    let conditions = pod.status.as_ref()?.conditions.as_ref()?;
    let condition = conditions.iter().find(|condition| {
        condition.type_ == "PodScheduled" && condition.reason.as_deref() == Some("Unschedulable")
    })?;
    let why = condition
        .message
        .as_deref()
        .unwrap_or("the scheduler gives no reason");
    Some(Verdict::fault(
        "Unschedulable",
        format!("pod {} cannot be scheduled: {why}", pod.name_any()),
    ))
}

fn container_problem(pod: &Pod) -> Option<Verdict> {
    let status = pod.status.as_ref()?;
    let init = status.init_container_statuses.iter().flatten();
    init.chain(status.container_statuses.iter().flatten())
        .find_map(|container| waiting_problem(pod, container))
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
                "container {container_name} of pod {name} keeps crashing{}: see kubectl logs {name} -c {container_name} -n {} --previous",
                last_end(container),
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

    fn waiting(reason: &str) -> serde_json::Value {
        json!({"containerStatuses": [{
            "name": "app", "image": "app:none", "imageID": "", "ready": false, "restartCount": 3,
            "state": {"waiting": {"reason": reason, "message": "why"}},
            "lastState": {"terminated": {"exitCode": 2, "reason": "Error"}},
        }]})
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
                waiting("CreateContainerConfigError"),
                Some(("ContainerNotCreated", "why")),
            ),
            (waiting("PodInitializing"), None),
            (unschedulable, Some(("Unschedulable", "0/1 nodes"))),
            (json!({}), None),
        ];
        for (status, expected) in table {
            let found = problem(&[pod(status.clone())], Component::App);
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
        assert_eq!(
            problem(&[pod(waiting("ImagePullBackOff"))], Component::Postgres),
            None
        );
    }
}
