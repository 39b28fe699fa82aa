//! The order in which workers are removed: those that process a job come last.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::core::v1::Pod;
use kube_core::ResourceExt;

use super::verdict::pods;
use crate::model::metadata::{Component, DELETION_COST};

/// Cost of a worker that processes a job.
const BUSY: &str = "1";
/// Cost of a worker that waits for one, as of a pod without the annotation.
const IDLE: &str = "0";

/// Returns the pods of the workers whose annotation has to change, with its new value. `busy` names the clients of the
/// broker that process a job. If all of them do, or none, the order does not matter.
pub fn deletion_costs(pods: &[Arc<Pod>], busy: &BTreeSet<String>) -> Vec<(Arc<Pod>, &'static str)> {
    let is_busy = |pod: &Pod| busy.iter().any(|client| is_of(client, &pod.name_any()));
    let workers: Vec<_> = pods::of(pods, Component::Worker).collect();
    let number = workers.iter().filter(|pod| is_busy(pod)).count();
    if number == 0 || number == workers.len() {
        return Vec::new();
    }
    let wanted = |pod: &Arc<Pod>| {
        let cost = if is_busy(pod) { BUSY } else { IDLE };
        let live = pod.annotations().get(DELETION_COST);
        let differs = live.map_or(IDLE, String::as_str) != cost;
        differs.then(|| (pod.clone(), cost))
    };
    workers.into_iter().filter_map(wanted).collect()
}

/// Returns true when a client is the worker of a pod: the name of its connection ends with the pod's.
fn is_of(client: &str, pod: &str) -> bool {
    client.rsplit(' ').next() == Some(pod)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::model::metadata::COMPONENT_LABEL;

    fn pod(name: &str, component: &str, cost: Option<&str>) -> Arc<Pod> {
        let annotations = cost.map(|cost| json!({DELETION_COST: cost}));
        let labels = json!({COMPONENT_LABEL: component});
        let pod = json!({"metadata": {"name": name, "labels": labels, "annotations": annotations}});
        Arc::new(serde_json::from_value(pod).unwrap())
    }

    fn costs(pods: &[Arc<Pod>], busy: &[&str]) -> Vec<(String, &'static str)> {
        let client = |pod: &&str| format!("shortener-worker {pod}");
        let costs = deletion_costs(pods, &busy.iter().map(client).collect());
        let named = costs.into_iter().map(|(pod, cost)| (pod.name_any(), cost));
        named.collect()
    }

    #[test]
    fn busy_workers_cost_more_than_idle_ones_and_nothing_else_is_changed() {
        let pods = [
            pod("acme-worker-a", "worker", None),
            pod("acme-worker-b", "worker", None),
            pod("acme-worker-c", "worker", Some("1")),
            pod("acme-worker-d", "worker", Some("1")),
            pod("acme-app-a", "app", None),
        ];
        let expected = [
            ("acme-worker-b".to_owned(), "1"),
            ("acme-worker-d".to_owned(), "0"),
        ];
        assert_eq!(costs(&pods, &["acme-worker-b", "acme-worker-c"]), expected);
    }

    #[test]
    fn the_order_of_equals_is_left_alone() {
        let pods = [
            pod("acme-worker-a", "worker", None),
            pod("acme-worker-b", "worker", Some("1")),
        ];
        assert!(costs(&pods, &[]).is_empty());
        assert!(costs(&pods, &["acme-worker-a", "acme-worker-b"]).is_empty());
        assert!(costs(&pods, &["acme-app-a"]).is_empty());
    }
}
