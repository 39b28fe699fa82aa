//! Tests of profiles that are switched on and off on a live stack.

use std::{collections::BTreeSet, time::Duration};

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
};
use serde_json::json;
use shortener_operator_core::{api::Profile, plan::conditions};

use super::{
    drift::{Kind, recreates, restores_label},
    with,
};
use crate::testing::{
    shared::combinations,
    world::{NAMESPACE, World},
};

/// Children that the profile adds, without its Secret.
const CACHE: [&str; 5] = [
    "configmaps/acme-cache",
    "networkpolicies/acme-cache",
    "serviceaccounts/acme-cache",
    "services/acme-cache",
    "statefulsets/acme-cache",
];
const CACHE_SECRET: &str = "secrets/acme-cache";

fn caching() -> serde_json::Value {
    json!({"profiles": ["caching"]})
}

fn password(world: &World) -> Vec<u8> {
    let secret = world.server.get::<Secret>(NAMESPACE, "acme-cache").unwrap();
    secret.data.unwrap()["password"].0.clone()
}

#[tokio::test(start_paused = true)]
async fn every_combination_of_profiles_is_valid_is_built_and_comes_to_rest() {
    for chosen in combinations() {
        let names: Vec<&str> = chosen.iter().map(|profile| profile.as_str()).collect();
        // The order in the spec does not matter.
        let written: Vec<&str> = names.iter().rev().copied().collect();
        let spec = json!({"profiles": written, "observability": {"backend": {"managed": {}}}});
        let world = World::with_stack(spec).await;
        let status = world.stack("acme").status.unwrap();
        assert_eq!(status.profiles, names);
        let types = status.conditions.iter();
        let of_profiles = types.filter_map(|found| conditions::profile(&found.type_));
        let told: BTreeSet<Profile> = of_profiles.collect();
        assert_eq!(told, chosen.into_iter().collect());
        assert_eq!(world.condition("acme", "Degraded").status, "False");
        world.pass(Duration::from_secs(600)).await;
        assert_eq!(world.server.writes(), [], "{names:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn switching_caching_on_adds_the_cache_and_tells_the_app() {
    let world = World::with_stack(json!({})).await;
    let volume = world.uid::<StatefulSet>("acme-postgres");
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["caching"]));
    world.settle().await;
    assert_eq!(world.children(), with(&[&CACHE, &[CACHE_SECRET]]));
    assert_eq!(world.stack("acme").status.unwrap().profiles, ["caching"]);
    assert_eq!(world.condition("acme", "CacheReady").reason, "Pending");
    let app = world
        .server
        .get::<Deployment>(NAMESPACE, "acme-app")
        .unwrap();
    let env = app.spec.unwrap().template.spec.unwrap().containers[0]
        .env
        .clone();
    assert!(
        env.unwrap()
            .iter()
            .any(|variable| variable.name == "CACHE_URL")
    );
    assert_eq!(world.uid::<StatefulSet>("acme-postgres"), volume);
    assert_eq!(password(&world).len(), 32);
}

#[tokio::test(start_paused = true)]
async fn switching_caching_off_leaves_its_secret_and_nothing_else() {
    let world = World::with_stack(caching()).await;
    let secret = world.uid::<Secret>("acme-cache");
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    assert_eq!(world.children(), with(&[&[CACHE_SECRET]]));
    let status = world.stack("acme").status.unwrap();
    assert_eq!(status.profiles, Vec::<String>::new());
    let left = status
        .conditions
        .iter()
        .find(|found| found.type_ == "CacheReady");
    assert_eq!(left, None);
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["caching"]));
    world.settle().await;
    assert_eq!(world.uid::<Secret>("acme-cache"), secret);
}

#[tokio::test(start_paused = true)]
async fn switching_caching_off_takes_the_secret_of_a_stack_that_keeps_no_data() {
    let spec = json!({"profiles": ["caching"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_operator_leaves_a_stack_with_a_cache_alone() {
    let world = World::with_stack(caching()).await.restart().await;
    world.settle().await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn each_child_of_the_cache_that_is_deleted_or_edited_is_put_back_alone() {
    async fn check<K: Kind>(world: &World) {
        recreates::<K>(world, "acme-cache").await;
        restores_label::<K>(world, "acme-cache").await;
    }
    let world = World::with_stack(caching()).await;
    check::<ServiceAccount>(&world).await;
    check::<ConfigMap>(&world).await;
    check::<NetworkPolicy>(&world).await;
    check::<Service>(&world).await;
    check::<StatefulSet>(&world).await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_password_of_the_cache_is_minted_anew_because_nothing_is_lost_with_it() {
    let world = World::with_stack(caching()).await;
    let before = (
        password(&world),
        world.checksum::<Deployment>("acme-app"),
        world.checksum::<StatefulSet>("acme-cache"),
    );
    world.server.delete::<Secret>(NAMESPACE, "acme-cache");
    world.settle().await;
    assert_ne!(password(&world), before.0);
    assert_ne!(world.checksum::<Deployment>("acme-app"), before.1);
    assert_ne!(world.checksum::<StatefulSet>("acme-cache"), before.2);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_rotated_password_of_the_cache_restarts_the_cache_and_the_app_only() {
    let world = World::with_stack(caching()).await;
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-cache", |secret| {
            secret["data"]["password"] = "bmV3".into();
        });
    world.settle().await;
    assert_eq!(password(&world), b"new");
    let mut writes = world.child_writes();
    writes.sort();
    let expected = ["deployments/acme-app", "statefulsets/acme-cache"];
    let as_expected = writes.len() == 2
        && writes
            .iter()
            .zip(expected)
            .all(|(write, name)| write.ends_with(name));
    assert!(as_expected, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_external_cache_waits_for_its_secret_and_follows_it() {
    let world = World::with_stack(json!({
        "profiles": ["caching"],
        "cache": {"external": {"secretRef": {"name": "redis", "key": "url"}, "mode": "Cluster"}},
    }))
    .await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "SecretNotFound");
    assert!(
        degraded.message.contains("cache.external"),
        "{}",
        degraded.message
    );
    let url = |url: &str| Some([("url".to_owned(), ByteString(url.into()))].into());
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": "redis", "namespace": NAMESPACE})).unwrap(),
        data: url("redis://one:6379,redis://two:6379"),
        ..Secret::default()
    });
    world.settle().await;
    assert_eq!(world.children(), with(&[&["secrets/redis"]]));
    assert_eq!(world.condition("acme", "CacheReady").reason, "External");
    let before = world.checksum::<Deployment>("acme-app");
    world.server.edit::<Secret>(NAMESPACE, "redis", |secret| {
        secret["data"]["url"] = "cmVkaXM6Ly90aHJlZQ==".into();
    });
    world.settle().await;
    assert_ne!(world.checksum::<Deployment>("acme-app"), before);
}
