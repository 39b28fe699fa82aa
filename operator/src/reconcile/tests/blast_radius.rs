//! Tests of failures and missing references that stay with the component that they are about.

use std::time::Duration;

use k8s_openapi::{
    ByteString,
    api::{
        apps::v1::{Deployment, StatefulSet},
        core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
        networking::v1::NetworkPolicy,
    },
};
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::{INSTANCE_LABEL, USABLE_BY_STACKS};

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Starts a stack on a server that fails.
fn start(server: FakeApiServer, spec: Value) -> World {
    let world = World::start(server);
    world.server.create(&stored_stack(spec));
    world
}

#[tokio::test(start_paused = true)]
async fn a_refused_kind_is_named_by_its_component_and_everything_else_is_there() {
    for (status, reason) in [(403, "Forbidden"), (500, "ApplyFailed")] {
        let server = FakeApiServer::default();
        server.fail_kind::<StatefulSet>(Some(Fault::Refuse(status)));
        let world = start(server, json!({}));
        world.settle().await;
        let missing = "statefulsets/acme-postgres";
        let expected = CHILDREN.into_iter().filter(|child| *child != missing);
        assert_eq!(world.children(), expected.collect::<Vec<_>>());
        for type_ in ["DatabaseReady", "Degraded"] {
            let named = world.condition("acme", type_);
            assert_eq!(named.reason, reason, "{type_}");
            let sentence = "StatefulSet/acme-postgres: ";
            assert!(named.message.starts_with(sentence), "{}", named.message);
        }
        assert_eq!(world.condition("acme", "AppReady").reason, "Pending");
        world.server.fail_kind::<StatefulSet>(None);
        world.pass(Duration::from_secs(360)).await;
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn pods_and_workers_are_counted_while_a_child_is_refused() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    world
        .server
        .fail_kind::<ConfigMap>(Some(Fault::Refuse(403)));
    world.server.delete::<ConfigMap>(NAMESPACE, "acme-gateway");
    world.settle().await;
    for name in ["acme-app", "acme-worker"] {
        world.server.edit::<Deployment>(NAMESPACE, name, |object| {
            object["status"] = json!({
                "observedGeneration": object["metadata"]["generation"],
                "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            });
        });
    }
    world.settle().await;
    let status = world.stack("acme").status.unwrap();
    assert_eq!((status.app.ready_replicas, status.workers.replicas), (2, 2));
    assert_eq!(world.condition("acme", "AppReady").status, "True");
    assert_eq!(world.condition("acme", "GatewayReady").reason, "Forbidden");
}

#[tokio::test(start_paused = true)]
async fn a_refused_growth_is_taken_back_to_the_size_that_the_status_has() {
    let world = World::with_stack(json!({})).await;
    let recorded = || {
        let volumes = world.stack("acme").status.unwrap().volumes;
        volumes.unwrap().database
    };
    let resize = |size: &str| {
        let managed = json!({"managed": {"storage": size}});
        world.edit_spec("acme", |spec| spec["database"] = managed);
    };
    assert_eq!(recorded().as_deref(), Some("1Gi"));
    world
        .server
        .fail_kind::<PersistentVolumeClaim>(Some(Fault::Refuse(403)));
    resize("2Gi");
    world.settle().await;
    assert_eq!(world.condition("acme", "DatabaseReady").reason, "Forbidden");
    assert_eq!(recorded().as_deref(), Some("1Gi"));
    resize("1Gi");
    world.settle().await;
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    world.server.fail_kind::<PersistentVolumeClaim>(None);
    resize("2Gi");
    world.settle().await;
    assert_eq!(recorded().as_deref(), Some("2Gi"));
}

#[tokio::test(start_paused = true)]
async fn a_larger_volume_of_another_class_is_taken_up_as_it_is() {
    let world = World::start(FakeApiServer::default());
    let metadata = |name: &str| json!({"name": name, "namespace": NAMESPACE, "labels": {INSTANCE_LABEL: "acme"}});
    let claim = json!({
        "metadata": metadata("acme-postgres"),
        "spec": {
            "accessModes": ["ReadWriteOncePod"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "20Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "20Gi"}},
    });
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    let before = world.server.create(&claim);
    let secret = json!({
        "metadata": metadata("acme-postgres"),
        "data": {"username": "c2hvcnRlbmVy", "password": "a2VwdA=="},
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    world.server.create(&secret);
    let spec =
        json!({"deletionPolicy": "Delete", "database": {"managed": {"storageClassName": "slow"}}});
    world.server.create(&stored_stack(spec));
    world.settle().await;
    let live = || {
        let found = world
            .server
            .get::<PersistentVolumeClaim>(NAMESPACE, "acme-postgres");
        found.unwrap()
    };
    assert_eq!(live().spec, before.spec);
    let owners = live().metadata.owner_references.unwrap_or_default();
    assert_eq!(owners.len(), 1);
    let status = world.stack("acme").status.unwrap();
    assert_eq!(status.volumes.unwrap().database.as_deref(), Some("20Gi"));
    assert_eq!(world.condition("acme", "Degraded").status, "False");

    world.edit_spec("acme", |spec| {
        spec["database"]["managed"]["storage"] = "30Gi".into();
    });
    world.settle().await;
    let requested = serde_json::to_value(live().spec).unwrap();
    assert_eq!(requested["resources"]["requests"]["storage"], "30Gi");

    let before = live();
    world
        .server
        .edit::<PersistentVolumeClaim>(NAMESPACE, "acme-postgres", |claim| {
            claim["metadata"]["labels"] = json!({INSTANCE_LABEL: "acme"});
        });
    world.settle().await;
    assert_eq!(live().spec, before.spec, "it is taken up once more");
    assert_eq!(live().metadata.labels, before.metadata.labels);
    let database = world.condition("acme", "DatabaseReady");
    assert_ne!(database.reason, "VolumeNotGrown");
    let status = world.stack("acme").status.unwrap();
    assert_eq!(status.volumes.unwrap().database.as_deref(), Some("20Gi"));
}

#[tokio::test(start_paused = true)]
async fn calls_that_hang_starve_neither_later_children_nor_the_status() {
    let server = FakeApiServer::default();
    server.fail_kind::<ServiceAccount>(Some(Fault::Hang));
    server.fail_kind::<ConfigMap>(Some(Fault::Hang));
    let world = start(server, json!({}));
    world.pass(Duration::from_secs(25)).await;
    let children = world.children();
    for child in ["deployments/acme-app", "ingresses/acme-gateway"] {
        assert!(children.contains(&child.to_owned()), "{child}");
    }
    let progressing = world.condition("acme", "Progressing");
    assert_eq!(
        progressing.reason, "DeadlineExceeded",
        "{}",
        progressing.message
    );
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    world.pass(Duration::from_secs(120)).await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "DeadlineExceeded", "{}", degraded.message);
}

#[tokio::test(start_paused = true)]
async fn a_write_that_is_refused_for_a_moment_is_no_fault() {
    for code in [409, 429, 503] {
        let world = World::with_stack(json!({})).await;
        world
            .server
            .fail_kind::<ConfigMap>(Some(Fault::Refuse(code)));
        world.server.delete::<ConfigMap>(NAMESPACE, "acme-gateway");
        world.pass(Duration::from_secs(5)).await;
        let progressing = world.condition("acme", "Progressing");
        assert_eq!(
            progressing.status, "True",
            "{code}: {}",
            progressing.message
        );
        assert_eq!(
            world.condition("acme", "GatewayReady").reason,
            "ApplyFailed"
        );
        assert_eq!(
            world.condition("acme", "Degraded").status,
            "False",
            "{code}"
        );
        world.pass(Duration::from_secs(60)).await;
        let degraded = world.condition("acme", "Degraded");
        assert_eq!(
            degraded.reason, "ApplyFailed",
            "{code}: {}",
            degraded.message
        );
    }
}

#[tokio::test(start_paused = true)]
async fn children_of_one_kind_are_written_side_by_side() {
    let server = FakeApiServer::default();
    let late = Fault::AnswerLate(Duration::from_secs(3));
    server.fail_kind::<ServiceAccount>(Some(late));
    let world = start(server, json!({}));
    // There are four accounts.
    world.pass(Duration::from_secs(5)).await;
    assert_eq!(world.children(), CHILDREN);
}

/// A stack with an optional part that needs a Secret of the user.
struct Broken {
    profile: &'static str,
    spec: Value,
    condition: &'static str,
}

/// Returns a stack with each such part.
fn broken() -> Vec<Broken> {
    let external = json!({"external": {"secretRef": {"name": "theirs", "key": "key"}}});
    let headers = json!({"backend": {"external": {
        "endpoint": "https://otlp.test", "headersSecretRef": {"name": "theirs"},
    }}});
    let table = [
        ("caching", "cache", external.clone(), "CacheReady"),
        ("queue", "queue", external.clone(), "QueueReady"),
        ("vector", "vector", external, "VectorReady"),
        ("observability", "observability", headers, "TelemetryReady"),
    ];
    let broken = table.map(|(profile, field, settings, condition)| Broken {
        profile,
        spec: json!({"profiles": [profile], field: settings}),
        condition,
    });
    broken.into()
}

fn create_their_secret(world: &World) {
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({
            "name": "theirs", "namespace": NAMESPACE, "labels": {USABLE_BY_STACKS: "true"},
        }))
        .unwrap(),
        data: Some([("key".to_owned(), ByteString(b"redis://one:6379".to_vec()))].into()),
        ..Secret::default()
    });
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_with_one_missing_secret_comes_up_without_that_part() {
    for Broken {
        profile,
        spec,
        condition,
    } in broken()
    {
        let world = World::with_stack(spec).await;
        let mut children = world.children();
        // Metrics and their dashboard need no collector.
        children.retain(|child| !child.ends_with("-metrics") && !child.ends_with("-dashboards"));
        assert_eq!(children, CHILDREN, "{profile}");
        for type_ in [condition, "Degraded"] {
            let named = world.condition("acme", type_);
            assert_eq!(named.reason, "SecretNotFound", "{profile}: {type_}");
            assert!(named.message.contains("Secret theirs"), "{}", named.message);
        }
        assert_eq!(world.condition("acme", "AppReady").reason, "Pending");
        let status = world.stack("acme").status.unwrap();
        assert_eq!(status.profiles, [profile]);
        create_their_secret(&world);
        world.settle().await;
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_loses_a_secret_keeps_everything_and_is_scaled_and_repaired() {
    for Broken { profile, spec, .. } in broken() {
        let server = FakeApiServer::default();
        let world = World::start(server);
        create_their_secret(&world);
        world.server.create(&stored_stack(spec));
        world.settle().await;
        let template = |world: &World| {
            let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
            let spec = app.unwrap().spec.unwrap();
            (spec.template, spec.replicas)
        };
        let (children, before) = (world.children(), template(&world));
        world.server.delete::<Secret>(NAMESPACE, "theirs");
        world.settle().await;
        assert_eq!(
            world.condition("acme", "Degraded").reason,
            "SecretNotFound",
            "{profile}"
        );
        world.edit_spec("acme", |spec| spec["app"] = json!({"replicas": 5}));
        world.server.delete::<Service>(NAMESPACE, "acme-app");
        world.settle().await;
        let mut expected = children.clone();
        expected.retain(|child| child != "secrets/theirs");
        assert_eq!(world.children(), expected, "{profile}");
        assert_eq!(template(&world), (before.0.clone(), Some(5)), "{profile}");
        // It comes to rest, and the Secret ends it without a restart.
        world.server.forget_writes();
        world.pass(Duration::from_secs(3600)).await;
        assert_eq!(world.server.writes(), [], "{profile}");
        create_their_secret(&world);
        world.settle().await;
        assert_eq!(world.children(), children, "{profile}");
        assert_eq!(template(&world), (before.0, Some(5)), "{profile}");
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_without_its_database_has_everything_but_its_app_and_its_workers() {
    let external = json!({"external": {"secretRef": {"name": "theirs", "key": "key"}}});
    let spec = json!({"profiles": ["caching", "queue"], "database": external});
    let world = World::with_stack(spec).await;
    let children = world.children();
    let has = |child: &str| children.contains(&child.to_owned());
    assert!(!has("deployments/acme-app") && !has("deployments/acme-worker"));
    for child in [
        "statefulsets/acme-cache",
        "statefulsets/acme-rabbitmq",
        "services/acme-app",
        "deployments/acme-gateway",
        "ingresses/acme-gateway",
    ] {
        assert!(has(child), "{child}");
    }
    for type_ in ["Ready", "DatabaseReady", "AppReady", "WorkersReady"] {
        let named = world.condition("acme", type_);
        assert_eq!(
            (named.status.as_str(), named.reason.as_str()),
            ("False", "SecretNotFound"),
            "{type_}"
        );
    }
    create_their_secret(&world);
    world.settle().await;
    assert!(world.uid::<Deployment>("acme-app").is_some());
    assert!(world.uid::<Deployment>("acme-worker").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_held_part_of_a_stack_that_deletes_its_data_is_not_deleted() {
    let world =
        World::with_stack(json!({"profiles": ["vector"], "deletionPolicy": "Delete"})).await;
    let children = world.children();
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-qdrant", |secret| {
            secret["data"] = json!({});
        });
    world.settle().await;
    assert_eq!(
        world.condition("acme", "VectorReady").reason,
        "CredentialsIncomplete"
    );
    world.settle().await;
    assert_eq!(world.children(), children);
}

#[tokio::test(start_paused = true)]
async fn a_bug_that_one_stack_meets_is_told_in_its_status_and_holds_up_no_other() {
    let server = FakeApiServer::default();
    server.mutate::<Deployment>(|live| {
        let labels = &live["spec"]["selector"]["matchLabels"];
        assert_ne!(labels["app.kubernetes.io/instance"], "acme");
    });
    let world = start(server, json!({}));
    world.settle().await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "Panicked", "{degraded:?}");
    let mut other = stored_stack(json!({}));
    other.metadata.name = Some("bolt".to_owned());
    world.server.create(&other);
    world.settle().await;
    assert!(world.uid::<Deployment>("bolt-app").is_some());

    world.server.mutate::<Deployment>(|_| ());
    world.pass(Duration::from_secs(360)).await;
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_gateway_that_is_held_keeps_its_way_to_the_app() {
    let world = World::with_stack(json!({})).await;
    let admitted = || {
        let policy = world.server.get::<NetworkPolicy>(NAMESPACE, "acme-app");
        let rules = policy.unwrap().spec.unwrap().ingress.unwrap();
        rules[0].from.clone()
    };
    let before = admitted();
    for (annotation, keeps) in [("a b", true), ("ab", false)] {
        let gateway =
            json!({"provider": "Standalone", "service": {"annotations": {annotation: "x"}}});
        world.edit_spec("acme", |spec| spec["gateway"] = gateway);
        world.settle().await;
        let found = world.condition("acme", "GatewayReady");
        assert_eq!(found.reason == "NotAnAnnotation", keeps, "{found:?}");
        assert_eq!(admitted() == before, keeps, "{annotation}");
    }
}
