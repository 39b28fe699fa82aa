//! Tests of the Secret with the keys of clients, which the user writes and the operator never reads.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use serde_json::{Value, json};

use crate::testing::world::{NAMESPACE, World};

const SECRET: &str = "links-keys";

fn create(world: &World) {
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": SECRET, "namespace": NAMESPACE})).unwrap(),
        ..Secret::default()
    });
}

#[tokio::test(start_paused = true)]
async fn missing_keys_are_named_and_neither_they_nor_new_ones_change_a_child() {
    let auth = json!({"secretRef": {"name": SECRET}});
    let world = World::with_stack(json!({"gateway": {"auth": auth}})).await;
    let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
    assert!(app.is_some(), "the stack is built without the Secret");
    let missing = world.condition("acme", "AppReady");
    assert_eq!(missing.reason, "SecretNotFound", "{}", missing.message);
    assert!(missing.message.contains(SECRET), "{}", missing.message);

    create(&world);
    world.settle().await;
    let found = world.condition("acme", "AppReady");
    assert_ne!(found.reason, "SecretNotFound", "{}", found.message);

    world.server.edit::<Secret>(NAMESPACE, SECRET, |secret| {
        secret["data"] = json!({"shop": Value::from("bmV3")});
    });
    world.settle().await;
    assert_ne!(world.condition("acme", "AppReady").reason, "SecretNotFound");

    world.server.delete::<Secret>(NAMESPACE, SECRET);
    world.settle().await;
    assert_eq!(world.condition("acme", "AppReady").reason, "SecretNotFound");
    assert_eq!(world.child_writes(), [] as [String; 0]);
}
