//! Tests of the order in which the children of a stack are written and deleted.

use k8s_openapi::api::core::v1::Service;
use serde_json::json;

use crate::testing::{
    api_server::{Effect, FakeApiServer},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Returns the kinds of the children on which writes had this effect, in the order of the writes.
fn kinds(world: &World, effect: Effect) -> Vec<String> {
    let writes = world.server.writes().into_iter();
    let writes = writes.filter(|write| write.effect == Some(effect));
    let mut kinds: Vec<String> = writes
        .filter_map(|write| {
            let (_, rest) = write.path.split_once(&format!("/{NAMESPACE}/"))?;
            rest.split('/').next().map(str::to_owned)
        })
        .filter(|kind| kind != "events" && kind != "shortenerstacks")
        .collect();
    kinds.dedup();
    kinds
}

#[tokio::test(start_paused = true)]
async fn a_child_is_written_after_those_that_it_needs() {
    let server = FakeApiServer::default();
    server.add_optional_kinds();
    let world = World::start(server);
    let app = json!({"autoscaling": {"maxReplicas": 4}});
    let spec = json!({"monitoring": {"enabled": true}, "app": app});
    world.server.create(&stored_stack(spec));
    world.settle().await;
    assert_eq!(
        kinds(&world, Effect::Created),
        [
            "networkpolicies",
            "serviceaccounts",
            "secrets",
            "configmaps",
            "persistentvolumeclaims",
            "services",
            "statefulsets",
            "deployments",
            "cronjobs",
            "horizontalpodautoscalers",
            "poddisruptionbudgets",
            "ingresses",
            "servicemonitors",
            "prometheusrules",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn children_are_deleted_in_reverse_order_and_monitoring_objects_after_them() {
    let app = json!({"autoscaling": {"maxReplicas": 4}});
    let spec = json!({"profiles": ["caching", "observability"], "app": app});
    let world = World::with_optional_kinds(spec).await;
    // Nothing is pruned before the address of the app is known to the stack's own gateway.
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into();
        });
    world.settle().await;
    world.server.forget_writes();
    world.edit_spec("acme", |spec| {
        *spec = json!({
            "gateway": {"provider": "Standalone"},
            "app": {"replicas": 1},
            "workers": {"purge": {"schedule": ""}},
        });
    });
    world.settle().await;
    assert_eq!(
        kinds(&world, Effect::Deleted),
        [
            "ingresses",
            "poddisruptionbudgets",
            "horizontalpodautoscalers",
            "cronjobs",
            "deployments",
            "statefulsets",
            "services",
            "configmaps",
            "serviceaccounts",
            "networkpolicies",
            "servicemonitors",
            "prometheusrules",
        ]
    );
}

#[tokio::test(start_paused = true)]
async fn the_volume_of_a_store_is_given_up_before_its_credentials() {
    let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    let mut writes = world.child_writes();
    writes.retain(|path| path.ends_with("/secrets/acme-qdrant") || path.contains("volumeclaims"));
    assert_eq!(
        writes,
        [
            "/api/v1/namespaces/links/persistentvolumeclaims/acme-qdrant",
            "/api/v1/namespaces/links/secrets/acme-qdrant",
        ]
    );
}
