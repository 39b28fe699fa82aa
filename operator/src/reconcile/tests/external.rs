//! Tests of external stores with Secrets as the operators of those stores write them.

use std::collections::BTreeMap;

use k8s_openapi::{
    ByteString,
    api::{apps::v1::Deployment, core::v1::Secret},
};
use serde_json::{Value, json};

use crate::testing::world::{NAMESPACE, World};

/// Entries of CloudNativePG's Secret for the app, without its URLs.
const PARTS: [(&str, &str); 5] = [
    ("dbname", "links"),
    ("host", "links-rw"),
    ("password", "p"),
    ("port", "5432"),
    ("username", "links"),
];

fn create(world: &World, name: &str, entries: &[(&str, &str)]) {
    let entries = entries.iter();
    let data: BTreeMap<String, ByteString> = entries
        .map(|(key, value)| ((*key).to_owned(), ByteString(value.as_bytes().to_vec())))
        .collect();
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": name, "namespace": NAMESPACE})).unwrap(),
        data: Some(data),
        ..Secret::default()
    });
}

/// Returns the variables of the app that come from a Secret, each with its key.
fn variables(world: &World, secret: &str) -> Vec<(String, String)> {
    let app = world
        .server
        .get::<Deployment>(NAMESPACE, "acme-app")
        .unwrap();
    let pod = app.spec.unwrap().template.spec.unwrap();
    let env = pod.containers.into_iter().next().unwrap().env.unwrap();
    let of_secret = env.into_iter().filter_map(|variable| {
        let key = variable.value_from?.secret_key_ref?;
        (key.name == secret).then_some((variable.name, key.key))
    });
    of_secret.collect()
}

async fn with_external_database() -> World {
    let external = json!({"external": {"secretRef": {"name": "links-app"}}});
    let world = World::with_stack(json!({"database": external})).await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "SecretNotFound");
    let missing = "Secret links-app with key url, uri, connection_string or host does not exist";
    assert!(degraded.message.contains(missing), "{}", degraded.message);
    world
}

#[tokio::test(start_paused = true)]
async fn a_secret_in_parts_reaches_the_app_in_parts_and_only_they_restart_it() {
    let world = with_external_database().await;
    create(&world, "links-app", &PARTS);
    world.settle().await;
    let told = [
        ("DATABASE_HOST", "host"),
        ("DATABASE_PORT", "port"),
        ("DATABASE_NAME", "dbname"),
        ("DATABASE_USERNAME", "username"),
        ("DATABASE_PASSWORD", "password"),
    ];
    let told = told.map(|(name, key)| (name.to_owned(), key.to_owned()));
    assert_eq!(variables(&world, "links-app"), told);
    let write = |key: &str, value: &str| {
        world.server.forget_writes();
        world
            .server
            .edit::<Secret>(NAMESPACE, "links-app", |secret| {
                secret["data"][key] = Value::from(value);
            });
    };
    write("pgpass", "bmV3");
    world.settle().await;
    assert_eq!(world.child_writes(), [] as [String; 0]);
    write("password", "bmV3");
    world.settle().await;
    let writes = world.child_writes();
    assert_eq!(writes.len(), 1, "{writes:?}");
    assert!(writes[0].ends_with("deployments/acme-app"), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_url_that_comes_later_takes_the_place_of_the_parts() {
    let world = with_external_database().await;
    create(&world, "links-app", &PARTS);
    world.settle().await;
    world
        .server
        .edit::<Secret>(NAMESPACE, "links-app", |secret| {
            secret["data"]["uri"] = Value::from("cG9zdGdyZXM6Ly8=");
        });
    world.settle().await;
    assert_eq!(
        variables(&world, "links-app"),
        [("DATABASE_URL".to_owned(), "uri".to_owned())]
    );
}

#[tokio::test(start_paused = true)]
async fn a_renewed_authority_restarts_the_app_and_a_missing_one_is_named() {
    let world = World::with_stack(json!({"database": {"external": {
        "secretRef": {"name": "links-app"},
        "tls": {"caSecretRef": {"name": "links-ca"}},
    }}}))
    .await;
    create(&world, "links-app", &PARTS);
    world.settle().await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "SecretNotFound");
    let missing = "database.external: Secret links-ca with key ca.crt does not exist";
    assert!(degraded.message.contains(missing), "{}", degraded.message);
    create(&world, "links-ca", &[("ca.crt", "first"), ("other", "x")]);
    world.settle().await;
    let first = world.checksum::<Deployment>("acme-app");
    let write = |key: &str| {
        world
            .server
            .edit::<Secret>(NAMESPACE, "links-ca", |secret| {
                secret["data"][key] = Value::from("bmV3");
            });
    };
    write("other");
    world.settle().await;
    assert_eq!(world.checksum::<Deployment>("acme-app"), first);
    write("ca.crt");
    world.settle().await;
    assert_ne!(world.checksum::<Deployment>("acme-app"), first);
}
