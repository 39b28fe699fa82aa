//! Tests of passwords and the data behind them: nothing is rendered from a password that is not stored, and data never
//! outlives its password, wherever the operator or the garbage collector is interrupted.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{PersistentVolumeClaim, Secret},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::metadata::{INSTANCE_LABEL, MANAGED_BY_LABEL},
};

use super::{lifecycle::CHILDREN, with};
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// A duration longer than the longest backoff.
const RETRIED: Duration = Duration::from_secs(400);

/// Returns the paths of the writes to workloads.
fn rollouts(world: &World) -> Vec<String> {
    let mut writes = world.child_writes();
    writes.retain(|path| path.contains("/deployments/") || path.contains("/statefulsets/"));
    writes
}

fn password(world: &World) -> Vec<u8> {
    let secret = world.server.get::<Secret>(NAMESPACE, "acme-postgres");
    let data = secret.and_then(|secret| secret.data).unwrap_or_default();
    data["password"].0.clone()
}

fn assert_every_volume_has_its_password(world: &World, case: &str) {
    let children = world.children();
    let claims = children.iter();
    for claim in claims.filter_map(|child| child.strip_prefix("persistentvolumeclaims/")) {
        let secret = format!("secrets/{claim}");
        assert!(
            children.contains(&secret),
            "{case}: no {secret} in {children:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn no_pod_and_no_volume_is_made_before_its_secret_is_stored() {
    for code in [403, 409, 422, 500] {
        let world = World::start(FakeApiServer::default());
        world.server.fail_kind::<Secret>(Some(Fault::Refuse(code)));
        world.server.create(&stored_stack(json!({})));
        world.settle().await;
        let kinds = ["deployments/", "statefulsets/", "persistentvolumeclaims/"];
        let mut early = world.children();
        early.retain(|child| kinds.iter().any(|kind| child.starts_with(kind)));
        assert_eq!(early, [] as [String; 0], "{code}");
        let degraded = world.condition("acme", "Degraded");
        let named = degraded.message.contains("Secret/acme-postgres");
        assert!(named, "{}", degraded.message);

        world.server.fail_kind::<Secret>(None);
        world.pass(RETRIED).await;
        assert_eq!(world.children(), CHILDREN, "{code}");
        assert_eq!(world.creations(), CHILDREN.len(), "{code}");
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn a_key_that_cannot_be_stored_restarts_no_pod_however_often_it_is_tried() {
    let world = World::with_stack(json!({})).await;
    let before = world.checksum::<Deployment>("acme-app");
    world.server.fail_kind::<Secret>(Some(Fault::Refuse(403)));
    world.server.delete::<Secret>(NAMESPACE, "acme-checksum");
    world.pass(RETRIED).await;
    assert_eq!(rollouts(&world), [] as [String; 0]);
    assert_eq!(world.condition("acme", "Degraded").status, "True");

    world.server.fail_kind::<Secret>(None);
    world.pass(RETRIED).await;
    assert_ne!(world.checksum::<Deployment>("acme-app"), before);
    let once = rollouts(&world);
    world.pass(RETRIED).await;
    assert_eq!(rollouts(&world), once);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_password_that_programs_read_differently_restarts_no_pod() {
    let world = World::with_stack(json!({"profiles": ["caching", "queue", "vector"]})).await;
    for (store, key, condition) in [
        ("postgres", "password", "DatabaseReady"),
        ("cache", "password", "CacheReady"),
        ("rabbitmq", "operator-password", "QueueReady"),
        ("qdrant", "api-key", "VectorReady"),
    ] {
        let secret = format!("acme-{store}");
        let before = world.server.get::<Secret>(NAMESPACE, &secret).unwrap();
        world.server.forget_writes();
        world.server.edit::<Secret>(NAMESPACE, &secret, |secret| {
            secret["data"][key] = "bmV3Cg==".into();
        });
        world.settle().await;
        let found = world.condition("acme", condition);
        assert_eq!(found.reason, "CredentialsUnusable", "{}", found.message);
        assert_eq!(rollouts(&world), [] as [String; 0], "{store}");
        world.server.edit::<Secret>(NAMESPACE, &secret, |live| {
            live["data"] = serde_json::to_value(&before).unwrap()["data"].clone();
        });
        world.settle().await;
        assert_eq!(rollouts(&world), [] as [String; 0], "{store}");
        assert_ne!(
            world.condition("acme", condition).reason,
            "CredentialsUnusable"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_pods_that_would_use_a_refused_secret_wait() {
    let world = World::with_stack(json!({})).await;
    let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
    world.server.fail_kind::<Secret>(Some(Fault::Refuse(403)));
    world.edit_spec("acme", |spec| {
        spec["profiles"] = json!(["caching"]);
        spec["gateway"]["replicas"] = 3.into();
    });
    world.settle().await;
    let now = world.server.get::<Deployment>(NAMESPACE, "acme-app");
    assert!(app.is_some() && now == app, "the app knows no cache yet");
    assert_eq!(world.uid::<StatefulSet>("acme-cache"), None);
    let gateway = world.server.get::<Deployment>(NAMESPACE, "acme-gateway");
    assert_eq!(gateway.unwrap().spec.unwrap().replicas, Some(3));

    world.server.fail_kind::<Secret>(None);
    world.pass(RETRIED).await;
    assert!(world.uid::<StatefulSet>("acme-cache").is_some());
    assert_ne!(
        world.server.get::<Deployment>(NAMESPACE, "acme-app"),
        app,
        "the app knows the cache"
    );
}

#[tokio::test(start_paused = true)]
async fn data_never_outlives_its_password_wherever_a_change_of_the_policy_ends() {
    for (from, to) in [("Retain", "Delete"), ("Delete", "Retain")] {
        for fault in [Fault::Hang, Fault::LoseResponse, Fault::Refuse(500)] {
            for number in 1..=9 {
                let case = format!("{from} to {to}, {fault:?} at write {number}");
                let spec = json!({"profiles": ["vector"], "deletionPolicy": from});
                let world = World::with_stack(spec).await;
                world.server.fail_write(number, fault);
                world.edit_spec("acme", |spec| spec["deletionPolicy"] = to.into());
                // The pass is over, or hangs, and the one for the events of its writes has not begun.
                world.pass(Duration::from_millis(50)).await;
                world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
                assert_every_volume_has_its_password(&world, &case);
                world.settle().await;
                assert_every_volume_has_its_password(&world, &case);
            }
        }
    }
}

/// Edits a spec so that the data of a part that is switched off at the same time is kept.
fn keep_without_profiles(spec: &mut Value) {
    spec["profiles"] = json!([]);
    spec["deletionPolicy"] = "Retain".into();
}

#[tokio::test(start_paused = true)]
async fn data_of_a_part_that_is_switched_off_outlives_the_stack_if_data_is_kept() {
    let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    world.edit_spec("acme", keep_without_profiles);
    world.settle().await;
    world.server.forget_writes();
    world.pass(RETRIED).await;
    assert_eq!(world.server.writes(), []);
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    let left = [
        "persistentvolumeclaims/acme-postgres",
        "persistentvolumeclaims/acme-qdrant",
        "secrets/acme-checksum",
        "secrets/acme-job-ids",
        "secrets/acme-management",
        "secrets/acme-postgres",
        "secrets/acme-qdrant",
    ];
    assert_eq!(world.children(), left);
}

#[tokio::test(start_paused = true)]
async fn data_of_a_store_that_is_held_outlives_the_stack_if_data_is_kept() {
    for fault in [None, Some(Fault::Hang), Some(Fault::Refuse(500))] {
        let world = World::with_stack(json!({"deletionPolicy": "Delete"})).await;
        world
            .server
            .edit::<Secret>(NAMESPACE, "acme-postgres", |secret| {
                secret["data"]["password"] = "bmV3Cg==".into();
            });
        world.settle().await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, "CredentialsUnusable", "{database:?}");
        world.server.fail_kind::<Secret>(fault);
        world.edit_spec("acme", |spec| spec["deletionPolicy"] = "Retain".into());
        world.settle().await;
        world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
        assert_every_volume_has_its_password(&world, &format!("{fault:?}"));
        let is_kept = world
            .uid::<PersistentVolumeClaim>("acme-postgres")
            .is_some();
        assert_eq!(is_kept, fault.is_none(), "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn data_of_a_part_that_is_switched_off_never_outlives_its_password() {
    for fault in [Fault::Hang, Fault::LoseResponse, Fault::Refuse(500)] {
        for number in 1..=20 {
            let case = format!("{fault:?} at write {number}");
            let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
            let world = World::with_stack(spec).await;
            world.server.fail_write(number, fault);
            world.edit_spec("acme", keep_without_profiles);
            world.pass(Duration::from_millis(50)).await;
            world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
            assert_every_volume_has_its_password(&world, &case);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_cannot_be_given_up_keeps_its_password() {
    let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    let refused = Some(Fault::Refuse(403));
    world.server.fail_kind::<PersistentVolumeClaim>(refused);
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    let data = ["persistentvolumeclaims/acme-qdrant", "secrets/acme-qdrant"];
    assert_eq!(world.children(), with(&[&data]));
    world.server.fail_kind::<PersistentVolumeClaim>(None);
    world.pass(RETRIED).await;
    assert_eq!(world.children(), with(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_is_not_watched_is_given_up_with_its_password() {
    let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    world
        .server
        .edit::<PersistentVolumeClaim>(NAMESPACE, "acme-qdrant", |claim| {
            if let Some(labels) = claim["metadata"]["labels"].as_object_mut() {
                labels.remove(MANAGED_BY_LABEL);
            }
        });
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_made_again_at_once_waits_until_the_data_of_the_previous_one_is_gone() {
    let secrets = [
        "acme-postgres",
        "acme-checksum",
        "acme-job-ids",
        "acme-management",
    ];
    for volume_first in [true, false] {
        let spec = json!({"deletionPolicy": "Delete"});
        let world = World::with_stack(spec.clone()).await;
        let before = password(&world);
        world.server.hold_collector();
        world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
        world.server.create(&stored_stack(spec));
        world.settle().await;
        let waits = |object: &str| {
            let degraded = world.condition("acme", "Degraded");
            assert_eq!(degraded.reason, "DataTerminating", "{}", degraded.message);
            assert!(degraded.message.contains(object), "{}", degraded.message);
        };
        waits("Secret acme-");
        if volume_first {
            world
                .server
                .delete::<PersistentVolumeClaim>(NAMESPACE, "acme-postgres");
            world.settle().await;
            waits("Secret acme-");
            assert_eq!(world.uid::<PersistentVolumeClaim>("acme-postgres"), None);
        } else {
            for secret in secrets {
                world.server.delete::<Secret>(NAMESPACE, secret);
            }
            world.settle().await;
            waits("volume claim acme-postgres");
            assert_eq!(world.uid::<Secret>("acme-postgres"), None);
        }
        world.server.collect_garbage();
        world.settle().await;
        assert_eq!(world.children(), CHILDREN);
        assert_eq!(world.condition("acme", "Degraded").status, "False");
        assert_ne!(password(&world), before);
    }
}

#[tokio::test(start_paused = true)]
async fn a_profile_that_comes_back_at_once_starts_with_new_data_and_a_new_password() {
    let spec = json!({"profiles": ["vector"], "deletionPolicy": "Delete"});
    let world = World::with_stack(spec).await;
    let uids = |world: &World| {
        (
            world.uid::<PersistentVolumeClaim>("acme-qdrant"),
            world.uid::<Secret>("acme-qdrant"),
        )
    };
    let before = uids(&world);
    world.server.hold_collector();
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["vector"]));
    world.settle().await;
    assert_eq!(uids(&world), before);
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "DataTerminating", "{}", degraded.message);

    world.server.collect_garbage();
    world.settle().await;
    let (claim, secret) = uids(&world);
    assert!(claim.is_some() && claim != before.0);
    assert!(secret.is_some() && secret != before.1);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_being_deleted_is_not_used_and_its_successor_waits_for_it() {
    let world = World::with_stack(json!({"profiles": ["caching"]})).await;
    let before = world.uid::<Secret>("acme-cache");
    let finalizers = |finalizers: Value| {
        world
            .server
            .edit::<Secret>(NAMESPACE, "acme-cache", |secret| {
                secret["metadata"]["finalizers"] = finalizers;
            });
        world.server.delete::<Secret>(NAMESPACE, "acme-cache");
    };
    finalizers(json!(["test/backup"]));
    world.settle().await;
    assert_eq!(world.uid::<Secret>("acme-cache"), before);
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "DataTerminating", "{}", degraded.message);
    assert!(degraded.message.contains("finalizers"));

    finalizers(json!([]));
    world.settle().await;
    let after = world.uid::<Secret>("acme-cache");
    assert!(after.is_some() && after != before);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn no_database_starts_on_a_volume_of_another_owner() {
    for has_secret in [false, true] {
        let world = World::start(FakeApiServer::default());
        let metadata = json!({"name": "acme-postgres", "namespace": NAMESPACE});
        let claim: PersistentVolumeClaim =
            serde_json::from_value(json!({"metadata": metadata.clone()})).unwrap();
        let claim = world.server.create(&claim);
        if has_secret {
            let mut metadata = metadata;
            metadata["labels"] = json!({INSTANCE_LABEL: "acme"});
            let data = json!({"username": "c2hvcnRlbmVy", "password": "a2VwdA=="});
            let secret: Secret =
                serde_json::from_value(json!({"metadata": metadata, "data": data})).unwrap();
            world.server.create(&secret);
        }
        world.server.create(&stored_stack(json!({})));
        world.settle().await;
        let degraded = world.condition("acme", "Degraded");
        assert_eq!(degraded.reason, "NameTaken", "{}", degraded.message);
        let live = world
            .server
            .get::<PersistentVolumeClaim>(NAMESPACE, "acme-postgres");
        assert_eq!(live, Some(claim), "{has_secret}");
        assert_eq!(world.uid::<StatefulSet>("acme-postgres"), None);
        assert_eq!(world.uid::<Secret>("acme-postgres").is_some(), has_secret);

        world
            .server
            .delete::<PersistentVolumeClaim>(NAMESPACE, "acme-postgres");
        world.pass(RETRIED).await;
        assert_eq!(world.children(), CHILDREN, "{has_secret}");
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}
