//! Tests of stacks on a Gateway of the Gateway API, which others own and whose kinds a cluster may lack.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Secret, Service},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        gateway_api::{Gateway, HttpRoute, HttpRouteSpec, ListenersSpec, ReferenceGrant},
        prometheus::{PrometheusRule, ServiceMonitor},
    },
};

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Namespace of the Gateway.
const INFRA: &str = "infra";

fn spec() -> Value {
    json!({"gateway": {
        "provider": "GatewayAPI",
        "hosts": ["go.test"],
        "parentRefs": [{"name": "public", "namespace": INFRA}],
    }})
}

fn condition(type_: &str, generation: i64) -> Value {
    json!({
        "type": type_, "status": "True", "reason": type_, "message": "",
        "observedGeneration": generation, "lastTransitionTime": "2026-01-01T00:00:00Z",
    })
}

/// Creates the Gateway like its owner, and programs it like its controller.
fn create_gateway(world: &World) {
    let mut gateway = Gateway::new("public", ListenersSpec::default());
    gateway.metadata.namespace = Some(INFRA.to_owned());
    // Labels of a chart, which are no labels of a stack.
    let labels = json!({"app.kubernetes.io/instance": "edge", "app.kubernetes.io/name": "edge"});
    gateway.metadata.labels = serde_json::from_value(labels).unwrap();
    world.server.create(&gateway);
    world.server.edit::<Gateway>(INFRA, "public", |gateway| {
        gateway["status"] = json!({"conditions": [condition("Programmed", 1)]});
    });
}

/// Gives the app's Service an address like the API server.
fn assign_address(world: &World) {
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into();
        });
}

/// Reports every pod of the gateway as ready, like the controllers.
pub(super) fn run_gateway(world: &World) {
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-gateway", |object| {
            let replicas = object["spec"]["replicas"].clone();
            object["status"] = json!({
                "observedGeneration": object["metadata"]["generation"],
                "replicas": replicas, "updatedReplicas": replicas, "readyReplicas": replicas,
            });
        });
}

/// Accepts the route like the controller of the Gateway.
fn accept_route(world: &World) {
    world.server.edit::<HttpRoute>(NAMESPACE, "acme", |route| {
        let generation = route["metadata"]["generation"].as_i64().unwrap();
        let reference = route["spec"]["parentRefs"][0].clone();
        let conditions = ["Accepted", "ResolvedRefs"].map(|type_| condition(type_, generation));
        route["status"] = json!({"parents": [{
            "controllerName": "example.com/controller",
            "parentRef": reference,
            "conditions": conditions,
        }]});
    });
}

/// Returns a stack whose pods run, on a Gateway that does not exist yet.
async fn attached() -> World {
    let world = World::with_optional_kinds(spec()).await;
    assign_address(&world);
    world.settle().await;
    run_gateway(&world);
    world.settle().await;
    world
}

fn reason(world: &World) -> String {
    world.condition("acme", "GatewayReady").reason
}

#[tokio::test(start_paused = true)]
async fn a_stack_becomes_reachable_step_by_step_and_never_writes_in_between() {
    let world = attached().await;
    assert_eq!(reason(&world), "GatewayNotFound");
    world.server.forget_writes();
    create_gateway(&world);
    world.settle().await;
    assert_eq!(reason(&world), "RoutePending");
    accept_route(&world);
    world.settle().await;
    let ready = world.condition("acme", "GatewayReady");
    assert_eq!(
        (ready.status.as_str(), ready.reason.as_str()),
        ("True", "PodsReady")
    );
    assert_eq!(world.child_writes(), [] as [String; 0]);

    // The route keeps its last status, and nobody answers any more.
    world.server.delete::<Gateway>(INFRA, "public");
    world.settle().await;
    assert_eq!(reason(&world), "GatewayNotFound");
    create_gateway(&world);
    world.settle().await;
    assert_eq!(reason(&world), "PodsReady");

    // An edit of the spec is not in effect before the controller has seen it.
    world.edit_spec("acme", |spec| {
        spec["gateway"]["hosts"] = json!(["other.test"])
    });
    world.settle().await;
    run_gateway(&world);
    world.settle().await;
    assert_eq!(reason(&world), "RoutePending");
    accept_route(&world);
    world.settle().await;
    assert_eq!(reason(&world), "PodsReady");
}

#[tokio::test(start_paused = true)]
async fn a_stack_waits_for_the_kinds_of_the_gateway_api_and_misses_them_when_they_go() {
    let world = World::with_stack(spec()).await;
    assign_address(&world);
    world.settle().await;
    let missing = world.condition("acme", "GatewayReady");
    assert_eq!(missing.reason, "GatewayAPIMissing", "{}", missing.message);
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    assert_eq!(world.uid::<HttpRoute>("acme"), None);

    world.server.add_kind::<HttpRoute>();
    world.server.add_kind::<Gateway>();
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(reason(&world), "GatewayAPIMissing", "one kind is missing");
    world.server.add_kind::<ReferenceGrant>();
    world.pass(Duration::from_secs(120)).await;
    assert!(world.uid::<HttpRoute>("acme").is_some());
    assert_ne!(reason(&world), "GatewayAPIMissing");

    // The objects of a kind go with its definition.
    world
        .server
        .fail_kind::<HttpRoute>(Some(Fault::Refuse(404)));
    world.server.delete::<HttpRoute>(NAMESPACE, "acme");
    world.settle().await;
    assert_eq!(reason(&world), "GatewayAPIMissing");
    world.server.fail_kind::<HttpRoute>(None);
    world.pass(Duration::from_secs(360)).await;
    assert!(world.uid::<HttpRoute>("acme").is_some());
    assert_ne!(reason(&world), "GatewayAPIMissing");
}

#[tokio::test(start_paused = true)]
async fn of_a_gateway_in_a_namespace_that_is_not_watched_only_the_route_tells() {
    let server = FakeApiServer::default();
    server.add_optional_kinds();
    let world = World::start_in(Some(NAMESPACE), server);
    world.server.create(&stored_stack(spec()));
    world.settle().await;
    assign_address(&world);
    world.settle().await;
    run_gateway(&world);
    world.settle().await;
    assert_eq!(reason(&world), "RoutePending");
    accept_route(&world);
    world.settle().await;
    assert_eq!(reason(&world), "PodsReady");
    // In its own namespace, the operator knows that there is none.
    world.edit_spec("acme", |spec| {
        spec["gateway"]["parentRefs"] = json!([{"name": "public"}]);
    });
    world.settle().await;
    assert_eq!(reason(&world), "GatewayNotFound");
}

#[tokio::test(start_paused = true)]
async fn a_new_operator_misses_nothing_while_it_lists_the_kinds() {
    let world = attached().await;
    create_gateway(&world);
    accept_route(&world);
    world.settle().await;
    let before = world.stack("acme").status;
    assert_eq!(reason(&world), "PodsReady");
    world.server.forget_writes();
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.stack("acme").status, before);
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_gateway_api_keeps_its_monitoring_objects() {
    let server = FakeApiServer::default();
    server.add_kind::<ServiceMonitor>();
    server.add_kind::<PrometheusRule>();
    let world = World::start(server);
    let spec = json!({"monitoring": {"enabled": true}});
    world.server.create(&stored_stack(spec));
    world.settle().await;
    assert!(world.uid::<ServiceMonitor>("acme").is_some());
    assert!(world.uid::<PrometheusRule>("acme").is_some());
    assert_eq!(world.condition("acme", "MonitoringReady").reason, "Told");
}

#[tokio::test(start_paused = true)]
async fn a_route_of_somebody_else_is_never_touched_and_fails_the_stack() {
    let server = FakeApiServer::default();
    server.add_optional_kinds();
    let mut route = HttpRoute::new("acme", HttpRouteSpec::default());
    route.metadata.namespace = Some(NAMESPACE.to_owned());
    let theirs = server.create(&route);
    let world = World::start(server);
    world.server.create(&stored_stack(spec()));
    world.settle().await;
    assert_eq!(
        world.server.get::<HttpRoute>(NAMESPACE, "acme"),
        Some(theirs)
    );
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "NameTaken");
    assert!(
        degraded.message.contains("HTTPRoute/acme"),
        "{}",
        degraded.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_certificate_is_lent_to_the_gateway_and_taken_back_with_it() {
    let world = attached().await;
    assert_eq!(world.uid::<ReferenceGrant>("acme-tls"), None);
    world.edit_spec("acme", |spec| {
        spec["gateway"]["tls"] = json!({"secretName": "go-tls"});
    });
    world.settle().await;
    assert!(world.uid::<ReferenceGrant>("acme-tls").is_some());
    assert_eq!(reason(&world), "SecretNotFound");
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": "go-tls", "namespace": NAMESPACE}))
            .unwrap(),
        ..Secret::default()
    });
    create_gateway(&world);
    world.settle().await;
    run_gateway(&world);
    accept_route(&world);
    world.settle().await;
    assert_eq!(reason(&world), "CertificateNotUsed");
    world.server.edit::<Gateway>(INFRA, "public", |gateway| {
        let reference = json!({"name": "go-tls", "namespace": NAMESPACE});
        gateway["spec"]["listeners"] = json!([
            {"name": "https", "tls": {"certificateRefs": [reference]}},
        ]);
    });
    world.settle().await;
    assert_eq!(reason(&world), "PodsReady");

    world.edit_spec("acme", |spec| spec["gateway"]["tls"] = Value::Null);
    world.settle().await;
    assert_eq!(world.uid::<ReferenceGrant>("acme-tls"), None);
}

#[tokio::test(start_paused = true)]
async fn the_second_of_two_stacks_on_one_host_of_a_gateway_gets_its_route_when_the_first_is_gone() {
    let world = attached().await;
    let mut younger = stored_stack(spec());
    younger.metadata.name = Some("beta".to_owned());
    world.server.create(&younger);
    world.settle().await;
    let conflict = world.condition("beta", "GatewayReady");
    assert_eq!(conflict.reason, "HostConflict");
    assert!(
        conflict.message.contains("links/acme")
            && conflict.message.contains("Gateway infra/public"),
        "{}",
        conflict.message
    );
    assert_eq!(world.uid::<HttpRoute>("beta"), None);
    assert!(world.uid::<HttpRoute>("acme").is_some());
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.pass(Duration::from_secs(1)).await;
    assert!(world.uid::<HttpRoute>("beta").is_some());
}

#[tokio::test(start_paused = true)]
async fn another_provider_replaces_the_routes_of_the_one_before() {
    let world = attached().await;
    let routes = |world: &World| {
        let mut children = world.children();
        children
            .retain(|child| child.starts_with("ingresses/") || child.starts_with("httproutes/"));
        children
    };
    assert_eq!(routes(&world), ["httproutes/acme"]);
    for (provider, expected) in [
        (
            "IngressNginx",
            vec!["ingresses/acme-gateway", "ingresses/acme-gateway-api"],
        ),
        ("GatewayAPI", vec!["httproutes/acme"]),
        ("Standalone", vec![]),
        ("GatewayAPI", vec!["httproutes/acme"]),
    ] {
        world.edit_spec("acme", |spec| {
            spec["gateway"]["provider"] = provider.into();
            spec["gateway"]["parentRefs"] = match provider {
                "GatewayAPI" => json!([{"name": "public", "namespace": INFRA}]),
                _ => json!([]),
            };
        });
        world.settle().await;
        assert_eq!(routes(&world), expected, "{provider}");
    }
}
