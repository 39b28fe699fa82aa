//! Tests of the Secrets that pods read because the user's settings name them.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::Secret,
};
use serde_json::{Value, json};

use shortener_operator_core::model::{defaults::PodTemplatePolicy, metadata::USABLE_BY_STACKS};

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    settings,
    shared::stored_stack,
    world::{NAMESPACE, World},
};

const APP: &str = "deployments/acme-app";
const DATABASE: &str = "statefulsets/acme-postgres";

/// Returns a variable from the key `url` of a Secret.
fn variable(secret: &str, optional: bool) -> Value {
    let key = json!({"name": secret, "key": "url", "optional": optional});
    json!({"name": "PROXY", "valueFrom": {"secretKeyRef": key}})
}

/// Returns the settings of an app that reads Secret `theirs` by a variable.
fn app(optional: bool) -> Value {
    let containers = json!([{"name": "app", "env": [variable("theirs", optional)]}]);
    json!({"podTemplate": {"spec": {"containers": containers}}})
}

/// Returns a stack whose app reads Secret `theirs` by a variable, and whose database reads Secret `sidecar` in a container
/// of the user.
fn spec() -> Value {
    let sidecar = json!({
        "name": "mine", "image": "mine:1", "envFrom": [{"secretRef": {"name": "sidecar"}}],
        "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
    });
    json!({
        "app": app(false),
        "database": {"managed": {"podTemplate": {"spec": {"containers": [sidecar]}}}},
    })
}

fn create(world: &World, name: &str) {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": name, "namespace": NAMESPACE, "labels": {USABLE_BY_STACKS: "true"},
        },
        "data": {"url": "b25l", "other": "b25l"},
    }))
    .unwrap();
    world.server.create(&secret);
}

/// Sets a key of a Secret and returns the children that are written then.
async fn written(world: &World, secret: &str, key: &str, value: &str) -> Vec<String> {
    world.server.forget_writes();
    world.server.edit::<Secret>(NAMESPACE, secret, |secret| {
        secret["data"][key] = value.into();
    });
    world.settle().await;
    world.child_writes()
}

/// Checks that of the children only this one was written.
fn only(writes: &[String], child: &str) {
    assert!(
        writes.len() == 1 && writes[0].ends_with(child),
        "{writes:?}"
    );
}

/// Starts an operator whose stacks may name every Secret.
fn unrestricted() -> World {
    let mut settings = settings();
    settings.pod_template_policy = PodTemplatePolicy::Unrestricted;
    World::start_set(settings, FakeApiServer::default())
}

/// Starts a stack whose Secrets are missing, and may have any label.
async fn without_secrets(spec: Value) -> World {
    let world = unrestricted();
    world.server.create(&stored_stack(spec));
    world.settle().await;
    world.server.forget_writes();
    world
}

async fn complete() -> World {
    complete_in(World::start(FakeApiServer::default())).await
}

async fn complete_in(world: World) -> World {
    create(&world, "theirs");
    create(&world, "sidecar");
    world.server.create(&stored_stack(spec()));
    world.settle().await;
    world.server.forget_writes();
    world
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_nobody_admitted_reaches_no_pod() {
    let world = complete().await;
    let before = world.checksum::<Deployment>("acme-app");
    let label = |value: &str| {
        world.server.edit::<Secret>(NAMESPACE, "theirs", |secret| {
            secret["metadata"]["labels"][USABLE_BY_STACKS] = value.into();
            secret["data"]["url"] = "dHdv".into();
        });
    };
    label("false");
    world.settle().await;
    let refused = world.condition("acme", "AppReady");
    assert_eq!(refused.reason, "SecretNotUsable", "{}", refused.message);
    assert_eq!(world.checksum::<Deployment>("acme-app"), before);
    assert_eq!(world.child_writes(), [] as [String; 0]);
    label("true");
    world.settle().await;
    assert_ne!(world.checksum::<Deployment>("acme-app"), before);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

/// The kubelet gives a waiting pod each Secret that appears, whatever its labels are.
#[tokio::test(start_paused = true)]
async fn no_pod_waits_for_a_secret_that_may_appear_without_its_label() {
    for optional in [false, true] {
        let world = World::with_stack(json!({"app": app(optional)})).await;
        assert!(!world.children().contains(&APP.to_owned()), "{optional}");
        let refused = world.condition("acme", "AppReady");
        assert_eq!(refused.reason, "SecretNotUsable", "{}", refused.message);
        create(&world, "theirs");
        world.settle().await;
        assert!(world.children().contains(&APP.to_owned()), "{optional}");
    }
}

#[tokio::test(start_paused = true)]
async fn hundreds_of_secrets_are_read_within_the_time_for_reads() {
    let world = unrestricted();
    let late = Fault::AnswerLate(Duration::from_millis(50));
    world.server.fail_reads_of("secrets", Some(late));
    let variables: Vec<Value> = (0..300)
        .map(|number| {
            let mut variable = variable(&format!("theirs-{number}"), true);
            variable["name"] = format!("PROXY_{number}").into();
            variable
        })
        .collect();
    let containers = json!([{"name": "app", "env": variables}]);
    let app = json!({"podTemplate": {"spec": {"containers": containers}}});
    world.server.create(&stored_stack(json!({"app": app})));
    world.settle().await;
    assert!(world.children().contains(&APP.to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_changed_secret_restarts_the_pods_that_read_it_and_nothing_else() {
    let world = complete().await;
    let before = world.checksum::<Deployment>("acme-app");
    only(&written(&world, "theirs", "url", "dHdv").await, APP);
    let after = world.checksum::<Deployment>("acme-app");
    assert_ne!(after, before);
    // No pod reads the other key of it, and the sidecar reads every key.
    let nothing: [String; 0] = [];
    assert_eq!(written(&world, "theirs", "other", "dHdv").await, nothing);
    only(&written(&world, "sidecar", "other", "dHdv").await, DATABASE);
    // The checksum follows from the content alone.
    only(&written(&world, "theirs", "url", "b25l").await, APP);
    assert_eq!(world.checksum::<Deployment>("acme-app"), before);
    world.server.forget_writes();
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.child_writes(), nothing);
}

#[tokio::test(start_paused = true)]
async fn a_deleted_secret_restarts_nothing_and_freezes_nothing() {
    let world = complete_in(unrestricted()).await;
    let checksums = |world: &World| {
        let app = world.checksum::<Deployment>("acme-app");
        (app, world.checksum::<StatefulSet>("acme-postgres"))
    };
    let before = checksums(&world);
    for name in ["theirs", "sidecar"] {
        world.server.delete::<Secret>(NAMESPACE, name);
    }
    world.settle().await;
    assert_eq!(world.child_writes(), [] as [String; 0]);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    world.edit_spec("acme", |spec| {
        spec["app"]["image"] = "app:edited".into();
        spec["database"]["managed"]["image"] = "postgres:18.9".into();
    });
    world.settle().await;
    let writes = world.child_writes();
    for child in [APP, DATABASE] {
        assert!(
            writes.iter().any(|write| write.ends_with(child)),
            "{writes:?}"
        );
    }
    assert_eq!(checksums(&world), before);
    // It is back as it was, and then it is another one.
    world.server.forget_writes();
    create(&world, "theirs");
    create(&world, "sidecar");
    world.settle().await;
    assert_eq!(world.child_writes(), [] as [String; 0]);
    only(&written(&world, "theirs", "url", "dHdv").await, APP);
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_with_a_missing_secret_is_whole_and_its_pods_follow_the_secret() {
    let world = without_secrets(spec()).await;
    assert_eq!(world.children(), CHILDREN);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    let before = world.checksum::<Deployment>("acme-app");
    create(&world, "theirs");
    world.settle().await;
    only(&world.child_writes(), APP);
    assert_ne!(world.checksum::<Deployment>("acme-app"), before);
}

#[tokio::test(start_paused = true)]
async fn an_optional_secret_restarts_the_pods_when_it_appears_and_when_it_is_deleted() {
    let world = without_secrets(json!({"app": app(true)})).await;
    let absent = world.checksum::<Deployment>("acme-app");
    create(&world, "theirs");
    world.settle().await;
    only(&world.child_writes(), APP);
    assert_ne!(world.checksum::<Deployment>("acme-app"), absent);
    world.server.delete::<Secret>(NAMESPACE, "theirs");
    world.settle().await;
    assert_eq!(world.checksum::<Deployment>("acme-app"), absent);
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_read_holds_the_pods_that_read_it_until_it_can() {
    let world = complete().await;
    world
        .server
        .fail_reads_of("theirs", Some(Fault::Refuse(500)));
    world.edit_spec("acme", |spec| {
        spec["app"] = app(false);
        spec["app"]["image"] = "app:edited".into();
        spec["app"]["replicas"] = 5.into();
        spec["gateway"] = json!({"replicas": 3});
    });
    world.settle().await;
    let live = |world: &World| {
        let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
        let spec = app.unwrap().spec.unwrap();
        let pod = spec.template.spec.unwrap();
        (pod.containers[0].image.clone().unwrap(), spec.replicas)
    };
    let (image, replicas) = live(&world);
    assert_ne!(image, "app:edited");
    assert_eq!(replicas, Some(5));
    let gateway = world.server.get::<Deployment>(NAMESPACE, "acme-gateway");
    assert_eq!(gateway.unwrap().spec.unwrap().replicas, Some(3));
    let named = world.condition("acme", "AppReady");
    assert_eq!(named.reason, "ReadFailed", "{}", named.message);
    world.server.fail_reads_of("theirs", None);
    world.pass(Duration::from_secs(15)).await;
    assert_eq!(live(&world), ("app:edited".to_owned(), Some(5)));
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn pods_that_wait_for_an_edit_restart_as_they_are_when_their_secret_changes() {
    let mut spec = spec();
    spec["upgradePolicy"] = "OnSpecChange".into();
    let world = World::start(FakeApiServer::default());
    create(&world, "theirs");
    create(&world, "sidecar");
    world.server.create(&stored_stack(spec));
    world.settle().await;
    let world = world
        .upgrade(|settings| settings.images.app = "registry.test/app:next".to_owned())
        .await;
    world.settle().await;
    let template = |world: &World| {
        let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
        app.unwrap().spec.unwrap().template
    };
    let before = template(&world);
    only(&written(&world, "theirs", "url", "dHdv").await, APP);
    let after = template(&world);
    assert_ne!(after.metadata, before.metadata);
    assert_eq!(after.spec, before.spec);
    let pending = world.stack("acme").status.unwrap().pending_changes;
    let pending: Vec<&str> = pending.iter().map(|one| one.workload.as_str()).collect();
    assert_eq!(pending, ["Deployment/acme-app", "CronJob/acme-purge"]);
}
