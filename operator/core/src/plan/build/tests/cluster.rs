//! A stack whose database CloudNativePG runs, and one whose broker RabbitMQ's operator runs.

use serde_json::{Value, json};

use super::*;

#[test]
fn a_database_of_cloudnativepg_is_a_cluster_and_a_policy() {
    let stack = minimal_stack().cloud_native_pg(json!({}));
    let found = names(&stack);
    let of_database = |name: &&String| name.contains("postgres") || name.contains("acme-pg");
    let found: Vec<&String> = found.iter().filter(of_database).collect();
    assert_eq!(found, ["NetworkPolicy/acme-pg", "Cluster/acme-pg"]);
}

#[test]
fn a_pooler_brings_a_budget_for_its_pods_if_there_are_some() {
    let of_pooler = |settings: Value| {
        let found = names(&minimal_stack().cloud_native_pg(settings));
        let of_pooler = found.iter().filter(|name| name.contains("pooler"));
        of_pooler.cloned().collect::<Vec<String>>()
    };
    assert_eq!(
        of_pooler(json!({"pooler": {}})),
        [
            "PodDisruptionBudget/acme-pg-pooler",
            "Pooler/acme-pg-pooler"
        ]
    );
    assert_eq!(
        of_pooler(json!({"pooler": {"instances": 1}})),
        ["Pooler/acme-pg-pooler"]
    );
    assert_eq!(of_pooler(json!({})), [""; 0]);
}

#[test]
fn a_pooler_that_is_not_asked_for_stays_while_a_program_may_use_it() {
    let mut stack = minimal_stack().cloud_native_pg(json!({}));
    assert!(!build(&stack).held.contains(&Component::Postgres));
    stack.pooler_in_use = true;
    let desired = build(&stack);
    assert!(desired.held.contains(&Component::Postgres));
    assert_eq!(desired.database.unwrap().poolers, []);
    let pooled = minimal_stack().cloud_native_pg(json!({"pooler": {}}));
    stack.pooler = pooled.pooler;
    assert!(!build(&stack).held.contains(&Component::Postgres));
}

#[test]
fn the_policy_and_the_cluster_do_not_wait_for_the_database() {
    let whole = names(&minimal_stack().cloud_native_pg(json!({})));
    let mut waiting = holding(minimal_stack(), &[Component::Postgres]);
    waiting.cluster = minimal_stack().cloud_native_pg(json!({})).cluster;
    waiting.database = None;
    let found = names(&waiting);
    for name in ["NetworkPolicy/acme-pg", "Cluster/acme-pg"] {
        assert!(whole.iter().any(|other| other == name), "{whole:?}");
        assert!(found.iter().any(|other| other == name), "{found:?}");
    }
}

const OF_BROKER: [&str; 3] = [
    "NetworkPolicy/acme-rabbitmq",
    "PodDisruptionBudget/acme-rabbitmq",
    "RabbitmqCluster/acme-mq",
];

#[test]
fn a_broker_of_several_members_is_a_rabbitmqcluster_a_policy_and_a_budget() {
    let found = names(&minimal_stack().rabbitmq_cluster(json!({})));
    let of_broker = |name: &&String| name.contains("rabbitmq") || name.contains("acme-mq");
    let found: Vec<&String> = found.iter().filter(of_broker).collect();
    assert_eq!(found, OF_BROKER);
}

#[test]
fn the_members_do_not_wait_for_the_queue_and_the_workers_do() {
    let whole = minimal_stack().rabbitmq_cluster(json!({}));
    let mut waiting = holding(minimal_stack(), &[Component::Rabbitmq, Component::Worker]);
    waiting.broker_cluster = whole.broker_cluster.clone();
    let found = names(&waiting);
    for name in OF_BROKER {
        assert!(found.iter().any(|other| other == name), "{found:?}");
    }
    let has_workers =
        |names: Vec<String>| names.iter().any(|name| name == "Deployment/acme-worker");
    assert!(!has_workers(found));
    assert!(has_workers(names(&whole)));
}

#[test]
fn a_single_member_has_no_budget_that_would_hold_up_its_node() {
    let found = names(&minimal_stack().rabbitmq_cluster(json!({"replicas": 1})));
    assert!(!found.iter().any(|name| name == OF_BROKER[1]), "{found:?}");
}

#[test]
fn the_data_of_members_goes_with_the_stack_and_not_with_the_profile() {
    let mut stack = minimal_stack();
    stack.delete_data = true;
    assert!(build(&stack).discarded.contains(&Component::Rabbitmq));
    stack.broker_cluster = minimal_stack().rabbitmq_cluster(json!({})).broker_cluster;
    assert!(!build(&stack).discarded.contains(&Component::Rabbitmq));
    let cluster = &build(&stack).broker.unwrap().rabbitmq_clusters[0];
    assert!(cluster.metadata.owner_references.is_some());
}
