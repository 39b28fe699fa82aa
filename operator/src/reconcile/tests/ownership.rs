//! Tests of objects that have the name or the labels of a child and belong to another owner.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::{
    APP_NAME, FIELD_MANAGER, INSTANCE_LABEL, MANAGED_BY_LABEL, NAME_LABEL,
};

use crate::testing::{
    api_server::FakeApiServer,
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// A duration longer than the longest backoff.
const RETRIED: Duration = Duration::from_secs(400);

/// Returns the metadata of an object with the labels of a child and without an owner.
fn labelled(name: &str, manager: &str) -> Value {
    json!({
        "name": name,
        "namespace": NAMESPACE,
        "labels": {INSTANCE_LABEL: "acme", NAME_LABEL: APP_NAME, MANAGED_BY_LABEL: manager},
    })
}

#[tokio::test(start_paused = true)]
async fn labels_alone_make_no_object_the_stacks() {
    for manager in ["Helm", FIELD_MANAGER] {
        let world = World::start(FakeApiServer::default());
        let theirs: Service = serde_json::from_value(json!({
            "metadata": labelled("acme-gateway", manager),
            "spec": {"selector": {"app": "theirs"}},
        }))
        .unwrap();
        let theirs = world.server.create(&theirs);
        world.server.create(&stored_stack(json!({})));
        world.settle().await;
        let live = world.server.get::<Service>(NAMESPACE, "acme-gateway");
        assert_eq!(live, Some(theirs), "{manager}");
        let degraded = world.condition("acme", "Degraded");
        assert_eq!(degraded.reason, "NameTaken", "{manager}");
        for word in ["Service/acme-gateway", "delete that object"] {
            assert!(degraded.message.contains(word), "{}", degraded.message);
        }
        world.server.delete::<Service>(NAMESPACE, "acme-gateway");
        world.pass(RETRIED).await;
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn only_what_the_stack_owns_is_pruned() {
    let world = World::with_stack(json!({})).await;
    let notes: ConfigMap = serde_json::from_value(json!({
        "metadata": labelled("acme-notes", FIELD_MANAGER),
    }))
    .unwrap();
    world.server.create(&notes);
    world.settle().await;
    assert!(world.uid::<ConfigMap>("acme-notes").is_some());
    assert_eq!(world.child_writes(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn credentials_of_another_tool_are_never_taken_up() {
    let world = World::start(FakeApiServer::default());
    let theirs: Secret = serde_json::from_value(json!({
        "metadata": labelled("acme-postgres", "Helm"),
        "data": {"username": "dGhlbQ==", "password": "dGhlaXJz"},
    }))
    .unwrap();
    let theirs = world.server.create(&theirs);
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    let live = world.server.get::<Secret>(NAMESPACE, "acme-postgres");
    assert_eq!(live, Some(theirs));
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "NameTaken");
    let named = degraded.message.contains("Secret acme-postgres");
    assert!(named, "{}", degraded.message);
}
