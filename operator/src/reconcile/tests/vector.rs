//! Tests of the vector store: switched on and off, its data, and its credentials.

use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{PersistentVolumeClaim, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
};
use serde_json::json;

use super::{
    drift::{Kind, recreates, restores_label},
    with,
};
use crate::testing::world::{NAMESPACE, World};

const PODS: [&str; 4] = [
    "networkpolicies/acme-qdrant",
    "serviceaccounts/acme-qdrant",
    "services/acme-qdrant",
    "statefulsets/acme-qdrant",
];
const DATA: [&str; 2] = ["persistentvolumeclaims/acme-qdrant", "secrets/acme-qdrant"];

#[tokio::test(start_paused = true)]
async fn the_vector_store_comes_with_its_profile_and_leaves_its_data_when_it_goes() {
    let world = World::with_stack(json!({})).await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["vector"]));
    world.settle().await;
    assert_eq!(world.children(), with(&[&PODS, &DATA]));
    assert_eq!(world.condition("acme", "VectorReady").reason, "Pending");
    let volume = world.uid::<PersistentVolumeClaim>("acme-qdrant");
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    assert_eq!(world.children(), with(&[&DATA]));
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["vector"]));
    world.settle().await;
    assert_eq!(world.uid::<PersistentVolumeClaim>("acme-qdrant"), volume);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_keeps_no_data_gives_up_the_volume_with_the_profile() {
    let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    let volume = world.uid::<PersistentVolumeClaim>("acme-qdrant");
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["vector"]));
    world.settle().await;
    assert_ne!(world.uid::<PersistentVolumeClaim>("acme-qdrant"), volume);
    assert_eq!(world.children(), with(&[&PODS, &DATA]));
}

#[tokio::test(start_paused = true)]
async fn each_child_of_the_vector_store_that_is_deleted_is_put_back_alone() {
    async fn check<K: Kind>(world: &World) {
        recreates::<K>(world, "acme-qdrant").await;
        restores_label::<K>(world, "acme-qdrant").await;
    }
    let world = World::with_stack(json!({"profiles": ["vector"]})).await;
    check::<ServiceAccount>(&world).await;
    check::<NetworkPolicy>(&world).await;
    check::<Service>(&world).await;
    check::<StatefulSet>(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_api_key_is_never_minted_anew_over_an_existing_volume() {
    let world = World::with_stack(json!({"profiles": ["vector"]})).await;
    world.server.delete::<Secret>(NAMESPACE, "acme-qdrant");
    world.settle().await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "CredentialsMissing");
    assert!(
        degraded.message.contains("key api-key"),
        "{}",
        degraded.message
    );
    // Without the volume, no data is lost.
    world
        .server
        .delete::<PersistentVolumeClaim>(NAMESPACE, "acme-qdrant");
    world.settle().await;
    assert_eq!(world.children(), with(&[&PODS, &DATA]));
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn the_app_follows_url_and_api_key_of_an_external_vector_store() {
    let world = World::with_stack(json!({
        "profiles": ["vector"],
        "vector": {"external": {
            "secretRef": {"name": "vectors"},
            "apiKeySecretRef": {"name": "vectors-key"},
        }},
    }))
    .await;
    for (name, key) in [("vectors", "url"), ("vectors-key", "api-key")] {
        let degraded = world.condition("acme", "Degraded");
        assert_eq!(degraded.reason, "SecretNotFound");
        let missing = format!("Secret {name} with key {key}");
        assert!(degraded.message.contains(&missing), "{}", degraded.message);
        world.server.create(&Secret {
            metadata: serde_json::from_value(json!({"name": name, "namespace": NAMESPACE}))
                .unwrap(),
            data: Some([(key.to_owned(), ByteString(b"http://one:6334".to_vec()))].into()),
            ..Secret::default()
        });
        world.settle().await;
    }
    assert_eq!(
        world.children(),
        with(&[&["secrets/vectors", "secrets/vectors-key"]])
    );
    assert_eq!(world.condition("acme", "VectorReady").reason, "External");
    for (name, key) in [("vectors", "url"), ("vectors-key", "api-key")] {
        let before = world.checksum::<Deployment>("acme-app");
        world.server.edit::<Secret>(NAMESPACE, name, |secret| {
            secret["data"][key] = "bmV3".into();
        });
        world.settle().await;
        assert_ne!(world.checksum::<Deployment>("acme-app"), before, "{name}");
    }
}
