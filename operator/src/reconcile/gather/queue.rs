//! Facts about the queue: its objects, its publishers and its known state.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{Pod, Service},
};
use kube::ResourceExt;
use shortener_operator_core::{
    api::{Profile, ShortenerStack},
    model::{
        facts::{BrokerFact, ClusterFact, QueueFacts, QueueParts},
        kinds::Deletion,
        metadata::{COMPONENT_LABEL, Component, StackIdentity},
    },
};

use super::broker_cluster;
use crate::{kubernetes::inventory::Child, reconcile::context::Scope};

/// Beginning of the environment variables of the app that hold the address of the queue.
const QUEUE: &str = "QUEUE_";

/// Reads the facts about the queue. While its profile is on, nothing depends on its objects.
pub(super) fn facts(scope: &Scope, stack: &ShortenerStack, identity: &StackIdentity) -> QueueFacts {
    let record = scope.context.queues.record(&identity.key());
    let workers = workers(scope, identity);
    if stack.spec.profiles.contains(&Profile::Queue) {
        return QueueFacts {
            workers,
            record,
            ..QueueFacts::default()
        };
    }
    let has_workers = has::<Deployment>(scope, identity, Component::Worker);
    let parts = QueueParts {
        workers: has_workers,
        broker: has::<StatefulSet>(scope, identity, Component::Rabbitmq)
            || (stack.spec.queue.rabbitmq_cluster.is_some()
                && has_members(scope, identity).unwrap_or(has_workers)),
        service: has::<Service>(scope, identity, Component::Rabbitmq),
    };
    let facts = QueueFacts {
        parts,
        closed: false,
        workers,
        record,
    };
    QueueFacts {
        closed: facts.may_hold_jobs() && closed(scope, identity),
        ..facts
    }
}

/// Returns the number of workers that their Deployment asks for, if it exists.
fn workers(scope: &Scope, identity: &StackIdentity) -> Option<i32> {
    let live = scope.child::<Deployment>(identity, Component::Worker)?;
    live.spec.as_ref()?.replicas
}

fn has<K: Child>(scope: &Scope, identity: &StackIdentity, component: Component) -> bool {
    let own = scope.own_child::<K>(identity, component, Deletion::Pruned);
    own.is_some()
}

/// Returns true when the stack's RabbitmqCluster has members, or is to have some; `None` while the kind is not listed, as
/// at the start of an operator. Then only the workers tell that there may be jobs.
fn has_members(scope: &Scope, identity: &StackIdentity) -> Option<bool> {
    let BrokerFact { state, live } = broker_cluster(scope, identity);
    let is_known = state != ClusterFact::Unserved;
    is_known.then(|| live.is_some_and(|broker| broker.members > 0))
}

/// Returns true when every pod of the app that could publish is gone: the pods of the old template, and the
/// terminating pods that finish their last requests.
fn closed(scope: &Scope, identity: &StackIdentity) -> bool {
    let app = scope.child::<Deployment>(identity, Component::App);
    let mut pods = scope
        .inventory
        .of_stack::<Pod>(&identity.namespace, &identity.name)
        .into_iter();
    let ending = pods.any(|pod| {
        pod.metadata.deletion_timestamp.is_some()
            && pod.labels().get(COMPONENT_LABEL).map(String::as_str)
                == Some(Component::App.as_str())
    });
    !ending && app.is_none_or(|app| rolled_out_without_queue(&app))
}

fn rolled_out_without_queue(app: &Deployment) -> bool {
    let Some(spec) = &app.spec else { return false };
    let pod = spec.template.spec.as_ref();
    let mut env = pod
        .into_iter()
        .flat_map(|pod| &pod.containers)
        .flat_map(|container| container.env.iter().flatten());
    let status = app.status.clone().unwrap_or_default();
    let wanted = spec.replicas.unwrap_or(1);
    !env.any(|variable| variable.name.starts_with(QUEUE))
        && status.observed_generation >= app.metadata.generation
        && status.replicas.unwrap_or_default() == status.updated_replicas.unwrap_or_default()
        && status.updated_replicas.unwrap_or_default() >= wanted
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn app(env: Value, status: Value) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"generation": 2},
            "spec": {
                "replicas": 2, "selector": {},
                "template": {"spec": {"containers": [{"name": "app", "env": env}]}},
            },
            "status": status,
        }))
        .unwrap()
    }

    #[test]
    fn nobody_publishes_when_every_pod_runs_the_template_without_the_queue() {
        let settled = json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2});
        let table = [
            (json!([]), settled.clone(), true),
            (
                json!([{"name": "QUEUE_URL", "value": "amqp://"}]),
                settled,
                false,
            ),
            (
                json!([{"name": "QUEUE_HOST", "value": "acme-mq"}]),
                json!({"observedGeneration": 2, "replicas": 2, "updatedReplicas": 2}),
                false,
            ),
            (
                json!([]),
                json!({"observedGeneration": 1, "replicas": 2, "updatedReplicas": 2}),
                false,
            ),
            (
                json!([]),
                json!({"observedGeneration": 2, "replicas": 3, "updatedReplicas": 2}),
                false,
            ),
            (
                json!([]),
                json!({"observedGeneration": 2, "replicas": 1, "updatedReplicas": 1}),
                false,
            ),
        ];
        for (env, status, expected) in table {
            let app = app(env.clone(), status.clone());
            assert_eq!(rolled_out_without_queue(&app), expected, "{env} {status}");
        }
    }
}
