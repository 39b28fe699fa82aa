//! Tests of the move of the links from a managed database to a Cluster: each step waits for the one before, and nothing is
//! lost wherever a move ends.

mod errors;
mod made_again;
mod return_to_managed;

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{PersistentVolumeClaim, Pod, Secret, Service},
    networking::v1::NetworkPolicy,
};
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_operator_core::model::{
    cloud_native_pg::{Cluster, OPERATOR_VERSION},
    pooler::Pooler,
};

use crate::{
    cli::settings::Settings,
    testing::{
        api_server::FakeApiServer,
        settings,
        shared::stored_stack,
        world::{NAMESPACE, World},
    },
};

const SERVER: &str = "acme-postgres";
const CLUSTER: &str = "acme-pg";
const COMPARISON: &str = "acme-move";
const APP: &str = "acme-app";
const READ_ONLY: &str = "default_transaction_read_only=on";

/// Returns a stack with the queue, whose managed database serves and has a volume of 1Gi.
async fn managed() -> World {
    managed_by(settings()).await
}

/// Returns the same of an operator with these settings.
async fn managed_by(settings: Settings) -> World {
    let server = FakeApiServer::default();
    server.add_kind::<Cluster>();
    server.add_kind::<Pooler>();
    let world = World::start_set(settings, server);
    let managed = json!({"podTemplate": {"spec": {"priorityClassName": "high"}}});
    let spec = json!({"profiles": ["queue"], "database": {"managed": managed}});
    world.server.create(&stored_stack(spec));
    world.settle().await;
    run(&world, 1).await;
    world
}

/// Asks for a Cluster in place of the managed database.
async fn ask(world: &World, cluster: Value) {
    world.edit_spec("acme", |spec| {
        spec["database"] = json!({"cloudNativePG": cluster})
    });
    world.settle().await;
}

/// Asks for the managed database again.
async fn go_back(world: &World) {
    world.edit_spec("acme", |spec| spec["database"] = json!({"managed": {}}));
    world.settle().await;
}

/// Reports that as many pods as wanted of the newest template of the managed database run.
async fn run(world: &World, pods: i32) {
    world.server.edit::<StatefulSet>(NAMESPACE, SERVER, |set| {
        set["status"] = json!({
            "observedGeneration": set["metadata"]["generation"],
            "replicas": pods, "readyReplicas": pods, "updatedReplicas": pods,
        });
    });
    world.settle().await;
}

/// Does what CloudNativePG does until so many servers are ready.
async fn import(world: &World, servers: i32) {
    import_by("1.30.0", world, servers).await;
}

/// Does what this version of CloudNativePG does.
async fn import_by(version: &str, world: &World, servers: i32) {
    let secret = |name: &str, data: Value| -> Secret {
        serde_json::from_value(json!({
            "metadata": {
                "name": name, "namespace": NAMESPACE, "annotations": {OPERATOR_VERSION: version},
            },
            "data": data,
        }))
        .unwrap()
    };
    let secrets = [
        secret("acme-pg-app", json!({"uri": "cG9zdGdyZXM6Ly9h"})),
        secret("acme-pg-ca", json!({"ca.crt": "Y2VydA=="})),
    ];
    for secret in secrets {
        if world
            .server
            .get::<Secret>(NAMESPACE, &secret.name_any())
            .is_none()
        {
            world.server.create(&secret);
        }
    }
    world.server.edit::<Cluster>(NAMESPACE, CLUSTER, |cluster| {
        cluster["status"] = json!({
            "phase": "Creating a new replica", "instances": servers, "readyInstances": servers,
            "currentPrimary": "acme-pg-1",
        });
    });
    world.settle().await;
}

/// Reports that the comparison has found the same, or not yet.
async fn compare(world: &World, same: bool) {
    world
        .server
        .edit::<Deployment>(NAMESPACE, COMPARISON, |comparison| {
            comparison["status"] = json!({
                "observedGeneration": comparison["metadata"]["generation"],
                "replicas": 1, "updatedReplicas": 1, "readyReplicas": i32::from(same),
            });
        });
    world.settle().await;
}

/// Asks for a Cluster and goes through so many steps after the first one.
async fn proceed(world: &World, steps: usize) {
    ask(world, json!({"storage": "3Gi"})).await;
    for step in 0..steps {
        match step {
            0 => run(world, 1).await,
            1 => import(world, 2).await,
            2 => compare(world, true).await,
            _ => run(world, 0).await,
        }
    }
}

/// Returns the reason of `DatabaseReady`, which nothing but a served stack has as true.
fn reason(world: &World) -> String {
    let found = world.condition("acme", "DatabaseReady");
    let ready = world.condition("acme", "Ready");
    if found.reason.starts_with("Move") {
        assert_eq!(
            (found.status.as_str(), ready.status.as_str()),
            ("False", "False")
        );
        assert_eq!(found.reason, ready.reason);
    }
    found.reason
}

fn live<K>(world: &World, name: &str) -> Value
where
    K: kube::Resource<DynamicType = ()> + serde::de::DeserializeOwned + serde::Serialize,
{
    world
        .server
        .get::<K>(NAMESPACE, name)
        .map_or(Value::Null, |live| serde_json::to_value(live).unwrap())
}

/// Returns whether the managed database takes no writes, and how many pods it is to have; `None` without one.
fn server(world: &World) -> Option<(bool, i64)> {
    let set = world.server.get::<StatefulSet>(NAMESPACE, SERVER)?;
    let spec = serde_json::to_value(set.spec.unwrap()).unwrap();
    let frozen = spec["template"].to_string().contains(READ_ONLY);
    Some((frozen, spec["replicas"].as_i64().unwrap()))
}

fn has_the_cluster(world: &World, program: &str) -> bool {
    live::<Deployment>(world, program)
        .to_string()
        .contains("acme-pg-app")
}

fn imports(world: &World) -> bool {
    let cluster = live::<Cluster>(world, CLUSTER);
    cluster["spec"]["bootstrap"]["initdb"]["import"].is_object()
}

fn workers(world: &World) -> i64 {
    live::<Deployment>(world, "acme-worker")["spec"]["replicas"]
        .as_i64()
        .unwrap()
}

fn imports_from_the_managed_database(world: &World) {
    let cluster = live::<Cluster>(world, CLUSTER);
    let source = &cluster["spec"]["externalClusters"][0];
    assert_eq!(source["connectionParameters"]["host"], SERVER);
    assert_eq!(source["password"]["name"], SERVER);
    assert_eq!(
        cluster["spec"]["bootstrap"]["initdb"]["import"]["source"]["externalCluster"],
        source["name"]
    );
    let policy = live::<NetworkPolicy>(world, SERVER).to_string();
    assert!(policy.contains(r#""cnpg.io/jobRole":"import""#), "{policy}");
    assert!(world.uid::<Service>(SERVER).is_some());
}

#[tokio::test(start_paused = true)]
async fn each_step_of_a_move_waits_for_the_one_before() {
    let world = managed().await;
    let before = live::<Deployment>(&world, APP);
    let (volume, wanted) = (world.uid::<PersistentVolumeClaim>(SERVER), workers(&world));
    ask(&world, json!({"storage": "3Gi"})).await;
    assert_eq!(
        (reason(&world).as_str(), server(&world)),
        ("MoveFreezing", Some((true, 1)))
    );
    assert_eq!(world.uid::<Cluster>(CLUSTER), None);
    // Settings that the spec no longer has stay with the server.
    let set = live::<StatefulSet>(&world, SERVER);
    assert_eq!(set["spec"]["template"]["spec"]["priorityClassName"], "high");
    assert_eq!(workers(&world), 0);
    assert_eq!(
        world.condition("acme", "WorkersReady").reason,
        "MoveInProgress"
    );

    run(&world, 1).await;
    assert_eq!(reason(&world), "MoveImporting");
    imports_from_the_managed_database(&world);

    import(&world, 1).await;
    assert_eq!(
        (reason(&world).as_str(), world.uid::<Deployment>(COMPARISON)),
        ("MoveImporting", None)
    );
    import(&world, 2).await;
    assert_eq!(reason(&world), "MoveComparing");
    compare(&world, false).await;
    assert_eq!(
        (reason(&world).as_str(), server(&world)),
        ("MoveComparing", Some((true, 1)))
    );
    assert_eq!(live::<Deployment>(&world, APP)["spec"], before["spec"]);

    compare(&world, true).await;
    assert_eq!(
        (reason(&world).as_str(), server(&world)),
        ("MoveStopping", Some((true, 0)))
    );
    assert!(!has_the_cluster(&world, APP));
    run(&world, 0).await;
    assert!(has_the_cluster(&world, APP) && has_the_cluster(&world, "acme-worker"));
    assert_eq!(workers(&world), wanted);
    // Nothing of the move is left but the volume with its password.
    assert_eq!((server(&world), imports(&world)), (None, false));
    assert_eq!(world.uid::<Deployment>(COMPARISON), None);
    assert_eq!(world.uid::<NetworkPolicy>(SERVER), None);
    assert_eq!(world.uid::<NetworkPolicy>(COMPARISON), None);
    assert_eq!(world.uid::<PersistentVolumeClaim>(SERVER), volume);
    assert!(world.uid::<Secret>(SERVER).is_some());
    assert!(
        world
            .condition("acme", "DatabaseReady")
            .reason
            .starts_with("Cluster")
    );
    world.server.forget_writes();
    world.settle().await;
    assert_eq!(world.child_writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_starts_anew_continues_at_every_step() {
    let mut world = managed().await;
    ask(&world, json!({"storage": "3Gi"})).await;
    let mut steps = Vec::new();
    for step in 0..4 {
        world = world.restart().await;
        world.settle().await;
        steps.push((reason(&world), server(&world)));
        match step {
            0 => run(&world, 1).await,
            1 => import(&world, 2).await,
            2 => compare(&world, true).await,
            _ => run(&world, 0).await,
        }
    }
    let expected = [
        ("MoveFreezing", 1),
        ("MoveImporting", 1),
        ("MoveComparing", 1),
        ("MoveStopping", 0),
    ];
    let expected = expected.map(|(reason, pods)| (reason.to_owned(), Some((true, pods))));
    assert_eq!(steps, expected);
    world = world.restart().await;
    world.settle().await;
    assert!(has_the_cluster(&world, APP));
    assert_eq!(server(&world), None);
}

#[tokio::test(start_paused = true)]
async fn a_move_that_is_taken_back_leaves_the_managed_database_with_writes() {
    for steps in 0..4 {
        let world = managed().await;
        let before = live::<StatefulSet>(&world, SERVER)["spec"].clone();
        let wanted = workers(&world);
        proceed(&world, steps).await;
        world.edit_spec("acme", |spec| {
            let managed = json!({"podTemplate": {"spec": {"priorityClassName": "high"}}});
            spec["database"] = json!({"managed": managed});
        });
        world.settle().await;
        assert_eq!(
            live::<StatefulSet>(&world, SERVER)["spec"],
            before,
            "{steps}"
        );
        assert_eq!(
            (workers(&world), world.uid::<Deployment>(COMPARISON)),
            (wanted, None)
        );
        run(&world, 1).await;
        assert_eq!(reason(&world), "PodsReady");
        // The copy is of the past now.
        ask(&world, json!({"storage": "3Gi"})).await;
        let expected = if steps > 0 {
            "MoveClusterExists"
        } else {
            "MoveFreezing"
        };
        assert_eq!(world.condition("acme", "DatabaseReady").reason, expected);
        assert_eq!(server(&world), Some((steps == 0, 1)));
        assert!(!has_the_cluster(&world, APP));
    }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_is_there_already_is_not_used_and_the_database_keeps_its_writes() {
    let world = managed().await;
    let spec =
        json!({"metadata": {"name": CLUSTER, "namespace": NAMESPACE}, "spec": {"instances": 3}});
    let foreign: Cluster = serde_json::from_value(spec).unwrap();
    let foreign = world.server.create(&foreign);
    let before = live::<StatefulSet>(&world, SERVER)["spec"].clone();
    ask(&world, json!({"storage": "3Gi"})).await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(
        (database.reason.as_str(), database.status.as_str()),
        ("MoveClusterExists", "True")
    );
    assert!(
        database
            .message
            .contains("kubectl delete clusters.postgresql.cnpg.io acme-pg"),
        "{database:?}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    assert_eq!(live::<StatefulSet>(&world, SERVER)["spec"], before);
    assert_eq!(
        world
            .server
            .get::<Cluster>(NAMESPACE, CLUSTER)
            .unwrap()
            .spec,
        foreign.spec
    );
    // The remedy of the message.
    world.server.delete::<Cluster>(NAMESPACE, CLUSTER);
    // That of others is not watched.
    world.pass(Duration::from_secs(360)).await;
    assert_eq!(reason(&world), "MoveFreezing");
}

#[tokio::test(start_paused = true)]
async fn a_volume_in_which_the_import_may_not_fit_is_refused_before_anything_changes() {
    let world = managed().await;
    let before = live::<StatefulSet>(&world, SERVER)["spec"].clone();
    ask(&world, json!({"storage": "2Gi"})).await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "MoveTooSmall");
    assert!(
        database
            .message
            .contains("database.cloudNativePG.storage: 2Gi"),
        "{database:?}"
    );
    assert!(database.message.contains("at least 2560Mi"), "{database:?}");
    assert_eq!(live::<StatefulSet>(&world, SERVER)["spec"], before);
    assert_eq!(world.uid::<Cluster>(CLUSTER), None);
    ask(&world, json!({"storage": "2560Mi"})).await;
    assert_eq!(reason(&world), "MoveFreezing");
}

#[tokio::test(start_paused = true)]
async fn a_copy_that_differs_keeps_the_programs_on_the_managed_database() {
    let world = managed().await;
    proceed(&world, 2).await;
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": "acme-move-0", "namespace": NAMESPACE,
            "labels": live::<Deployment>(&world, COMPARISON)["spec"]["template"]["metadata"]["labels"],
        },
        "status": {"containerStatuses": [{
            "name": "compare", "ready": false, "restartCount": 1, "image": "", "imageID": "",
            "lastState": {"terminated": {"exitCode": 10, "message": "table links: 7, 6\n"}},
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
        }]},
    }))
    .unwrap();
    world.server.create(&pod);
    world.settle().await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "MoveDiffers");
    assert!(
        database.message.contains("table links: 7, 6"),
        "{database:?}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    assert!(!has_the_cluster(&world, APP));
    // A comparison of one Cluster says nothing about the next one.
    compare(&world, false).await;
    world.server.delete::<Pod>(NAMESPACE, "acme-move-0");
    world.server.delete::<Cluster>(NAMESPACE, CLUSTER);
    compare(&world, true).await;
    assert!(imports(&world));
    import(&world, 2).await;
    assert_eq!(
        (reason(&world).as_str(), server(&world)),
        ("MoveComparing", Some((true, 1)))
    );
}

#[tokio::test(start_paused = true)]
async fn a_managed_database_that_vanishes_ends_the_move_and_not_the_links() {
    for imported in [false, true] {
        let world = managed().await;
        ask(&world, json!({"storage": "3Gi"})).await;
        if imported {
            run(&world, 1).await;
            import(&world, 2).await;
        }
        world.server.delete::<StatefulSet>(NAMESPACE, SERVER);
        world.settle().await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, "MoveInterrupted", "{database:?}");
        assert_eq!(world.condition("acme", "Ready").status, "False");
        assert!(!has_the_cluster(&world, APP));
        assert_eq!(world.uid::<Cluster>(CLUSTER).is_some(), imported);
        go_back(&world).await;
        assert_eq!(server(&world), Some((false, 1)));
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_stopped_moves_nothing_until_it_runs() {
    let world = managed().await;
    world.edit_spec("acme", |spec| spec["stopped"] = json!(true));
    world.settle().await;
    run(&world, 0).await;
    ask(&world, json!({"storage": "3Gi"})).await;
    assert_eq!(reason(&world), "Stopped");
    assert_eq!(
        (server(&world), world.uid::<Cluster>(CLUSTER)),
        (Some((true, 0)), None)
    );
    world.edit_spec("acme", |spec| spec["stopped"] = json!(false));
    world.settle().await;
    assert_eq!(
        (reason(&world).as_str(), server(&world)),
        ("MoveFreezing", Some((true, 1)))
    );
}
