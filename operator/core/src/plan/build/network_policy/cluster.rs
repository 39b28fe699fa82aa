//! The NetworkPolicy of the servers that CloudNativePG runs.

use k8s_openapi::{
    api::networking::v1::{NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyPeer},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{allow, clients, ip_port, policy, scrapers};
use crate::{
    model::{
        cloud_native_pg::{CLUSTER_LABEL, METRICS_PORT, PORT, STATUS_PORT, name},
        metadata::{Component, NAME_LABEL},
        stack::ValidatedStack,
    },
    plan::stores::DATABASE_CLIENTS,
};

/// Value of the name label on the pods of CloudNativePG's operator.
const OPERATOR: &str = "cloudnative-pg";

/// Returns the NetworkPolicy `<stack>-postgres` for the servers of a Cluster: the stack's programs, other servers,
/// CloudNativePG's operator, and scrapes. What a server connects to stays open: the API server, and places for backups.
pub(in crate::plan::build) fn cluster(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    stack.cluster.as_ref()?;
    let managers = [servers(stack), operator()];
    let databases = [clients(stack, &DATABASE_CLIENTS), managers.to_vec()].concat();
    let mut policy = policy(
        stack,
        Component::Postgres,
        vec![
            allow(databases, PORT),
            allow(managers.to_vec(), STATUS_PORT),
            allow(scrapers(stack), METRICS_PORT),
        ],
    );
    if let Some(spec) = &mut policy.spec {
        spec.pod_selector = servers(stack).pod_selector;
    }
    Some(policy)
}

/// Returns the rule for connections to the servers.
pub(super) fn to_servers(stack: &ValidatedStack) -> NetworkPolicyEgressRule {
    NetworkPolicyEgressRule {
        to: Some(vec![servers(stack)]),
        ports: Some(vec![ip_port("TCP", PORT)]),
    }
}

/// Returns the peer for everything that CloudNativePG runs for the Cluster.
fn servers(stack: &ValidatedStack) -> NetworkPolicyPeer {
    labelled(CLUSTER_LABEL, &name(&stack.identity.name))
}

/// Returns the peer for CloudNativePG's operator, in whatever namespace it runs.
fn operator() -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        namespace_selector: Some(LabelSelector::default()),
        ..labelled(NAME_LABEL, OPERATOR)
    }
}

fn labelled(key: &str, value: &str) -> NetworkPolicyPeer {
    NetworkPolicyPeer {
        pod_selector: Some(LabelSelector {
            match_labels: Some([(key.to_owned(), value.to_owned())].into()),
            ..LabelSelector::default()
        }),
        ..NetworkPolicyPeer::default()
    }
}
