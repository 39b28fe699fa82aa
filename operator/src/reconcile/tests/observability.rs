//! Tests of the profile `observability`, switched on and off on a live stack, in clusters with and without the kinds
//! of the Prometheus operator.

use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
};
use serde_json::{Value, json};
use shortener_operator_core::model::{
    metadata::USABLE_BY_STACKS,
    prometheus::{PrometheusRule, ServiceMonitor},
};

use super::{drift::recreates, with};
use crate::testing::world::{NAMESPACE, World};

/// Children that the profile adds.
const COLLECTOR: [&str; 7] = [
    "configmaps/acme-dashboards",
    "configmaps/acme-otel",
    "deployments/acme-otel",
    "networkpolicies/acme-otel",
    "serviceaccounts/acme-otel",
    "services/acme-app-metrics",
    "services/acme-otel",
];
/// Children that the stack's own backend adds and that are deleted with it.
const BACKEND: [&str; 5] = [
    "configmaps/acme-telemetry",
    "networkpolicies/acme-telemetry",
    "serviceaccounts/acme-telemetry",
    "services/acme-telemetry",
    "statefulsets/acme-telemetry",
];
/// Children that remain after the backend is removed.
const DATA: [&str; 2] = [
    "persistentvolumeclaims/acme-telemetry",
    "secrets/acme-telemetry",
];
/// Monitoring objects for a Prometheus operator.
const MONITORING: [&str; 2] = ["prometheusrules/acme", "servicemonitors/acme"];

fn observed() -> Value {
    json!({"profiles": ["observability"]})
}

fn with_own_backend() -> Value {
    json!({"profiles": ["observability"], "observability": {"backend": {"managed": {}}}})
}

fn switch_off(world: &World) {
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
}

fn env(world: &World, deployment: &str) -> Vec<(String, String)> {
    let found = world.server.get::<Deployment>(NAMESPACE, deployment);
    let pod = found.unwrap().spec.unwrap().template.spec.unwrap();
    let env = pod.containers.into_iter().next().unwrap().env;
    env.unwrap_or_default()
        .into_iter()
        .map(|variable| (variable.name, variable.value.unwrap_or_default()))
        .collect()
}

fn endpoint(world: &World, deployment: &str) -> Option<String> {
    let mut env = env(world, deployment).into_iter();
    env.find(|(name, _)| name == "OTEL_EXPORTER_OTLP_ENDPOINT")
        .map(|(_, value)| value)
}

#[tokio::test(start_paused = true)]
async fn switching_observability_on_adds_the_collector_and_tells_the_app() {
    let world = World::with_stack(json!({})).await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["observability"]));
    world.settle().await;
    assert_eq!(world.children(), with(&[&COLLECTOR]));
    let status = world.stack("acme").status.unwrap();
    assert_eq!(status.profiles, ["observability"]);
    assert_eq!(world.condition("acme", "TelemetryReady").reason, "Pending");
    assert_eq!(
        endpoint(&world, "acme-app").as_deref(),
        Some("http://acme-otel:4317")
    );
}

#[tokio::test(start_paused = true)]
async fn workers_are_told_of_the_collector_and_found_by_those_who_scrape() {
    let world = World::with_stack(json!({"profiles": ["queue", "observability"]})).await;
    assert_eq!(
        endpoint(&world, "acme-worker"),
        endpoint(&world, "acme-app")
    );
    assert!(
        world
            .children()
            .contains(&"services/acme-worker-metrics".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn switching_observability_off_leaves_the_data_of_its_backend_and_nothing_else() {
    let world = World::with_stack(with_own_backend()).await;
    assert_eq!(world.children(), with(&[&COLLECTOR, &BACKEND, &DATA]));
    let volume = world.uid::<PersistentVolumeClaim>("acme-telemetry");
    switch_off(&world);
    world.settle().await;
    assert_eq!(world.children(), with(&[&DATA]));
    assert_eq!(endpoint(&world, "acme-app"), None);
    let conditions = world.stack("acme").status.unwrap().conditions;
    assert!(
        conditions
            .iter()
            .all(|found| found.type_ != "TelemetryReady")
    );
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["observability"]));
    world.settle().await;
    assert_eq!(world.uid::<PersistentVolumeClaim>("acme-telemetry"), volume);
}

#[tokio::test(start_paused = true)]
async fn switching_observability_off_takes_the_data_of_a_stack_that_keeps_none() {
    let mut spec = with_own_backend();
    spec["deletionPolicy"] = json!("Delete");
    let world = World::with_stack(spec).await;
    switch_off(&world);
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_operator_leaves_an_observed_stack_alone() {
    let world = World::with_optional_kinds(with_own_backend()).await;
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn each_child_of_the_collector_that_is_deleted_is_put_back_alone() {
    let world = World::with_optional_kinds(with_own_backend()).await;
    recreates::<ServiceAccount>(&world, "acme-otel").await;
    recreates::<ConfigMap>(&world, "acme-otel").await;
    recreates::<ConfigMap>(&world, "acme-dashboards").await;
    recreates::<NetworkPolicy>(&world, "acme-otel").await;
    recreates::<Service>(&world, "acme-otel").await;
    recreates::<Service>(&world, "acme-app-metrics").await;
    recreates::<Deployment>(&world, "acme-otel").await;
    recreates::<StatefulSet>(&world, "acme-telemetry").await;
    recreates::<ServiceMonitor>(&world, "acme").await;
    recreates::<PrometheusRule>(&world, "acme").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_password_of_the_backend_is_never_minted_anew_while_its_volume_exists() {
    let world = World::with_stack(with_own_backend()).await;
    world.server.delete::<Secret>(NAMESPACE, "acme-telemetry");
    world.settle().await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "CredentialsMissing");
    assert_eq!(world.uid::<Secret>("acme-telemetry"), None);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_password_of_the_backend_restarts_the_backend_only() {
    let world = World::with_stack(with_own_backend()).await;
    world.server.forget_writes();
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-telemetry", |secret| {
            secret["data"]["password"] = "bmV3".into();
        });
    world.settle().await;
    let writes = world.child_writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(
        writes[0].ends_with("statefulsets/acme-telemetry"),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn the_headers_of_a_backend_are_waited_for_and_followed_and_never_copied() {
    let world = World::with_stack(json!({
        "profiles": ["observability"],
        "observability": {"backend": {"external": {
            "endpoint": "https://otlp.test:4317", "headersSecretRef": {"name": "headers"},
        }}},
    }))
    .await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "SecretNotFound");
    assert!(
        degraded.message.contains("headersSecretRef"),
        "{}",
        degraded.message
    );
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({
            "name": "headers", "namespace": NAMESPACE, "labels": {USABLE_BY_STACKS: "true"},
        }))
        .unwrap(),
        data: Some([("authorization".to_owned(), ByteString(b"s3cret".to_vec()))].into()),
        ..Secret::default()
    });
    world.settle().await;
    assert_eq!(world.children(), with(&[&COLLECTOR, &["secrets/headers"]]));
    let config = world.server.get::<ConfigMap>(NAMESPACE, "acme-otel");
    let config = config.unwrap().data.unwrap()["collector.yaml"].clone();
    assert!(
        config.contains("${env:BACKEND_HEADER_0}") && !config.contains("s3cret"),
        "{config}"
    );
    let before = (
        world.checksum::<Deployment>("acme-otel"),
        world.checksum::<Deployment>("acme-app"),
    );
    world.server.edit::<Secret>(NAMESPACE, "headers", |secret| {
        secret["data"]["authorization"] = "bmV3".into();
    });
    world.settle().await;
    assert_ne!(world.checksum::<Deployment>("acme-otel"), before.0);
    assert_eq!(world.checksum::<Deployment>("acme-app"), before.1);
}

#[tokio::test(start_paused = true)]
async fn an_external_collector_is_used_instead_of_one_of_the_stacks_own() {
    let world = World::with_stack(observed()).await;
    world.edit_spec("acme", |spec| {
        spec["observability"] =
            json!({"collector": {"external": {"endpoint": "http://otel.test:4317"}}});
    });
    world.settle().await;
    assert_eq!(
        world.children(),
        with(&[&["configmaps/acme-dashboards", "services/acme-app-metrics"]])
    );
    assert_eq!(
        endpoint(&world, "acme-app").as_deref(),
        Some("http://otel.test:4317")
    );
    assert_eq!(world.condition("acme", "TelemetryReady").reason, "External");
}

#[tokio::test(start_paused = true)]
async fn kinds_that_are_added_to_the_cluster_are_used_without_a_restart() {
    let world = World::with_stack(observed()).await;
    assert_eq!(world.children(), with(&[&COLLECTOR]));
    world.server.add_kind::<ServiceMonitor>();
    world.pass(Duration::from_secs(120)).await;
    // One of the two kinds is not enough.
    assert_eq!(world.children(), with(&[&COLLECTOR]));
    world.server.add_kind::<PrometheusRule>();
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(world.children(), with(&[&COLLECTOR, &MONITORING]));
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
    switch_off(&world);
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_not_observed_gets_no_object_of_the_prometheus_operator() {
    let world = World::with_optional_kinds(json!({})).await;
    assert_eq!(world.children(), with(&[]));
}
