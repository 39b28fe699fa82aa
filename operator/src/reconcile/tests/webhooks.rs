//! Tests of the delivery of webhooks, whose Secrets the user writes and the operator never reads.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::with;
use crate::testing::world::{NAMESPACE, World};

const SECRET: &str = "crm-hook";
const CHILDREN: [&str; 3] = [
    "deployments/acme-webhooks",
    "networkpolicies/acme-webhooks",
    "serviceaccounts/acme-webhooks",
];

fn receiver() -> Value {
    json!({"name": "crm", "url": "https://hooks.example.com", "secretRef": {"name": SECRET}})
}

fn create(world: &World) {
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": SECRET, "namespace": NAMESPACE})).unwrap(),
        ..Secret::default()
    });
}

/// Returns the receivers that the migration of a program knows.
fn told(world: &World, deployment: &str) -> Option<String> {
    let live = world.server.get::<Deployment>(NAMESPACE, deployment)?;
    let pod = live.spec?.template.spec?;
    let mut env = pod.init_containers?.remove(0).env?.into_iter();
    env.find(|variable| variable.name == "WEBHOOKS")?.value
}

#[tokio::test(start_paused = true)]
async fn receivers_add_a_deployment_that_goes_with_the_last_of_them() {
    let world = World::with_stack(json!({"links": {"webhooks": [receiver()]}})).await;
    assert_eq!(world.children(), with(&[&CHILDREN]));
    let list = told(&world, "acme-webhooks");
    assert!(list.is_some_and(|list| list.contains("https://hooks.example.com")));
    assert_eq!(told(&world, "acme-webhooks"), told(&world, "acme-app"));
    world.edit_spec("acme", |spec| spec["links"] = json!({"webhooks": []}));
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
    assert_eq!(told(&world, "acme-app"), None);
    let status = world.stack("acme").status.unwrap();
    let mut types = status.conditions.into_iter().map(|found| found.type_);
    assert!(types.all(|type_| type_ != "WebhooksReady"));
}

#[tokio::test(start_paused = true)]
async fn a_missing_secret_is_named_and_neither_it_nor_a_new_one_changes_a_child() {
    let world = World::with_stack(json!({"links": {"webhooks": [receiver()]}})).await;
    let missing = world.condition("acme", "WebhooksReady");
    assert_eq!(missing.reason, "SecretNotFound", "{}", missing.message);
    for part in ["links.webhooks[crm].secretRef", SECRET] {
        assert!(missing.message.contains(part), "{}", missing.message);
    }
    assert_eq!(
        world.condition("acme", "Degraded").message,
        missing.message,
        "the summary names it, too"
    );

    create(&world);
    world.settle().await;
    let found = world.condition("acme", "WebhooksReady");
    assert_ne!(found.reason, "SecretNotFound", "{}", found.message);

    world.server.edit::<Secret>(NAMESPACE, SECRET, |secret| {
        secret["data"] = json!({"secret": "bmV3"});
    });
    world.server.delete::<Secret>(NAMESPACE, SECRET);
    world.settle().await;
    let gone = world.condition("acme", "WebhooksReady");
    assert_eq!(gone.reason, "SecretNotFound");
    assert_eq!(world.child_writes(), [] as [String; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_delivery_that_runs_keeps_its_pod_while_the_database_is_held() {
    let world = World::with_stack(json!({"links": {"webhooks": [receiver()]}})).await;
    let live = || world.server.get::<Deployment>(NAMESPACE, "acme-webhooks");
    let before = live().unwrap();
    world.edit_spec("acme", |spec| {
        spec["database"] = json!({"external": {"secretRef": {"name": "none"}}});
    });
    world.settle().await;
    let after = live().unwrap();
    assert_eq!(after.uid(), before.uid());
    assert_eq!(after.spec.unwrap().template, before.spec.unwrap().template);
}
