//! Tests of a Prometheus operator that refuses monitoring objects: nothing of the stack depends on them.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    networking::v1::Ingress,
};
use kube::Resource;
use serde_json::json;
use shortener_operator_core::model::prometheus::{
    PrometheusRule, PrometheusRuleSpec, ServiceMonitor,
};

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Returns a stack with an external collector in a cluster with the kinds of the Prometheus operator.
async fn observed(server: FakeApiServer) -> World {
    server.add_optional_kinds();
    let world = World::start(server);
    world.server.create(&stored_stack(json!({
        "profiles": ["observability"],
        "observability": {"collector": {"external": {"endpoint": "http://otel.test:4317"}}},
    })));
    world.settle().await;
    run_every_pod(&world);
    world.settle().await;
    world
}

/// Sets the status of the workloads as the controllers do when every pod runs the newest template.
fn run_every_pod(world: &World) {
    fn run<K: Resource<DynamicType = ()>>(world: &World, name: &str) {
        world.server.edit::<K>(NAMESPACE, name, |object| {
            let replicas = object["spec"]["replicas"].clone();
            object["status"] = json!({
                "observedGeneration": object["metadata"]["generation"],
                "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
            });
        });
    }
    run::<StatefulSet>(world, "acme-postgres");
    run::<Deployment>(world, "acme-app");
    run::<Deployment>(world, "acme-gateway");
    for ingress in world.children() {
        if let Some(name) = ingress.strip_prefix("ingresses/") {
            world.server.edit::<Ingress>(NAMESPACE, name, |ingress| {
                ingress["status"] = json!({"loadBalancer": {"ingress": [{"ip": "192.0.2.1"}]}});
            });
        }
    }
}

/// Returns the status of `Ready`, and the reason and the message of `TelemetryReady`, which must be true.
fn told(world: &World) -> (String, String, String) {
    let telemetry = world.condition("acme", "TelemetryReady");
    assert_eq!(telemetry.status, "True", "{telemetry:?}");
    let ready = world.condition("acme", "Ready").status;
    (ready, telemetry.reason, telemetry.message)
}

fn assert_refused(world: &World, cause: &str) {
    let (ready, reason, message) = told(world);
    assert_eq!(
        (ready.as_str(), reason.as_str()),
        ("True", "MonitoringRefused")
    );
    assert!(
        message.contains("PrometheusRule/acme") && message.contains(cause),
        "{message}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    // The object of the other kind is written all the same.
    assert!(world.uid::<ServiceMonitor>("acme").is_some());
}

async fn assert_repaired(world: &World) {
    // The next retry succeeds, after at most one more that still hangs.
    world.pass(Duration::from_secs(90)).await;
    let (ready, reason, _) = told(world);
    assert_eq!((ready.as_str(), reason.as_str()), ("True", "External"));
    assert!(world.uid::<PrometheusRule>("acme").is_some());
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_refused_rule_leaves_the_stack_ready_and_is_told_and_repaired() {
    for (fault, cause) in [
        (Fault::Refuse(500), "this failure was asked for"),
        (Fault::Refuse(403), "this failure was asked for"),
        (Fault::Hang, "did not answer in time"),
    ] {
        let server = FakeApiServer::default();
        server.fail_kind::<PrometheusRule>(Some(fault));
        let world = observed(server).await;
        assert_refused(&world, cause);
        let events = world.events();
        let warned = events
            .iter()
            .any(|event| event.type_.as_deref() == Some("Warning"));
        assert!(warned, "{fault:?}: {events:?}");
        world.server.fail_kind::<PrometheusRule>(None);
        assert_repaired(&world).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_rule_of_somebody_else_stays_theirs_and_the_stack_ready() {
    let server = FakeApiServer::default();
    let mut rule = PrometheusRule::new("acme", PrometheusRuleSpec { groups: Vec::new() });
    rule.metadata.namespace = Some(NAMESPACE.to_owned());
    let theirs = server.create(&rule);
    let world = observed(server).await;
    assert_refused(&world, "does not belong to this stack");
    assert_eq!(
        world.server.get::<PrometheusRule>(NAMESPACE, "acme"),
        Some(theirs)
    );
    world.server.delete::<PrometheusRule>(NAMESPACE, "acme");
    assert_repaired(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_switched_off_does_not_wait_for_a_prometheus_operator() {
    let world = observed(FakeApiServer::default()).await;
    world
        .server
        .fail_kind::<PrometheusRule>(Some(Fault::Refuse(500)));
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    run_every_pod(&world);
    world.settle().await;
    assert_eq!(world.condition("acme", "Ready").status, "True");
    assert!(world.uid::<PrometheusRule>("acme").is_some());
    world.server.fail_kind::<PrometheusRule>(None);
    world.pass(Duration::from_secs(75)).await;
    assert_eq!(world.uid::<PrometheusRule>("acme"), None);
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_stopped_is_exported_as_neither_ready_nor_away() {
    let world = World::with_stack(json!({})).await;
    let series = "shortener_operator_stack_ready{name=\"acme\",namespace=\"links\"}";
    for stopped in [false, true, false] {
        world.edit_spec("acme", |spec| spec["stopped"] = stopped.into());
        world.settle().await;
        let page = world.metrics();
        assert_eq!(page.contains(series), !stopped, "{page}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_without_profiles_is_watched_when_it_asks_for_it_and_no_longer() {
    let world = World::with_optional_kinds(json!({
        "monitoring": {"enabled": true, "labels": {"release": "prometheus"}},
    }))
    .await;
    let monitor = world
        .server
        .get::<ServiceMonitor>(NAMESPACE, "acme")
        .unwrap();
    assert_eq!(monitor.metadata.labels.unwrap()["release"], "prometheus");
    assert_eq!(world.condition("acme", "MonitoringReady").reason, "Told");
    let told = [
        "configmaps/acme-dashboards",
        "prometheusrules/acme",
        "servicemonitors/acme",
        "services/acme-app-metrics",
    ];
    let found = |world: &World| {
        let mut children = world.children();
        children.retain(|child| told.contains(&child.as_str()));
        children
    };
    assert_eq!(found(&world).len(), told.len());
    world.edit_spec("acme", |spec| {
        spec["monitoring"] = json!({"enabled": false})
    });
    world.settle().await;
    assert_eq!(found(&world), [] as [String; 0]);
    let status = world.stack("acme").status.unwrap();
    let types = status
        .conditions
        .iter()
        .map(|condition| condition.type_.as_str());
    assert!(!types.collect::<Vec<_>>().contains(&"MonitoringReady"));
}
