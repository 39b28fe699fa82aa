//! Tests of a database that CloudNativePG runs: what waits for it, and what does not.

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret, networking::v1::NetworkPolicy};
use serde_json::json;
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        cloud_native_pg::{Cluster, HIBERNATION, OPERATOR_VERSION},
        drill::DRILL,
        pooler::{HOST_SETTING, Pooler},
    },
};

use crate::testing::{
    api_server::FakeApiServer,
    shared::stored_stack,
    world::{NAMESPACE, World},
};

async fn world(has_kind: bool) -> World {
    let server = FakeApiServer::default();
    if has_kind {
        server.add_kind::<Cluster>();
        server.add_kind::<Pooler>();
    }
    let world = World::start(server);
    let spec = json!({"database": {"cloudNativePG": {}}});
    world.server.create(&stored_stack(spec));
    world.settle().await;
    world
}

/// Creates the Secrets of the Cluster, as CloudNativePG does before its first server starts.
async fn begin(world: &World, version: &str) {
    let secret = |name: &str, data: serde_json::Value| -> Secret {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE, "annotations": {OPERATOR_VERSION: version},
            },
            "data": data,
        }))
        .unwrap()
    };
    world
        .server
        .create(&secret("acme-pg-app", json!({"uri": "cG9zdGdyZXM6Ly9h"})));
    world.server.create(&secret(
        "acme-pg-ca",
        json!({"ca.crt": "Y2VydA==", "ca.key": "a2V5"}),
    ));
    let status = json!({"phase": "Setting up primary", "instances": 1});
    world.report::<Cluster>("acme-pg", status).await;
}

/// Reports that the first server has taken writes.
async fn serve(world: &World) {
    let ready = json!({
        "type": "Ready", "status": "True", "reason": "ClusterIsReady", "message": "",
        "lastTransitionTime": "2026-01-01T00:00:00Z",
    });
    let status = json!({
        "phase": "Cluster in healthy state", "instances": 3, "readyInstances": 3,
        "currentPrimary": "acme-pg-1", "conditions": [ready],
    });
    world.report::<Cluster>("acme-pg", status).await;
}

#[tokio::test(start_paused = true)]
async fn the_programs_wait_for_the_database_and_that_is_no_fault() {
    let world = world(true).await;
    assert!(world.uid::<Cluster>("acme-pg").is_some());
    assert!(world.uid::<NetworkPolicy>("acme-pg").is_some());
    begin(&world, "1.30.0").await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "ClusterStarting");
    assert!(
        database.message.contains("Setting up primary"),
        "{database:?}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    assert_eq!(world.condition("acme", "Progressing").status, "True");
    assert_eq!(world.uid::<Deployment>("acme-app"), None);

    serve(&world).await;
    assert_eq!(world.verdict("DatabaseReady"), "True ClusterReady");
    assert!(world.uid::<Deployment>("acme-app").is_some());
    // A failover changes no object.
    world.server.forget_writes();
    let status = json!({"phase": "Failing over", "currentPrimary": "acme-pg-1"});
    world.report::<Cluster>("acme-pg", status).await;
    assert_eq!(world.verdict("DatabaseReady"), "False ClusterNotReady");
    assert_eq!(world.child_writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_kind_is_named_with_the_remedy_until_it_has_it() {
    let world = world(false).await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "ClusterKindMissing");
    assert!(
        database.message.contains("install CloudNativePG"),
        "{database:?}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    world.server.add_kind::<Cluster>();
    world.server.add_kind::<Pooler>();
    world.pass(std::time::Duration::from_secs(120)).await;
    assert!(world.uid::<Cluster>("acme-pg").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_version_with_a_hole_is_refused_until_it_is_replaced() {
    let world = world(true).await;
    begin(&world, "1.29.0").await;
    serve(&world).await;
    assert_eq!(
        world.condition("acme", "DatabaseReady").reason,
        "ClusterVulnerable"
    );
    assert_eq!(world.uid::<Deployment>("acme-app"), None);
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-pg-app", |secret| {
            secret["metadata"]["annotations"][OPERATOR_VERSION] = json!("1.29.1");
        });
    world.settle().await;
    assert_eq!(world.verdict("DatabaseReady"), "True ClusterReady");
}

#[tokio::test(start_paused = true)]
async fn a_stack_whose_deletion_has_begun_unseen_gets_no_cluster_again() {
    let world = world(true).await;
    world.begin_unseen_deletion().await;
    world.server.delete::<Cluster>(NAMESPACE, "acme-pg");
    world.settle().await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_the_spec_no_longer_names_outlives_the_stack_if_data_is_kept() {
    let external = json!({"external": {"secretRef": {"name": "theirs"}}});
    for (database, is_used) in [
        (json!({"managed": {}}), false),
        (json!({"managed": {}}), true),
        (external, true),
    ] {
        let world = world(true).await;
        if is_used {
            begin(&world, "1.30.0").await;
            serve(&world).await;
        }
        let owners = || {
            let cluster: Cluster = world.server.get(NAMESPACE, "acme-pg").unwrap();
            cluster.metadata.owner_references.map_or(0, |all| all.len())
        };
        world.edit_spec("acme", |spec| spec["deletionPolicy"] = "Delete".into());
        world.settle().await;
        assert_eq!(owners(), 1);
        world.edit_spec("acme", |spec| spec["paused"] = true.into());
        world.settle().await;
        world.edit_spec("acme", |spec| {
            spec["database"] = database.clone();
            spec["deletionPolicy"] = "Retain".into();
            spec["paused"] = false.into();
        });
        world.settle().await;
        assert_eq!(owners(), 0, "{database} {is_used}");
        world.server.forget_writes();
        world.settle().await;
        assert_eq!(world.child_writes(), Vec::<String>::new());
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_a_drill_has_stopped_wakes_for_the_next_stack_of_the_name() {
    let world = world(true).await;
    begin(&world, "1.30.0").await;
    serve(&world).await;
    let server = &world.server;
    server.edit::<Cluster>(NAMESPACE, "acme-pg", |cluster| {
        cluster["metadata"]["annotations"][HIBERNATION] = json!("on");
        cluster["metadata"]["annotations"][DRILL] = json!("mine");
    });
    server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    let annotations = || {
        let cluster: Cluster = server.get(NAMESPACE, "acme-pg").unwrap();
        cluster.metadata.annotations.unwrap()
    };
    assert_eq!(annotations()[HIBERNATION], "on", "it outlives the stack");
    let spec = json!({"database": {"cloudNativePG": {}}});
    server.create(&stored_stack(spec));
    world.settle().await;
    assert_eq!(annotations()[HIBERNATION], "off");
    assert!(!annotations().contains_key(DRILL));
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_others_is_not_touched() {
    let server = FakeApiServer::default();
    server.add_kind::<Cluster>();
    server.add_kind::<Pooler>();
    let foreign: Cluster = serde_json::from_value(json!({
        "metadata": {"name": "acme-pg", "namespace": NAMESPACE},
        "spec": {"instances": 1},
    }))
    .unwrap();
    server.create(&foreign);
    let world = World::start(server);
    let spec = json!({"database": {"cloudNativePG": {}}});
    world.server.create(&stored_stack(spec));
    world.settle().await;
    let live: Cluster = world.server.get(NAMESPACE, "acme-pg").unwrap();
    assert_eq!(live.spec, foreign.spec);
    assert_eq!(world.uid::<Deployment>("acme-app"), None);
    assert_eq!(world.condition("acme", "DatabaseReady").reason, "NameTaken");
}

/// Reports the pods of the app: of the newest template, and of all.
async fn roll(world: &World, [updated, all]: [i32; 2]) {
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-app", |app| {
            let generation = app["metadata"]["generation"].clone();
            app["status"] = json!({
                "observedGeneration": generation, "updatedReplicas": updated, "replicas": all,
            });
        });
    world.settle().await;
}

/// Returns true when the app's pods are told of the pooler.
fn knows_pooler(world: &World) -> bool {
    let app: Deployment = world.server.get(NAMESPACE, "acme-app").unwrap();
    let pod = app.spec.unwrap().template.spec.unwrap();
    let mut variables = pod.containers[0].env.iter().flatten();
    variables.any(|variable| variable.name == HOST_SETTING)
}

#[tokio::test(start_paused = true)]
async fn a_pooler_comes_while_the_stack_runs_and_goes_after_the_last_pod_that_knows_only_it() {
    let world = world(true).await;
    begin(&world, "1.30.0").await;
    serve(&world).await;
    roll(&world, [2, 2]).await;
    assert_eq!(world.uid::<Pooler>("acme-pg-pooler"), None);
    let pooled = |pooler: serde_json::Value| {
        world.edit_spec("acme", |spec| {
            spec["database"]["cloudNativePG"]["pooler"] = pooler;
        });
    };
    pooled(json!({}));
    world.settle().await;
    let uid = world.uid::<Pooler>("acme-pg-pooler");
    assert!(uid.is_some() && knows_pooler(&world));
    roll(&world, [2, 2]).await;

    pooled(json!(null));
    world.settle().await;
    assert!(!knows_pooler(&world));
    roll(&world, [1, 3]).await;
    assert_eq!(world.uid::<Pooler>("acme-pg-pooler"), uid);
    roll(&world, [2, 2]).await;
    assert_eq!(world.uid::<Pooler>("acme-pg-pooler"), None);
}
