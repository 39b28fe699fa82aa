//! The state of a move of the links from a managed database to a Cluster of CloudNativePG, as the operator reads it before
//! it decides.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, StatefulSet};

use super::ClaimFact;
use crate::model::{cloud_native_pg::Cluster, live::Workload, pod_uses};

/// Setting with which a server takes no writes.
pub const READ_ONLY: &str = "default_transaction_read_only=on";
/// Name of the container of the server.
pub const SERVER: &str = "postgres";
/// Environment variable of the comparison with the uid of the Cluster that it compares.
pub const CLUSTER_UID: &str = "CLUSTER_UID";

/// The objects of a move of the links. Without a Cluster in the spec, only the first one is read.
#[derive(Clone, Debug, Default)]
pub struct MoveFacts {
    /// The StatefulSet of the managed database, if there is one that belongs to the stack.
    pub server: Option<Arc<StatefulSet>>,
    /// The user name in its Secret, if that exists.
    pub username: Option<String>,
    /// Its volume claim, if that exists. Without a server it belongs to the stack.
    pub claim: Option<ClaimFact>,
    /// The Cluster of the name, if there is one. It may belong to others.
    pub cluster: Option<Arc<Cluster>>,
    /// The comparison of both databases, if there is one that belongs to the stack.
    pub comparison: Option<Arc<Deployment>>,
}

impl MoveFacts {
    /// Returns true when the comparison has found the same in both databases.
    pub fn is_compared(&self) -> bool {
        let (Some(comparison), Some(cluster)) = (&self.comparison, &self.cluster) else {
            return false;
        };
        let uid = cluster.metadata.uid.as_deref();
        let spec = comparison.spec.as_ref();
        let mut variables = spec
            .iter()
            .flat_map(|spec| pod_uses::variables(&spec.template));
        let of = variables.find(|variable| variable.name == CLUSTER_UID);
        let of = of.and_then(|variable| variable.value.as_deref());
        let workload = Workload::of_deployment(comparison, 0);
        uid.is_some()
            && of == uid
            && workload.observed
            && workload.ready > 0
            && workload.updated > 0
    }
}

/// Returns true when the server of a StatefulSet is to take no writes.
pub fn is_frozen(server: &StatefulSet) -> bool {
    let pod = server
        .spec
        .as_ref()
        .and_then(|spec| spec.template.spec.as_ref());
    let mut containers = pod.into_iter().flat_map(|pod| &pod.containers);
    let server = containers.find(|container| container.name == SERVER);
    let mut arguments = server
        .iter()
        .flat_map(|server| server.args.iter().flatten());
    arguments.any(|argument| argument == READ_ONLY)
}

/// Returns true when a StatefulSet that is to have no pod has none.
pub fn is_stopped(server: &StatefulSet) -> bool {
    let workload = Workload::of_stateful_set(server, 0);
    workload.observed && workload.wanted == 0 && workload.existing == 0
}
