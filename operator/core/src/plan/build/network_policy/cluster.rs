//! The NetworkPolicies of the servers that other operators run.

use k8s_openapi::{
    api::networking::v1::{
        NetworkPolicy, NetworkPolicyEgressRule, NetworkPolicyIngressRule, NetworkPolicyPeer,
        NetworkPolicyPort,
    },
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};

use super::{allow, clients, ip_port, names, pods, policy, scrapers, to_pods, with_egress};
use crate::{
    model::{
        cloud_native_pg::{
            CLUSTER_LABEL, IMPORT, JOB_LABEL, METRICS_PORT, PORT, STATUS_PORT, name,
        },
        metadata::{Component, NAME_LABEL},
        pooler,
        rabbitmq_cluster::{self, MEMBER_PORTS, TOOL_PORTS},
        stack::ValidatedStack,
        topology::{MANAGEMENT_PORT, METRICS_PORT as BROKER_METRICS_PORT},
    },
    plan::stores::{DATABASE_CLIENTS, JOB_CLIENTS, rabbitmq},
};

/// Value of the name label on the pods of CloudNativePG's operator.
const OPERATOR: &str = "cloudnative-pg";

/// Returns the NetworkPolicy `<stack>-pg` for the servers of a Cluster and the pods of its pooler, which have the label of
/// the Cluster too and the same port: the stack's programs, each other, CloudNativePG's operator, and scrapes. What they
/// connect to stays open: the API server, and places for backups.
pub(in crate::plan::build) fn cluster(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    stack.cluster.as_ref()?;
    let managers = [servers(stack), operator()];
    let databases = [clients(stack, &DATABASE_CLIENTS), managers.to_vec()].concat();
    let mut rules = vec![
        allow(databases, PORT),
        allow(managers.to_vec(), STATUS_PORT),
        allow(scrapers(stack), METRICS_PORT),
    ];
    let pooler = stack.pooler.as_ref();
    rules.extend(pooler.map(|_| allow(scrapers(stack), pooler::METRICS_PORT)));
    let mut policy = policy(stack, Component::Postgres, rules);
    // A managed database whose links move has the other name.
    policy.metadata.name = Some(name(&stack.identity.name));
    if let Some(spec) = &mut policy.spec {
        spec.pod_selector = servers(stack).pod_selector;
    }
    Some(policy)
}

/// Returns the NetworkPolicies while links move: `<stack>-postgres` lets the import read the managed database, and
/// `<stack>-move` lets the comparison read both databases, and nothing else.
pub(in crate::plan::build) fn database_move(stack: &ValidatedStack) -> Vec<NetworkPolicy> {
    if stack.database_move.is_none() {
        return Vec::new();
    }
    let programs = DATABASE_CLIENTS.map(|component| pods(stack, component));
    let mut import = servers(stack);
    if let Some(selector) = &mut import.pod_selector {
        let labels = selector.match_labels.get_or_insert_default();
        labels.insert(JOB_LABEL.to_owned(), IMPORT.to_owned());
    }
    let readers = programs.into_iter().chain([import]).collect();
    let managed = policy(stack, Component::Postgres, vec![allow(readers, PORT)]);
    let compare = policy(stack, Component::Move, Vec::new());
    let managed_port = to_pods(stack, Component::Postgres, PORT);
    vec![
        with_egress(managed, Vec::new()),
        with_egress(compare, vec![names(), managed_port, to_servers(stack)]),
    ]
}

/// Returns the NetworkPolicy `<stack>-rabbitmq` for the members of a broker: the stack's programs, the management API for the
/// operator, other members, and scrapes. RabbitMQ's operator reaches them through the API server. What a member connects to
/// stays open: names, other members and the API server.
pub(in crate::plan::build) fn broker_cluster(stack: &ValidatedStack) -> Option<NetworkPolicy> {
    stack.broker_cluster.as_ref()?;
    let members = members_of(stack);
    let rules = vec![
        allow(clients(stack, &JOB_CLIENTS), rabbitmq::PORT),
        allow(vec![stack.operator.clone()], MANAGEMENT_PORT.into()),
        allow(scrapers(stack), BROKER_METRICS_PORT.into()),
        between(&members),
    ];
    let mut policy = policy(stack, Component::Rabbitmq, rules);
    if let Some(spec) = &mut policy.spec {
        spec.pod_selector = members.pod_selector;
    }
    Some(policy)
}

/// Returns the rule for connections between members.
fn between(members: &NetworkPolicyPeer) -> NetworkPolicyIngressRule {
    let [first, last] = TOOL_PORTS;
    let tools = NetworkPolicyPort {
        end_port: Some(last),
        ..ip_port("TCP", first)
    };
    let ports = MEMBER_PORTS.map(|port| ip_port("TCP", port)).into_iter();
    NetworkPolicyIngressRule {
        from: Some(vec![members.clone()]),
        ports: Some(ports.chain([tools]).collect()),
    }
}

/// Returns the peer for the members of a stack's broker.
pub(in crate::plan::build) fn members_of(stack: &ValidatedStack) -> NetworkPolicyPeer {
    labelled(NAME_LABEL, &rabbitmq_cluster::name(&stack.identity.name))
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

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn servers_and_the_pooler_are_reached_by_the_programs_cloudnativepg_scrapers_and_each_other() {
        let stack = minimal_stack().cloud_native_pg(json!({"pooler": {}}));
        golden("network-policy-cluster", &cluster(&stack).unwrap());
        let ports = |stack: &ValidatedStack| {
            let spec = cluster(stack).unwrap().spec.unwrap();
            spec.ingress.unwrap().len()
        };
        let plain = minimal_stack().cloud_native_pg(json!({}));
        assert_eq!((ports(&plain), ports(&stack)), (3, 4));
    }

    #[test]
    fn members_are_reached_by_the_programs_the_operator_scrapers_and_each_other() {
        let stack = minimal_stack().rabbitmq_cluster(json!({}));
        let policy = broker_cluster(&stack).unwrap();
        golden("network-policy-rabbitmq-cluster", &policy);
        assert_eq!(broker_cluster(&minimal_stack().queue()), None);
    }
}
