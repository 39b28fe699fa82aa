//! Tests of the life of a stack: creation, settings, deletion, and other stacks in the same cluster.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service},
};
use serde_json::json;
use shortener_operator_core::api::ShortenerStack;

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Every child of a stack of `spec: {}`.
pub(super) const CHILDREN: [&str; 26] = [
    "configmaps/acme-gateway",
    "cronjobs/acme-purge",
    "deployments/acme-app",
    "deployments/acme-gateway",
    "ingresses/acme-gateway",
    "ingresses/acme-gateway-api",
    "networkpolicies/acme-app",
    "networkpolicies/acme-default-deny",
    "networkpolicies/acme-gateway",
    "networkpolicies/acme-postgres",
    "networkpolicies/acme-purge",
    "persistentvolumeclaims/acme-postgres",
    "poddisruptionbudgets/acme-app",
    "poddisruptionbudgets/acme-gateway",
    "secrets/acme-checksum",
    "secrets/acme-job-ids",
    "secrets/acme-management",
    "secrets/acme-postgres",
    "serviceaccounts/acme-app",
    "serviceaccounts/acme-gateway",
    "serviceaccounts/acme-postgres",
    "serviceaccounts/acme-purge",
    "services/acme-app",
    "services/acme-gateway",
    "services/acme-postgres",
    "statefulsets/acme-postgres",
];

fn children() -> Vec<&'static str> {
    CHILDREN.to_vec()
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_gets_every_child_exactly_once() {
    let world = World::start(FakeApiServer::default());
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    assert_eq!(world.children(), children());
    assert_eq!(world.creations(), children().len());
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    assert_eq!(
        world.stack("acme").status.unwrap().observed_generation,
        Some(1)
    );
}

#[tokio::test(start_paused = true)]
async fn an_hour_of_rest_writes_nothing() {
    let world = World::with_stack(json!({})).await;
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_nothing() {
    let world = World::with_stack(json!({})).await.restart().await;
    world.settle().await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_is_asked_to_end_does() {
    World::with_stack(json!({})).await.end().await;
}

#[tokio::test(start_paused = true)]
async fn another_provider_removes_the_ingresses_and_adds_the_pods_of_the_app() {
    let world = World::with_stack(json!({})).await;
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into()
        });
    world.edit_spec("acme", |spec| {
        spec["gateway"]["provider"] = "Standalone".into()
    });
    world.settle().await;
    let mut expected: Vec<&str> = children()
        .into_iter()
        .filter(|name| !name.starts_with("ingresses/"))
        .collect();
    expected.push("services/acme-app-pods");
    expected.sort_unstable();
    assert_eq!(world.children(), expected);
    let config = world
        .server
        .get::<ConfigMap>(NAMESPACE, "acme-gateway")
        .unwrap()
        .data
        .unwrap();
    assert!(
        config["nginx.conf"].contains("10.0.0.7:3000"),
        "{}",
        config["nginx.conf"]
    );
}

#[tokio::test(start_paused = true)]
async fn a_recreated_app_service_never_takes_the_gateway_down() {
    let world = World::with_stack(json!({"gateway": {"provider": "Standalone"}})).await;
    world
        .server
        .edit::<Service>(NAMESPACE, "acme-app", |service| {
            service["spec"]["clusterIP"] = "10.0.0.7".into()
        });
    world.settle().await;
    let before = world.uid::<k8s_openapi::api::apps::v1::Deployment>("acme-gateway");
    world.server.delete::<Service>(NAMESPACE, "acme-app");
    world.settle().await;
    assert!(before.is_some());
    assert_eq!(
        world.uid::<k8s_openapi::api::apps::v1::Deployment>("acme-gateway"),
        before
    );
}

#[tokio::test(start_paused = true)]
async fn moving_to_an_external_database_keeps_volume_and_credentials() {
    let world = World::with_stack(json!({})).await;
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": "db", "namespace": NAMESPACE})).unwrap(),
        data: Some(
            [(
                "url".to_owned(),
                k8s_openapi::ByteString(b"postgres://db".to_vec()),
            )]
            .into(),
        ),
        ..Secret::default()
    });
    world.edit_spec("acme", |spec| {
        spec["database"] = json!({"external": {"secretRef": {"name": "db", "key": "url"}}})
    });
    world.settle().await;
    let names = world.children();
    for gone in [
        "statefulsets/acme-postgres",
        "services/acme-postgres",
        "networkpolicies/acme-postgres",
    ] {
        assert!(
            !names.iter().any(|name| name == gone),
            "{gone} is still there"
        );
    }
    for kept in [
        "persistentvolumeclaims/acme-postgres",
        "secrets/acme-postgres",
        "secrets/db",
    ] {
        assert!(names.iter().any(|name| name == kept), "{kept} is gone");
    }
}

#[tokio::test(start_paused = true)]
async fn nothing_is_created_for_a_stack_that_is_deleted_while_it_is_reconciled() {
    let world = World::start(FakeApiServer::default());
    let slow = Duration::from_secs(5);
    world.server.fail_write(5, Fault::AnswerLate(slow));
    world.server.create(&stored_stack(json!({})));
    world.pass(slow / 2).await;
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    let before = world.creations();
    world.settle().await;
    assert_eq!(world.creations(), before);
    assert_eq!(world.children(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_gone_when_its_status_is_written_is_no_failure() {
    let world = World::start(FakeApiServer::default());
    let gone = Fault::Refuse(404);
    world.server.fail_kind::<ShortenerStack>(Some(gone));
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    assert!(!world.children().is_empty());
    let page = world.metrics();
    assert!(!page.contains("reconcile_errors_total{"), "{page}");
    // If the answer was wrong, the status follows soon.
    world.server.fail_kind::<ShortenerStack>(None);
    world.pass(Duration::from_secs(2)).await;
    assert!(world.stack("acme").status.is_some());
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_is_deleted_while_its_stack_is_reconciled_gets_new_data() {
    let world = World::with_stack(json!({})).await;
    let slow = Duration::from_secs(5);
    // The policies of the cache are written before the Secrets.
    world.server.fail_write(1, Fault::AnswerLate(slow));
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["caching"]));
    world.pass(slow / 2).await;
    world.server.delete::<Secret>(NAMESPACE, "acme-job-ids");
    world.settle().await;
    let secret = world.server.get::<Secret>(NAMESPACE, "acme-job-ids");
    let data = secret.and_then(|secret| secret.data);
    assert!(data.is_some_and(|data| data.contains_key("key")));
}

#[tokio::test(start_paused = true)]
async fn data_outlives_its_stack_unless_the_policy_says_otherwise() {
    for (policy, kept) in [("Retain", true), ("Delete", false)] {
        let world = World::with_stack(json!({"deletionPolicy": policy})).await;
        let volume = world.uid::<PersistentVolumeClaim>("acme-postgres");
        world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
        world.settle().await;
        let expected: &[&str] = if kept {
            &[
                "persistentvolumeclaims/acme-postgres",
                "secrets/acme-checksum",
                "secrets/acme-job-ids",
                "secrets/acme-management",
                "secrets/acme-postgres",
            ]
        } else {
            &[]
        };
        assert_eq!(world.children(), expected, "{policy}");
        world.server.create(&stored_stack(json!({})));
        world.settle().await;
        assert_eq!(
            world.uid::<PersistentVolumeClaim>("acme-postgres") == volume,
            kept,
            "{policy}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_made_again_over_a_kept_volume_keeps_its_major_version() {
    let world = World::with_stack(json!({})).await;
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    let image = json!({"database": {"managed": {"image": "registry.test:5000/postgres:17.6"}}});
    world.server.create(&stored_stack(image));
    world.settle().await;
    assert_eq!(world.uid::<StatefulSet>("acme-postgres"), None);
    let status = world.stack("acme").status.unwrap();
    let mut conditions = status.conditions.iter();
    let refused = conditions.find(|condition| condition.reason == "VersionRefused");
    let message = &refused.unwrap().message;
    for part in ["database.managed.image", "acme-postgres", "PostgreSQL 18"] {
        assert!(message.contains(part), "{message}");
    }
    world.edit_spec("acme", |spec| spec["database"] = json!({}));
    world.settle().await;
    assert!(world.uid::<StatefulSet>("acme-postgres").is_some());
}

#[tokio::test(start_paused = true)]
async fn the_policy_for_the_data_can_change_in_both_directions() {
    let world = World::with_stack(json!({"deletionPolicy": "Delete"})).await;
    let owned = |world: &World| {
        let secret = world
            .server
            .get::<Secret>(NAMESPACE, "acme-postgres")
            .unwrap();
        let claim = world
            .server
            .get::<PersistentVolumeClaim>(NAMESPACE, "acme-postgres")
            .unwrap();
        [secret.metadata, claim.metadata].map(|data| {
            data.owner_references
                .is_some_and(|owners| !owners.is_empty())
        })
    };
    assert_eq!(owned(&world), [true, true]);
    for (policy, expected) in [("Retain", false), ("Delete", true)] {
        world.edit_spec("acme", |spec| spec["deletionPolicy"] = policy.into());
        world.settle().await;
        assert_eq!(owned(&world), [expected, expected], "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_younger_of_two_stacks_on_one_host_waits_and_takes_over() {
    let world = World::with_stack(json!({})).await;
    let mut younger = stored_stack(json!({}));
    younger.metadata.name = Some("bolt".to_owned());
    world.server.create(&younger);
    world.settle().await;
    assert_eq!(
        world.condition("bolt", "GatewayReady").reason,
        "HostConflict"
    );
    assert!(
        !world
            .children()
            .contains(&"ingresses/bolt-gateway".to_owned())
    );
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    assert_ne!(
        world.condition("bolt", "GatewayReady").reason,
        "HostConflict"
    );
    assert!(
        world
            .children()
            .contains(&"ingresses/bolt-gateway".to_owned())
    );
}

#[tokio::test(start_paused = true)]
async fn a_paused_stack_is_left_alone_until_it_goes_on() {
    let world = World::with_stack(json!({"paused": true})).await;
    assert_eq!(world.children(), Vec::<String>::new());
    assert_eq!(world.condition("acme", "Progressing").reason, "Paused");
    world.edit_spec("acme", |spec| spec["paused"] = false.into());
    world.settle().await;
    assert_eq!(world.children(), children());
}
