//! Errors in the middle of a move: each is named with its remedy, and none hides that the database takes no writes.

use shortener_operator_core::model::defaults::PodTemplatePolicy;

use super::*;
use crate::testing::api_server::Fault;

/// Checks that the database has this problem, which ends no step, and that the stack does not claim to take writes.
fn holds_the_move(world: &World, expected: &str) {
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, expected, "{database:?}");
    for type_ in ["DatabaseReady", "Ready"] {
        assert_eq!(world.condition("acme", type_).status, "False", "{type_}");
    }
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    assert!(database.message.contains("writes get 503"), "{database:?}");
    assert_eq!(workers(world), 0);
    assert!(server(world).is_some_and(|(frozen, _)| frozen));
    assert!(!has_the_cluster(world, APP));
}

fn unrestricted() -> Settings {
    Settings {
        pod_template_policy: PodTemplatePolicy::Unrestricted,
        ..settings()
    }
}

#[tokio::test(start_paused = true)]
async fn a_bootstrap_of_another_shape_is_refused_and_ends_no_operator() {
    for bootstrap in [json!("x"), json!([]), json!({"initdb": "x"}), json!(7)] {
        let world = managed_by(unrestricted()).await;
        let odd = json!({"storage": "3Gi", "template": {"bootstrap": bootstrap}});
        ask(&world, odd.clone()).await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, "TemplateRefused", "{database:?}");
        assert!(database.message.contains("template: bootstrap"));
        assert_eq!(server(&world), Some((false, 1)));
        proceed(&world, 1).await;
        assert_eq!(reason(&world), "MoveImporting");
        ask(&world, odd).await;
        holds_the_move(&world, "TemplateRefused");
        assert!(imports(&world));
        proceed(&world, 2).await;
        assert_eq!(reason(&world), "MoveComparing", "{bootstrap}");
    }
}

#[tokio::test(start_paused = true)]
async fn another_way_to_begin_is_refused_with_a_remedy_that_lets_the_links_move() {
    let world = managed_by(unrestricted()).await;
    let recovery = json!({"bootstrap": {"recovery": {"source": "old"}}});
    ask(&world, json!({"storage": "3Gi", "template": recovery})).await;
    let database = world.condition("acme", "DatabaseReady");
    assert!(
        database
            .message
            .contains("bootstrap.recovery excludes the links of the managed database: remove it;"),
        "{database:?}"
    );
    assert_eq!(server(&world), Some((false, 1)));
    ask(&world, json!({"storage": "3Gi"})).await;
    assert_eq!(reason(&world), "MoveFreezing");
}

#[tokio::test(start_paused = true)]
async fn an_image_that_cannot_read_the_dump_is_refused_before_anything_changes() {
    let world = managed().await;
    let image = |tag: &str| {
        let image = format!("ghcr.io/cloudnative-pg/postgresql:{tag}");
        json!({"storage": "3Gi", "template": {"imageName": image}})
    };
    ask(&world, image("17.6")).await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "TemplateRefused", "{database:?}");
    assert!(
        database.message.contains("PostgreSQL 18 or later"),
        "{database:?}"
    );
    assert_eq!(server(&world), Some((false, 1)));
    for tag in ["18.0", "19", "minimal"] {
        ask(&world, image(tag)).await;
        assert_eq!(reason(&world), "MoveFreezing", "{tag}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_does_not_hide_that_the_database_takes_no_writes() {
    let refused = json!({"storage": "3Gi", "template": {"superuserSecret": {"name": "x"}}});
    for (steps, spec, expected) in [
        (0, refused.clone(), "TemplateRefused"),
        (0, json!({"storage": "1Gi"}), "MoveTooSmall"),
        (1, refused.clone(), "TemplateRefused"),
        (2, refused.clone(), "TemplateRefused"),
        (3, refused, "TemplateRefused"),
    ] {
        let world = managed().await;
        proceed(&world, steps).await;
        let before = reason(&world);
        ask(&world, spec).await;
        holds_the_move(&world, expected);
        ask(&world, json!({"storage": "3Gi"})).await;
        assert_eq!(reason(&world), before, "{steps}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_cannot_be_read_holds_a_move_and_does_not_hide_it() {
    let world = managed().await;
    proceed(&world, 2).await;
    let read = |fault| world.server.fail_reads_of("acme-pg-app", fault);
    read(Some(Fault::Refuse(403)));
    world.pass(Duration::from_secs(600)).await;
    let database = world.condition("acme", "DatabaseReady");
    holds_the_move(&world, &database.reason);
    read(None);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(reason(&world), "MoveComparing");
}

#[tokio::test(start_paused = true)]
async fn an_error_on_the_way_back_does_not_hide_it_either() {
    let world = managed().await;
    proceed(&world, 2).await;
    let managed = |image: &str| {
        let database = json!({"managed": {"image": image}});
        world.edit_spec("acme", |spec| spec["database"] = database);
    };
    managed("postgres:17.6");
    world.settle().await;
    holds_the_move(&world, "VersionRefused");
    managed("postgres:18.6");
    world.settle().await;
    run(&world, 1).await;
    assert_eq!(reason(&world), "PodsReady");
    assert_eq!(server(&world), Some((false, 1)));
    assert!(workers(&world) > 0);
}

#[tokio::test(start_paused = true)]
async fn no_link_moves_to_a_version_of_cloudnativepg_with_a_hole() {
    let world = managed().await;
    proceed(&world, 1).await;
    import_by("1.29.0", &world, 2).await;
    holds_the_move(&world, "ClusterVulnerable");
    assert_eq!(server(&world), Some((true, 1)));
    assert_eq!(world.uid::<Deployment>(COMPARISON), None);
    let mended = |version: &str| {
        world
            .server
            .edit::<Secret>(NAMESPACE, "acme-pg-app", |secret| {
                secret["metadata"]["annotations"][OPERATOR_VERSION] = json!(version);
            });
    };
    mended("1.29.1");
    world.settle().await;
    assert_eq!(reason(&world), "MoveComparing");
    // An older version may take its place again.
    compare(&world, true).await;
    mended("1.28.2");
    world.settle().await;
    holds_the_move(&world, "ClusterVulnerable");
    run(&world, 0).await;
    holds_the_move(&world, "ClusterVulnerable");
    assert_eq!(server(&world), Some((true, 1)));
}

/// Adds the pod of the managed database.
fn add_pod(world: &World, metadata: &Value, status: &Value) {
    let template = &live::<StatefulSet>(world, SERVER)["spec"]["template"];
    let mut pod = json!({
        "metadata": {
            "name": "acme-postgres-0", "namespace": NAMESPACE,
            "labels": template["metadata"]["labels"],
        },
        "spec": {"containers": [], "nodeName": "n"},
        "status": status,
    });
    for (key, value) in metadata.as_object().unwrap() {
        pod["metadata"][key] = value.clone();
    }
    let pod: Pod = serde_json::from_value(pod).unwrap();
    world.server.create(&pod);
}

#[tokio::test(start_paused = true)]
async fn a_crash_of_the_managed_database_is_named_at_every_step() {
    for steps in 0..3 {
        let world = managed().await;
        proceed(&world, steps).await;
        let step = reason(&world);
        let crash = json!({"containerStatuses": [{
            "name": "postgres", "ready": false, "restartCount": 4, "image": "", "imageID": "",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        }]});
        add_pod(&world, &json!({}), &crash);
        world.settle().await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, "CrashLoop", "{step}: {database:?}");
        assert_eq!(world.condition("acme", "Degraded").status, "True");
    }
}

#[tokio::test(start_paused = true)]
async fn a_lost_node_of_the_managed_database_is_named_at_every_step() {
    for steps in 0..4 {
        let world = managed().await;
        proceed(&world, steps).await;
        let step = reason(&world);
        let ends = json!({
            "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["test/node"],
        });
        add_pod(&world, &ends, &json!({}));
        world.settle().await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, "NodeLost", "{step}: {database:?}");
        assert_eq!(world.condition("acme", "Degraded").status, "True");
    }
}

#[tokio::test(start_paused = true)]
async fn an_import_that_does_not_end_is_named_with_its_log() {
    let world = managed().await;
    proceed(&world, 1).await;
    let waits = |since: &str| {
        let since = since.to_owned();
        json!({"phase": "Setting up primary", "conditions": [{
            "type": "Ready", "status": "False", "reason": "ClusterIsNotReady", "message": "",
            "lastTransitionTime": since,
        }]})
    };
    let now = (world.context.clock)().to_string();
    world.report::<Cluster>(CLUSTER, waits(&now)).await;
    assert_eq!(reason(&world), "MoveImporting");
    world
        .report::<Cluster>(CLUSTER, waits("2026-01-01T00:00:00Z"))
        .await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "ImportOverdue", "{database:?}");
    assert!(
        database
            .message
            .contains("kubectl logs -l cnpg.io/jobRole=import"),
        "{database:?}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "True");
}

#[tokio::test(start_paused = true)]
async fn only_a_cluster_that_had_other_links_can_be_used_as_it_is() {
    let message = |world: &World| world.condition("acme", "DatabaseReady").message;
    let world = managed().await;
    proceed(&world, 1).await;
    go_back(&world).await;
    ask(&world, json!({"storage": "3Gi"})).await;
    let left = message(&world);
    assert!(left.contains("Cluster acme-pg exists already"), "{left}");
    assert!(!left.contains("as it is"), "{left}");

    let world = managed().await;
    let spec = json!({"metadata": {"name": CLUSTER, "namespace": NAMESPACE}, "spec": {}});
    world
        .server
        .create::<Cluster>(&serde_json::from_value(spec).unwrap());
    ask(&world, json!({"storage": "3Gi"})).await;
    let found = message(&world);
    assert!(found.contains("to use the Cluster as it is"), "{found}");
    for message in [left, found] {
        assert_eq!(
            message.to_lowercase().matches("until then").count(),
            1,
            "{message}"
        );
    }
}
