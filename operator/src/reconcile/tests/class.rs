//! Tests of operators side by side, each with the stacks of one class.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Service,
    networking::v1::NetworkPolicy,
};
use serde_json::{Value, json};
use shortener_operator_core::api::{ShortenerDrill, ShortenerStack};

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::FakeApiServer,
    settings,
    shared::stored_stack,
    world::{NAMESPACE, World},
};

fn replicas(world: &World) -> Option<i32> {
    let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
    app.unwrap().spec.unwrap().replicas
}

#[tokio::test(start_paused = true)]
async fn a_stack_of_another_class_is_neither_touched_nor_counted() {
    for (operator, stack) in [("", "canary"), ("canary", "stable"), ("canary", "")] {
        let mut spec = json!({"profiles": ["queue"]});
        if !stack.is_empty() {
            spec["operatorClass"] = json!(stack);
        }
        let world = World::start_as(operator, FakeApiServer::default());
        world.server.create(&stored_stack(spec));
        world.settle().await;
        world.edit_spec("acme", |spec| spec["app"]["replicas"] = json!(5));
        world.pass(Duration::from_secs(900)).await;
        assert_eq!(world.server.writes().len(), 0, "{operator}: {stack}");
        let metrics = world.metrics();
        assert!(!metrics.contains("acme"), "{metrics}");
        assert!(!metrics.contains("reconciles_total{"), "{metrics}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_passes_to_another_class_is_left_alone_and_taken_up_as_it_is() {
    let stable = World::with_stack(json!({})).await;
    assert!(stable.metrics().contains("acme"));
    let server = stable.server.clone();
    stable.edit_spec("acme", |spec| spec["operatorClass"] = json!("canary"));
    stable.settle().await;
    server.forget_writes();
    stable.edit_spec("acme", |spec| spec["app"]["replicas"] = json!(5));
    server.delete::<Service>(NAMESPACE, "acme-postgres");
    stable.pass(Duration::from_secs(900)).await;
    assert_eq!(server.writes().len(), 0);
    assert!(!stable.metrics().contains("acme"));
    assert!(
        !stable
            .children()
            .contains(&"services/acme-postgres".to_owned())
    );

    let canary = World::start_as("canary", server.clone());
    canary.settle().await;
    assert_eq!(canary.children(), CHILDREN);
    assert_eq!(replicas(&canary), Some(5));
    assert_eq!(canary.creations(), 1, "only the Service was missing");

    canary.end().await;
    stable.edit_spec("acme", |spec| {
        spec["operatorClass"] = Value::Null;
        spec["app"]["replicas"] = json!(3);
    });
    stable.settle().await;
    assert_eq!(replicas(&stable), Some(3));
}

/// Returns what two operators write differently: the image of the cache, and the policy that admits the operator.
fn written(world: &World) -> (Value, Value) {
    let cache = world.server.get::<StatefulSet>(NAMESPACE, "acme-cache");
    let policy = world.server.get::<NetworkPolicy>(NAMESPACE, "acme-app");
    let template = serde_json::to_value(cache.unwrap().spec.unwrap().template).unwrap();
    let image = template["spec"]["containers"][0]["image"].clone();
    (image, serde_json::to_value(policy.unwrap().spec).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_comes_back_is_as_before_although_nothing_else_was_edited() {
    let stable = World::with_stack(json!({"profiles": ["caching"]})).await;
    let before = written(&stable);
    let server = stable.server.clone();
    stable.edit_spec("acme", |spec| spec["operatorClass"] = json!("canary"));
    stable.settle().await;

    let mut settings = settings();
    settings.operator_class = "canary".to_owned();
    settings.pod_namespace = "elsewhere".to_owned();
    settings.images.cache = "registry.test/cache:2".to_owned();
    let canary = World::start_set(settings, server);
    canary.settle().await;
    let (image, policy) = written(&canary);
    assert_eq!(image, "registry.test/cache:2");
    assert_ne!(policy, before.1);
    canary.end().await;

    stable.edit_spec("acme", |spec| spec["operatorClass"] = Value::Null);
    stable.settle().await;
    assert_eq!(written(&stable), before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_takes_up_the_stacks_of_the_class_alone() {
    let world = World::with_stack(json!({})).await;
    let mut other = stored_stack(json!({"operatorClass": "canary"}));
    other.metadata.name = Some("bolt".to_owned());
    world.server.create(&other);
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.children(), CHILDREN);
    assert!(!world.metrics().contains("bolt"));
}

#[tokio::test(start_paused = true)]
async fn the_host_of_a_stack_of_another_class_is_not_taken() {
    let world = World::start(FakeApiServer::default());
    world
        .server
        .create(&stored_stack(json!({"operatorClass": "canary"})));
    world.settle().await;
    let mut younger = stored_stack(json!({}));
    younger.metadata.name = Some("bolt".to_owned());
    younger.metadata.uid = Some("5f0c2d1e-0000-4000-8000-000000000002".to_owned());
    world.server.create(&younger);
    world.settle().await;
    let conflict = world.condition("bolt", "GatewayReady");
    assert_eq!(conflict.reason, "HostConflict", "{}", conflict.message);
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    let released = world.condition("bolt", "GatewayReady");
    assert_ne!(released.reason, "HostConflict", "{}", released.message);
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_does_not_parse_is_reported_by_the_operator_of_its_class() {
    let drill: ShortenerDrill = serde_json::from_value(json!({
        "apiVersion": "shortener.dev/v1alpha1", "kind": "ShortenerDrill",
        "metadata": {"name": "mine", "namespace": NAMESPACE},
        "spec": {"stackRef": {"name": "acme"}, "store": "Cache", "seconds": 60},
        "status": {"phase": "Complete", "verdict": "Held"},
    }))
    .unwrap();
    for (operator, writes) in [("", false), ("canary", true)] {
        let server = FakeApiServer::default();
        server.add_kind::<ShortenerDrill>();
        server.create(&drill);
        let world = World::start_as(operator, server);
        world
            .server
            .create(&stored_stack(json!({"operatorClass": "canary"})));
        world.edit_spec("acme", |spec| spec["app"]["replicas"] = json!("many"));
        world.settle().await;
        assert_eq!(!world.server.writes().is_empty(), writes, "{operator}");
        let metrics = world.metrics();
        assert_eq!(metrics.contains("acme"), writes, "{operator}");
        let of_drill = metrics.contains("shortener_stack_drill");
        assert_eq!(of_drill, writes, "{operator}");
    }
}
