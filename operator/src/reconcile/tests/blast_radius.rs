//! Tests of failures that stay with the component that they are about.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, ServiceAccount},
    networking::v1::NetworkPolicy,
};
use serde_json::json;

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Starts a stack on a server that fails.
fn start(server: FakeApiServer, spec: serde_json::Value) -> World {
    let world = World::start(server);
    world.server.create(&stored_stack(spec));
    world
}

#[tokio::test(start_paused = true)]
async fn a_refused_kind_is_named_by_its_component_and_everything_else_is_there() {
    for (status, reason) in [(403, "Forbidden"), (500, "ApplyFailed")] {
        let server = FakeApiServer::default();
        server.fail_kind::<StatefulSet>(Some(Fault::Refuse(status)));
        let world = start(server, json!({}));
        world.settle().await;
        let missing = "statefulsets/acme-postgres";
        let expected = CHILDREN.into_iter().filter(|child| *child != missing);
        assert_eq!(world.children(), expected.collect::<Vec<_>>());
        for type_ in ["DatabaseReady", "Degraded"] {
            let named = world.condition("acme", type_);
            assert_eq!(named.reason, reason, "{type_}");
            let sentence = "StatefulSet/acme-postgres: ";
            assert!(named.message.starts_with(sentence), "{}", named.message);
        }
        assert_eq!(world.condition("acme", "AppReady").reason, "Pending");
        world.server.fail_kind::<StatefulSet>(None);
        world.pass(Duration::from_secs(360)).await;
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_and_workers_are_counted_while_a_child_is_refused() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    world
        .server
        .fail_kind::<ConfigMap>(Some(Fault::Refuse(403)));
    world.server.delete::<ConfigMap>(NAMESPACE, "acme-gateway");
    world.settle().await;
    for name in ["acme-app", "acme-worker"] {
        world.server.edit::<Deployment>(NAMESPACE, name, |object| {
            object["status"] = json!({
                "observedGeneration": object["metadata"]["generation"],
                "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            });
        });
    }
    world.settle().await;
    let status = world.stack("acme").status.unwrap();
    assert_eq!((status.app.ready_replicas, status.workers.replicas), (2, 2));
    assert_eq!(world.condition("acme", "AppReady").status, "True");
    assert_eq!(world.condition("acme", "GatewayReady").reason, "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn calls_that_hang_starve_neither_later_children_nor_the_status() {
    let server = FakeApiServer::default();
    server.fail_kind::<ServiceAccount>(Some(Fault::Hang));
    server.fail_kind::<ConfigMap>(Some(Fault::Hang));
    let world = start(server, json!({}));
    world.pass(Duration::from_secs(25)).await;
    let children = world.children();
    for child in ["deployments/acme-app", "ingresses/acme"] {
        assert!(children.contains(&child.to_owned()), "{child}");
    }
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "DeadlineExceeded", "{}", degraded.message);
}

#[tokio::test(start_paused = true)]
async fn children_of_one_kind_are_written_side_by_side() {
    let server = FakeApiServer::default();
    let late = Fault::AnswerLate(Duration::from_secs(3));
    server.fail_kind::<NetworkPolicy>(Some(late));
    let world = start(server, json!({}));
    // There are four policies.
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.children(), CHILDREN);
}
