//! Tests of upgrades: the pods of a stack with `upgradePolicy: OnSpecChange` while other releases of the operator come and
//! go. Another release is an operator with other default images.

use std::{collections::BTreeMap, time::Duration};

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    batch::v1::CronJob,
    core::v1::{ConfigMap, PodTemplateSpec, Secret, Service},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::metadata::{DATA_VERSION, RECORD, RELEASE},
};

use crate::{
    cli::settings::Settings,
    testing::{
        api_server::Fault,
        settings,
        world::{NAMESPACE, World},
    },
};

const APP: &str = "deployments/acme-app";
const CACHE: &str = "statefulsets/acme-cache";

/// Makes an operator another release.
fn next(settings: &mut Settings) {
    settings.images.app = "registry.test/app:next".to_owned();
    settings.images.cache = "registry.test/cache:next".to_owned();
}

/// Starts a stack that holds changes back.
async fn careful(mut spec: Value) -> World {
    spec["upgradePolicy"] = "OnSpecChange".into();
    World::with_stack(spec).await
}

/// Starts such a stack and upgrades the operator.
async fn held() -> World {
    let world = careful(json!({"profiles": ["caching"]})).await;
    let world = world.upgrade(next).await;
    world.settle().await;
    world
}

/// Returns the pod template of each workload.
fn templates(world: &World) -> BTreeMap<String, PodTemplateSpec> {
    let mut templates = BTreeMap::new();
    for child in world.children() {
        let template = match child.split_once('/') {
            Some(("deployments", name)) => {
                let live = world.server.get::<Deployment>(NAMESPACE, name);
                live.and_then(|live| Some(live.spec?.template))
            }
            Some(("statefulsets", name)) => {
                let live = world.server.get::<StatefulSet>(NAMESPACE, name);
                live.and_then(|live| Some(live.spec?.template))
            }
            Some(("cronjobs", name)) => {
                let live = world.server.get::<CronJob>(NAMESPACE, name);
                live.and_then(|live| Some(live.spec?.job_template.spec?.template))
            }
            _ => None,
        };
        templates.extend(template.map(|template| (child, template)));
    }
    templates
}

/// Returns the image of the first container of a workload.
fn image(world: &World, workload: &str) -> String {
    let spec = templates(world)[workload].spec.clone().unwrap();
    spec.containers[0].image.clone().unwrap()
}

/// Returns the workloads that the status lists, with the fields.
fn pending(world: &World) -> Vec<(String, Vec<String>)> {
    let changes = world.stack("acme").status.unwrap().pending_changes;
    let changes = changes.into_iter();
    changes
        .map(|change| (change.workload, change.fields))
        .collect()
}

fn edit(world: &World) {
    world.edit_spec("acme", |spec| {
        spec["rateLimits"] = json!({"shortenPerMinute": 61})
    });
}

fn has_record(world: &World) -> bool {
    let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
    let annotations = app.unwrap().metadata.annotations.unwrap_or_default();
    annotations.contains_key(RECORD)
}

#[tokio::test(start_paused = true)]
async fn another_release_restarts_no_pod_until_the_spec_changes() {
    let world = careful(json!({"profiles": ["caching"]})).await;
    let before = templates(&world);
    let world = world.upgrade(next).await;
    world.settle().await;
    assert_eq!(templates(&world), before);
    let expected = [
        (
            "StatefulSet/acme-cache",
            vec!["spec.containers[valkey].image"],
        ),
        (
            "Deployment/acme-app",
            vec![
                "spec.containers[app].image",
                "spec.initContainers[migrate].image",
            ],
        ),
        (
            "CronJob/acme-purge",
            vec![
                "spec.containers[purge].image",
                "spec.initContainers[migrate].image",
            ],
        ),
    ]
    .map(|(workload, fields)| {
        let fields: Vec<String> = fields.into_iter().map(str::to_owned).collect();
        (workload.to_owned(), fields)
    });
    assert_eq!(pending(&world), expected);
    // It is at rest, and another start of the same release changes nothing.
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.server.writes(), []);
    edit(&world);
    world.settle().await;
    assert_eq!(image(&world, APP), "registry.test/app:next");
    assert_eq!(image(&world, CACHE), "registry.test/cache:next");
    assert_eq!(pending(&world), []);
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_asks_for_nothing_restarts_at_once() {
    let world = World::with_stack(json!({})).await.upgrade(next).await;
    world.settle().await;
    assert_eq!(image(&world, APP), "registry.test/app:next");
    assert!(!has_record(&world));
    assert_eq!(pending(&world), []);
}

#[tokio::test(start_paused = true)]
async fn scaling_releases_nothing() {
    let world = careful(json!({"profiles": ["queue"]})).await;
    let before = templates(&world);
    let world = world.upgrade(next).await;
    world.settle().await;
    for replicas in [3, 5] {
        world.edit_spec("acme", |spec| {
            spec["workers"] = json!({"replicas": replicas})
        });
        world.settle().await;
        let workers = world.server.get::<Deployment>(NAMESPACE, "acme-worker");
        assert_eq!(workers.unwrap().spec.unwrap().replicas, Some(replicas));
        assert_eq!(templates(&world), before);
    }
    edit(&world);
    world.settle().await;
    assert_eq!(image(&world, APP), "registry.test/app:next");
}

#[tokio::test(start_paused = true)]
async fn an_annotation_releases_a_stack_without_an_edit() {
    let world = held().await;
    world
        .server
        .edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
            stack["metadata"]["annotations"][RELEASE] = "next".into();
        });
    world.settle().await;
    assert_eq!(image(&world, APP), "registry.test/app:next");
    assert_eq!(pending(&world), []);
}

#[tokio::test(start_paused = true)]
async fn a_rotated_secret_restarts_the_pods_that_are_held_as_they_are() {
    let world = held().await;
    let (before, waiting) = (templates(&world), pending(&world));
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-cache", |secret| {
            secret["data"]["password"] = "bmV3".into()
        });
    world.settle().await;
    let after = templates(&world);
    for (workload, before) in &before {
        let uses = [APP, CACHE].contains(&workload.as_str());
        let restarted = after[workload].metadata != before.metadata;
        assert_eq!(restarted, uses, "{workload}");
        assert_eq!(after[workload].spec, before.spec, "{workload}");
    }
    assert_eq!(pending(&world), waiting);
}

#[tokio::test(start_paused = true)]
async fn an_edit_by_hand_is_put_back_to_what_is_held() {
    let world = held().await;
    let before = templates(&world);
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-app", |app| {
            app["spec"]["template"]["spec"]["containers"][0]["image"] = "by-hand".into();
        });
    world.settle().await;
    assert_eq!(templates(&world), before);
}

#[tokio::test(start_paused = true)]
async fn pods_whose_changes_are_refused_stay_together_with_the_configuration_that_they_mount() {
    let world = held().await;
    let config = |world: &World| {
        let config = world.server.get::<ConfigMap>(NAMESPACE, "acme-cache");
        config.unwrap().data.unwrap()
    };
    let before = (templates(&world)[CACHE].clone(), config(&world));
    let change = |pods: Value| {
        world.edit_spec("acme", |spec| {
            spec["cache"] = json!({"managed": {"maxMemory": "256Mi", "podTemplate": pods}});
        });
    };
    change(json!({"spec": {"hostNetwork": true}}));
    world.settle().await;
    let named = world.condition("acme", "CacheReady");
    assert_eq!(named.reason, "PodTemplateRefused", "{}", named.message);
    let after = (templates(&world)[CACHE].clone(), config(&world));
    assert_eq!(after, before);
    // Everything else follows the edit.
    assert_eq!(image(&world, APP), "registry.test/app:next");
    change(Value::Null);
    world.settle().await;
    assert_eq!(image(&world, CACHE), "registry.test/cache:next");
    assert_ne!(config(&world), before.1);
}

/// Gives the Service of the app an address, as when it is made again.
fn move_to(world: &World, address: &str) {
    let address = address.to_owned();
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = address.into()
        });
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_has_to_follow_the_app_restarts_as_the_new_release() {
    // While changes are held back, and between the two releases.
    for is_held in [true, false] {
        let world = careful(json!({"gateway": {"provider": "Standalone"}})).await;
        move_to(&world, "10.0.0.7");
        world.settle().await;
        let before = templates(&world);
        if !is_held {
            move_to(&world, "10.0.0.8");
        }
        let world = world
            .upgrade(|settings| settings.images.gateway = "registry.test/nginx:next".to_owned())
            .await;
        world.settle().await;
        if is_held {
            assert_eq!(templates(&world), before);
            assert_eq!(pending(&world).len(), 1);
            move_to(&world, "10.0.0.8");
            world.settle().await;
        }
        let config = world.server.get::<ConfigMap>(NAMESPACE, "acme-gateway");
        let config = config.unwrap().data.unwrap();
        assert!(config["nginx.conf"].contains("10.0.0.8:3000"));
        let gateway = "deployments/acme-gateway";
        assert_eq!(image(&world, gateway), "registry.test/nginx:next");
        assert_eq!(pending(&world), []);
    }
}

#[tokio::test(start_paused = true)]
async fn the_release_before_restarts_nothing_either() {
    let world = held().await;
    edit(&world);
    world.settle().await;
    let released = templates(&world);
    let world = world.upgrade(|now| *now = settings()).await;
    world.settle().await;
    assert_eq!(templates(&world), released);
    assert_eq!(pending(&world).len(), 3);
}

#[tokio::test(start_paused = true)]
async fn a_release_that_was_interrupted_goes_on() {
    let world = held().await;
    world
        .server
        .fail_kind::<Deployment>(Some(Fault::Refuse(500)));
    edit(&world);
    world.settle().await;
    assert_eq!(image(&world, CACHE), "registry.test/cache:next");
    assert_ne!(image(&world, APP), "registry.test/app:next");
    world.server.fail_kind::<Deployment>(None);
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(image(&world, APP), "registry.test/app:next");
}

#[tokio::test(start_paused = true)]
async fn the_policy_can_change_in_both_directions() {
    let world = World::with_stack(json!({})).await;
    let set = |world: &World, policy: &str| {
        let policy = policy.to_owned();
        world.edit_spec("acme", |spec| spec["upgradePolicy"] = policy.into());
    };
    let before = templates(&world);
    set(&world, "OnSpecChange");
    world.settle().await;
    assert!(has_record(&world));
    let world = world.upgrade(next).await;
    world.settle().await;
    assert_eq!(templates(&world), before);
    set(&world, "Automatic");
    world.settle().await;
    assert_eq!(image(&world, APP), "registry.test/app:next");
    assert!(!has_record(&world));
    assert_eq!(pending(&world), []);
}

#[tokio::test(start_paused = true)]
async fn a_field_of_a_newer_definition_keeps_the_stack_as_it_is() {
    let world = World::with_stack(json!({})).await;
    world.edit_spec("acme", |spec| {
        spec["app"] = json!({"image": "registry.test/app:2"});
        spec["gateway"] = json!({"guard": {"by": "token"}});
    });
    world.settle().await;
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.child_writes(), Vec::<String>::new());
    let degraded = world.condition("acme", "Degraded");
    let found = (degraded.status.as_str(), degraded.reason.as_str());
    assert_eq!(found, ("True", "UnknownFields"));
    let named = degraded.message.contains("spec.gateway.guard:");
    assert!(named, "{}", degraded.message);
    let stored = &world.server.objects()["shortenerstacks/acme"]["spec"];
    assert_eq!(stored["gateway"]["guard"]["by"], "token");
    world.edit_spec("acme", |spec| spec["gateway"] = json!({}));
    world.settle().await;
    assert_eq!(image(&world, "deployments/acme-app"), "registry.test/app:2");
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

const BROKER: &str = "statefulsets/acme-rabbitmq";

/// Upgrades the operator to a release with this default image of the broker, and lets the server become ready.
async fn with_broker(world: World, image: &str) -> World {
    let world = world
        .upgrade(|settings| image.clone_into(&mut settings.images.rabbitmq))
        .await;
    world.settle().await;
    world
        .server
        .edit::<StatefulSet>(NAMESPACE, "acme-rabbitmq", |set| {
            set["status"] = json!({
                "observedGeneration": set["metadata"]["generation"],
                "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            });
        });
    world.settle().await;
    world
}

/// Returns the version of the broker's data, as its claim has it.
fn version_of_the_jobs(world: &World) -> Value {
    let claim = &world.server.objects()["persistentvolumeclaims/acme-rabbitmq"];
    claim["metadata"]["annotations"][DATA_VERSION].clone()
}

#[tokio::test(start_paused = true)]
async fn a_release_takes_the_broker_one_version_forward_and_no_other_way() {
    let mut world = World::with_stack(json!({"profiles": ["queue"]})).await;
    for (default, runs, version) in [
        ("rabbitmq:4.1", "rabbitmq:4.3.6-management", "4.3"),
        ("rabbitmq:4.5", "rabbitmq:4.3.6-management", "4.3"),
        ("rabbitmq:4.4", "rabbitmq:4.4", "4.4"),
        ("rabbitmq:4.3", "rabbitmq:4.4", "4.4"),
        ("rabbitmq:4.5", "rabbitmq:4.5", "4.5"),
    ] {
        world = with_broker(world, default).await;
        assert_eq!(image(&world, BROKER), runs, "{default}");
        assert_eq!(version_of_the_jobs(&world), version, "{default}");
        let kept = default != runs;
        let reason = world.condition("acme", "QueueReady").reason;
        assert_eq!(reason == "ImageKept", kept, "{default}: {reason}");
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn an_image_of_the_spec_that_skips_a_version_is_refused_and_the_broker_runs_on() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    let named = |image: &str| json!({"managed": {"image": image}});
    world.edit_spec("acme", |spec| spec["queue"] = named("rabbitmq:4.5"));
    world.settle().await;
    assert_eq!(image(&world, BROKER), "rabbitmq:4.3.6-management");
    let refused = world.condition("acme", "QueueReady");
    assert_eq!(refused.reason, "VersionRefused");
    let next = refused
        .message
        .contains("set an image of RabbitMQ 4.4 first");
    assert!(next, "{}", refused.message);
    world.edit_spec("acme", |spec| spec["queue"] = named("rabbitmq:4.4"));
    world.settle().await;
    assert_eq!(image(&world, BROKER), "rabbitmq:4.4");
}
