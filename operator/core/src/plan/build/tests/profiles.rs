//! Tests of the children that profiles, external stores and monitoring add or remove.

use super::*;
use crate::{api::Profile, testing::shared::combinations};

/// Returns the children that a profile adds to a stack with managed stores.
fn added(profile: Profile) -> Vec<&'static str> {
    match profile {
        Profile::Caching => vec![
            "ServiceAccount/acme-cache",
            "Secret/acme-cache",
            "ConfigMap/acme-cache",
            "NetworkPolicy/acme-cache",
            "Service/acme-cache",
            "StatefulSet/acme-cache",
        ],
        Profile::Queue => vec![
            "ServiceAccount/acme-rabbitmq",
            "ServiceAccount/acme-worker",
            "Secret/acme-rabbitmq",
            "ConfigMap/acme-rabbitmq",
            "PersistentVolumeClaim/acme-rabbitmq",
            "NetworkPolicy/acme-rabbitmq",
            "NetworkPolicy/acme-worker",
            "Service/acme-rabbitmq",
            "StatefulSet/acme-rabbitmq",
            "Deployment/acme-worker",
        ],
        Profile::Observability => vec![
            "ServiceAccount/acme-otel",
            "ConfigMap/acme-dashboards",
            "ConfigMap/acme-otel",
            "NetworkPolicy/acme-otel",
            "Service/acme-app-metrics",
            "Service/acme-otel",
            "Deployment/acme-otel",
        ],
        Profile::Vector => vec![
            "ServiceAccount/acme-qdrant",
            "Secret/acme-qdrant",
            "PersistentVolumeClaim/acme-qdrant",
            "NetworkPolicy/acme-qdrant",
            "Service/acme-qdrant",
            "StatefulSet/acme-qdrant",
        ],
    }
}

/// Returns the child that two profiles add only in combination.
fn added_together(chosen: &[Profile]) -> Option<&'static str> {
    let both = [Profile::Queue, Profile::Observability];
    both.iter()
        .all(|profile| chosen.contains(profile))
        .then_some("Service/acme-worker-metrics")
}

/// Returns the stack with a profile on.
fn with(stack: ValidatedStack, profile: Profile) -> ValidatedStack {
    match profile {
        Profile::Caching => stack.caching(),
        Profile::Queue => stack.queue(),
        Profile::Observability => stack.observability(),
        Profile::Vector => stack.vector(),
    }
}

#[test]
fn every_combination_of_profiles_has_exactly_the_children_of_its_parts() {
    for chosen in combinations() {
        let stack = chosen.iter().copied().fold(minimal_stack(), with);
        assert_eq!(stack.profiles(), chosen);
        let mut expected = MINIMAL.to_vec();
        expected.extend(chosen.iter().copied().flat_map(added));
        expected.extend(added_together(&chosen));
        expected.sort_unstable();
        let mut found = names(&stack);
        found.sort_unstable();
        assert_eq!(found, expected, "{chosen:?}");
    }
}

#[test]
fn a_profile_whose_store_is_external_adds_no_child() {
    assert_eq!(names(&minimal_stack().external_cache()), MINIMAL);
    assert_eq!(names(&minimal_stack().external_vector()), MINIMAL);
}

#[test]
fn a_queue_on_an_external_broker_adds_its_workers_only() {
    let mut found = names(&minimal_stack().external_queue());
    found.retain(|name| !MINIMAL.contains(&name.as_str()));
    assert_eq!(
        found,
        [
            "NetworkPolicy/acme-worker",
            "ServiceAccount/acme-worker",
            "Deployment/acme-worker",
        ]
    );
}

#[test]
fn the_stacks_own_backend_is_a_store_beside_the_collector() {
    let with_collector = beyond_minimal(&minimal_stack().observability());
    let mut found = beyond_minimal(&minimal_stack().telemetry());
    found.retain(|name| !with_collector.contains(name));
    assert_eq!(
        found,
        [
            "NetworkPolicy/acme-telemetry",
            "ServiceAccount/acme-telemetry",
            "Secret/acme-telemetry",
            "ConfigMap/acme-telemetry",
            "PersistentVolumeClaim/acme-telemetry",
            "Service/acme-telemetry",
            "StatefulSet/acme-telemetry",
        ]
    );
}

#[test]
fn an_external_collector_adds_what_others_find_the_metrics_by_only() {
    assert_eq!(
        beyond_minimal(&minimal_stack().external_collector()),
        ["ConfigMap/acme-dashboards", "Service/acme-app-metrics"]
    );
}

#[test]
fn a_cluster_with_the_prometheus_operator_is_told_what_to_read_of_a_stack_that_is_observed() {
    let stack = minimal_stack().observability();
    let without = names(&stack);
    let mut found = names(&stack.with_monitoring_kinds());
    found.retain(|name| !without.contains(name));
    assert_eq!(found, ["ServiceMonitor/acme", "PrometheusRule/acme"]);
    assert_eq!(names(&minimal_stack().with_monitoring_kinds()), MINIMAL);
    let told = minimal_stack()
        .told("release", "prometheus")
        .with_monitoring_kinds();
    assert_eq!(
        beyond_minimal(&told),
        [
            "ConfigMap/acme-dashboards",
            "Service/acme-app-metrics",
            "ServiceMonitor/acme",
            "PrometheusRule/acme"
        ]
    );
    // Unwanted objects are pruned, except where the cluster lacks their kinds.
    assert!(
        build(&minimal_stack().with_monitoring_kinds())
            .monitoring
            .is_some()
    );
    assert!(build(&minimal_stack()).monitoring.is_none());
}

#[test]
fn a_stack_with_an_external_database_has_no_store() {
    let children = names(&minimal_stack().external_database());
    assert_eq!(
        children,
        names_without(&[
            "ServiceAccount/acme-postgres",
            "Secret/acme-postgres",
            "PersistentVolumeClaim/acme-postgres",
            "NetworkPolicy/acme-postgres",
            "Service/acme-postgres",
            "StatefulSet/acme-postgres",
        ])
    );
}
