//! The stores that other operators run, as components of a stack. Pure.

use serde_json::Value;
use shortener_operator_core::model::{
    cloud_native_pg::{CLUSTER_LABEL, Cluster, HIBERNATION},
    metadata::{COMPONENT_LABEL, NAME_LABEL},
    rabbitmq_cluster::RabbitmqCluster,
};

use super::summary::{ComponentSummary, list, pod_sentences, tag};
use crate::cli::observed::{ObservedStack, text};

/// Returns the Cluster of CloudNativePG and the RabbitmqCluster of a stack.
pub(super) fn of(observed: &ObservedStack) -> Vec<ComponentSummary> {
    let databases = observed.of::<Cluster>();
    let databases = databases.map(|cluster| database(cluster, observed));
    let brokers = observed.of::<RabbitmqCluster>();
    let brokers = brokers.map(|cluster| broker(cluster, observed));
    databases.chain(brokers).collect()
}

fn database(cluster: &Value, observed: &ObservedStack) -> ComponentSummary {
    let sleeps = cluster["metadata"]["annotations"][HIBERNATION] == "on";
    let instances = match sleeps {
        true => Some(0),
        false => cluster["spec"]["instances"].as_i64(),
    };
    let ready = cluster["status"]["readyInstances"].as_i64();
    let images = [&cluster["status"]["image"], &cluster["spec"]["imageName"]];
    let image = images.into_iter().find_map(Value::as_str);
    let pods = observed.pods_of(CLUSTER_LABEL, cluster);
    component(
        cluster,
        (ready.unwrap_or_default(), instances),
        image,
        pods.as_slice(),
    )
}

fn broker(cluster: &Value, observed: &ObservedStack) -> ComponentSummary {
    let members = cluster["spec"]["replicas"].as_i64();
    let pods = observed.pods_of(NAME_LABEL, cluster);
    let is_true = |object: &Value, type_: &str| {
        let mut conditions = list(&object["status"]["conditions"]).iter();
        conditions.any(|condition| condition["type"] == type_ && condition["status"] == "True")
    };
    // It does not tell the number, and its pods may be hidden.
    let ready = match is_true(cluster, "AllReplicasReady") {
        true => members.unwrap_or(1),
        false => {
            let ready = pods.iter().filter(|pod| is_true(pod, "Ready"));
            i64::try_from(ready.count()).unwrap_or(i64::MAX)
        }
    };
    let image = cluster["spec"]["image"].as_str();
    component(cluster, (ready, members), image, pods.as_slice())
}

fn component(
    cluster: &Value,
    (ready, desired): (i64, Option<i64>),
    image: Option<&str>,
    pods: &[&Value],
) -> ComponentSummary {
    // Both operators fill in 1 for a number that is absent.
    let desired = desired.unwrap_or(1);
    ComponentSummary {
        name: text(&cluster["metadata"]["labels"][COMPONENT_LABEL]).to_owned(),
        ready,
        desired,
        // Neither tells how many servers have the last settings.
        updated: desired,
        version: image.map(tag).unwrap_or_default().to_owned(),
        images: image.into_iter().map(str::to_owned).collect(),
        containers: pods.iter().flat_map(|pod| pod_sentences(pod)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// Returns a pod whose container was restarted once.
    fn pod(name: &str, label: &str, cluster: &str, ready: &str) -> Value {
        json!({
            "kind": "Pod",
            "metadata": {"name": name, "labels": {label: cluster}},
            "status": {
                "conditions": [{"type": "Ready", "status": ready}],
                "containerStatuses": [{"name": "server", "restartCount": 1}],
            },
        })
    }

    fn labels(component: &str) -> Value {
        json!({"app.kubernetes.io/component": component})
    }

    #[test]
    fn stores_of_other_operators_are_counted_with_their_own_pods() {
        let observed = ObservedStack {
            objects: vec![
                json!({
                    "kind": "Cluster",
                    "metadata": {"name": "acme-pg", "labels": labels("postgres")},
                    "spec": {"instances": 3},
                    "status": {"readyInstances": 2, "image": "r.test/postgresql:18.6"},
                }),
                json!({
                    "kind": "RabbitmqCluster",
                    "metadata": {"name": "acme-mq", "labels": labels("rabbitmq")},
                    "spec": {"replicas": 3, "image": "rabbitmq:4.3"},
                    "status": {"conditions": [{"type": "AllReplicasReady", "status": "False"}]},
                }),
                pod("acme-pg-1", CLUSTER_LABEL, "acme-pg", "True"),
                pod("acme-mq-0", NAME_LABEL, "acme-mq", "True"),
                pod("acme-mq-1", NAME_LABEL, "acme-mq", "False"),
                pod("acme-app-0", NAME_LABEL, "shortener", "True"),
            ],
            ..ObservedStack::default()
        };
        let [database, broker]: [ComponentSummary; 2] = of(&observed).try_into().unwrap();
        assert_eq!(
            database,
            ComponentSummary {
                name: "postgres".to_owned(),
                ready: 2,
                desired: 3,
                updated: 3,
                version: "18.6".to_owned(),
                images: vec!["r.test/postgresql:18.6".to_owned()],
                containers: vec!["acme-pg-1, container server was restarted once".to_owned()],
            }
        );
        assert_eq!((broker.ready, broker.desired), (1, 3));
        assert_eq!(broker.containers.len(), 2);
    }

    #[test]
    fn a_store_that_is_stopped_lacks_no_server() {
        let annotations = json!({HIBERNATION: "on"});
        let observed = ObservedStack {
            objects: vec![json!({
                "kind": "Cluster", "metadata": {"annotations": annotations}, "spec": {"instances": 3},
            })],
            ..ObservedStack::default()
        };
        let stopped = &of(&observed)[0];
        assert_eq!((stopped.ready, stopped.desired), (0, 0));
    }
}
