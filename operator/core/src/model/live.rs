//! The live state of the children, for the status.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{
        apps::v1::{Deployment, DeploymentCondition, StatefulSet},
        batch::v1::CronJob,
        core::v1::{PersistentVolumeClaim, Pod},
        networking::v1::Ingress,
    },
    jiff::Timestamp,
};

use super::{
    cloud_native_pg::Cluster,
    entry_point::EntryPoint,
    failure::StepFailure,
    gateway_api::HttpRoute,
    measured::{EndToEndResult, Enforcement},
    metadata::Component,
    pooler::Pooler,
    queue_state::QueueState,
    rabbitmq_cluster::RabbitmqCluster,
    store_state::StoreFaults,
};

/// The live children whose state appears in the status.
#[derive(Clone, Debug, Default)]
pub struct Live {
    /// Time of the observation.
    pub at: Timestamp,
    /// The Deployment or StatefulSet of each component that has one.
    pub workloads: BTreeMap<Component, Workload>,
    /// The volume of each store that has one.
    pub claims: BTreeMap<Component, Arc<PersistentVolumeClaim>>,
    /// Ingresses of the public routes.
    pub ingresses: Vec<Arc<Ingress>>,
    /// True when an address of the Ingresses has been waited for long enough.
    pub address_overdue: bool,
    /// The Cluster of CloudNativePG, if the stack has one.
    pub cluster: Option<Arc<Cluster>>,
    /// The Pooler before it, if the stack has one.
    pub pooler: Option<Arc<Pooler>>,
    /// The RabbitmqCluster, if the stack has one.
    pub broker_cluster: Option<Arc<RabbitmqCluster>>,
    /// HTTPRoutes of the public routes, without those that the watch has not yet seen as they were written last.
    pub http_routes: Vec<Arc<HttpRoute>>,
    /// True when a kind of the Gateway API is gone from the cluster.
    pub gateway_kinds_gone: bool,
    /// Last observation of the queue's broker.
    pub queue: QueueState,
    /// Faults of the stores, as the stack's programs tell them.
    pub store_faults: StoreFaults,
    /// Objects that let connections from outside into the namespace; `None` until they are listed.
    pub entry_points: Option<Vec<EntryPoint>>,
    /// The outcome of connections that the NetworkPolicies forbid; `None` until some were tried.
    pub enforcement: Option<Enforcement>,
    /// The known end-to-end probe through the gateway; `None` until one was tried.
    pub end_to_end: Option<EndToEndResult>,
    /// Pods of every component.
    pub pods: Vec<Arc<Pod>>,
    /// The first failure to write or delete a child of each component.
    pub refused: BTreeMap<Component, StepFailure>,
    /// The same for components all of whose failures so far the operator tries again soon, which often succeeds.
    pub retried: BTreeMap<Component, StepFailure>,
    /// Error of writing the monitoring objects, if that failed.
    pub monitoring_refused: Option<String>,
    /// The CronJob of each component that has one.
    pub cron_jobs: BTreeMap<Component, Arc<CronJob>>,
}

impl Live {
    /// Returns true when a child of a component could not be written or deleted.
    pub fn failed(&self, component: Component) -> bool {
        self.refused.contains_key(&component) || self.retried.contains_key(&component)
    }
}

/// The state of a Deployment or a StatefulSet.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Workload {
    /// Number of desired pods.
    pub wanted: i32,
    /// Number of existing pods.
    pub existing: i32,
    /// Number of ready pods.
    pub ready: i32,
    /// Number of pods of the newest template.
    pub updated: i32,
    /// True when the controller has observed the last write.
    pub observed: bool,
    /// The controller's message if it cannot create pods.
    pub failure: Option<String>,
    /// True when the controller has given up waiting for the pods of the newest template.
    pub overdue: bool,
}

impl Workload {
    /// Returns true when the controller knows that pods are missing.
    pub fn lacks_pods(&self) -> bool {
        self.observed && self.existing < self.wanted
    }

    /// Returns the state of a Deployment. `last_write` is the generation that the operator's last write resulted in.
    pub fn of_deployment(live: &Deployment, last_write: i64) -> Self {
        let status = live.status.clone().unwrap_or_default();
        let conditions = || status.conditions.iter().flatten();
        let failure = conditions()
            .find(|condition| condition.type_ == "ReplicaFailure" && condition.status == "True");
        let overdue = |condition: &DeploymentCondition| {
            condition.reason.as_deref() == Some("ProgressDeadlineExceeded")
        };
        Self {
            wanted: live
                .spec
                .as_ref()
                .and_then(|spec| spec.replicas)
                .unwrap_or(1),
            existing: status.replicas.unwrap_or_default(),
            ready: status.ready_replicas.unwrap_or_default(),
            updated: status.updated_replicas.unwrap_or_default(),
            observed: status.observed_generation >= live.metadata.generation.max(Some(last_write)),
            failure: failure.and_then(|condition| condition.message.clone()),
            overdue: conditions().any(overdue),
        }
    }

    /// Returns the state of a StatefulSet. `last_write` is the generation that the operator's last write resulted in. Why its
    /// pods cannot be created stands in an Event and not in the object.
    pub fn of_stateful_set(live: &StatefulSet, last_write: i64) -> Self {
        let status = live.status.clone().unwrap_or_default();
        Self {
            wanted: live
                .spec
                .as_ref()
                .and_then(|spec| spec.replicas)
                .unwrap_or(1),
            existing: status.replicas,
            ready: status.ready_replicas.unwrap_or_default(),
            updated: status.updated_replicas.unwrap_or_default(),
            observed: status.observed_generation >= live.metadata.generation.max(Some(last_write)),
            failure: None,
            overdue: false,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_controller_that_has_seen_the_last_write_knows_that_pods_are_missing() {
        let lacking = Workload {
            wanted: 1,
            observed: true,
            ..Workload::default()
        };
        let table = [
            (lacking.clone(), true),
            (
                Workload {
                    observed: false,
                    ..lacking.clone()
                },
                false,
            ),
            (
                Workload {
                    existing: 1,
                    ..lacking
                },
                false,
            ),
            (Workload::default(), false),
        ];
        for (workload, lacks) in table {
            assert_eq!(workload.lacks_pods(), lacks, "{workload:?}");
        }
    }
}
