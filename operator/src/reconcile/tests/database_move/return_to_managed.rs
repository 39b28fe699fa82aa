//! The way back to a managed database, once the programs have the Cluster.

use super::*;
use crate::testing::api_server::Fault;

#[tokio::test(start_paused = true)]
async fn links_that_are_in_the_cluster_are_not_left_behind_for_an_old_volume() {
    let world = managed().await;
    proceed(&world, 4).await;
    let before = live::<Deployment>(&world, APP)["spec"].clone();
    go_back(&world).await;
    let database = world.condition("acme", "DatabaseReady");
    assert_eq!(database.reason, "MoveBackNeedsBackup", "{database:?}");
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    assert_eq!(server(&world), None);
    assert_eq!(live::<Deployment>(&world, APP)["spec"], before);
    assert!(world.uid::<Cluster>(CLUSTER).is_some());
    assert!(world.uid::<NetworkPolicy>(CLUSTER).is_some());
    // The first remedy of the message.
    ask(&world, json!({"storage": "3Gi"})).await;
    assert!(
        world
            .condition("acme", "DatabaseReady")
            .reason
            .starts_with("Cluster")
    );
}

#[tokio::test(start_paused = true)]
async fn they_move_back_with_a_backup() {
    let world = managed().await;
    proceed(&world, 4).await;
    let backup: PersistentVolumeClaim = serde_json::from_value(json!({
        "metadata": {
            "name": "acme-backup", "namespace": NAMESPACE,
            "labels": {"shortener.dev/usable-by-stacks": "true"},
        },
        "spec": {},
    }))
    .unwrap();
    world.server.create(&backup);
    world
        .server
        .delete::<PersistentVolumeClaim>(NAMESPACE, SERVER);
    let restored = json!({"managed": {}, "restoreFrom": {"claimName": "acme-backup"}});
    world.edit_spec("acme", |spec| spec["database"] = restored);
    world.settle().await;
    assert_eq!(server(&world), Some((false, 1)));
    assert!(!has_the_cluster(&world, APP) && !has_the_cluster(&world, "acme-worker"));
    run(&world, 1).await;
    go_back(&world).await;
    run(&world, 1).await;
    assert_eq!(world.verdict("DatabaseReady"), "True PodsReady");
    assert_eq!(server(&world), Some((false, 1)));
}

#[tokio::test(start_paused = true)]
async fn a_new_managed_database_that_was_begun_gets_its_programs() {
    let world = managed().await;
    proceed(&world, 4).await;
    world
        .server
        .delete::<PersistentVolumeClaim>(NAMESPACE, SERVER);
    world
        .server
        .fail_kind::<Deployment>(Some(Fault::Refuse(500)));
    go_back(&world).await;
    assert_eq!(server(&world), Some((false, 1)));
    assert!(has_the_cluster(&world, APP));
    world.server.fail_kind::<Deployment>(None);
    world.pass(Duration::from_secs(600)).await;
    assert!(!has_the_cluster(&world, APP));
}
