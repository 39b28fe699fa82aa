//! Stacks that are deleted in the middle of a move or after it, and made again.

use shortener_operator_core::api::ShortenerStack;

use super::*;

/// Deletes the stack and creates it again with the spec that it had.
async fn create_again(world: &World) {
    let spec = serde_json::to_value(world.stack("acme").spec).unwrap();
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    world.server.create(&stored_stack(spec));
    world.settle().await;
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_made_again_in_the_middle_keeps_its_links() {
    let expected = [
        "MoveVolumeLeft",
        "MoveInterrupted",
        "MoveInterrupted",
        "MoveInterrupted",
    ];
    for (steps, expected) in expected.into_iter().enumerate() {
        let world = managed().await;
        let volume = world.uid::<PersistentVolumeClaim>(SERVER);
        proceed(&world, steps).await;
        let cluster = world.uid::<Cluster>(CLUSTER);
        create_again(&world).await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, expected, "{steps}: {database:?}");
        // Neither has begun anew.
        assert_eq!(world.uid::<Cluster>(CLUSTER), cluster);
        assert_eq!(world.uid::<PersistentVolumeClaim>(SERVER), volume);
        assert!(!has_the_cluster(&world, APP));
        // The remedy of both messages.
        go_back(&world).await;
        run(&world, 1).await;
        assert_eq!(server(&world), Some((false, 1)));
        assert_eq!(reason(&world), "PodsReady");
        if cluster.is_some() {
            world.server.delete::<Cluster>(NAMESPACE, CLUSTER);
        }
        ask(&world, json!({"storage": "3Gi"})).await;
        assert_eq!(reason(&world), "MoveFreezing");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_made_again_after_a_move_has_its_cluster() {
    let world = managed().await;
    proceed(&world, 4).await;
    assert!(has_the_cluster(&world, APP));
    let cluster = world.uid::<Cluster>(CLUSTER);
    create_again(&world).await;
    assert!(has_the_cluster(&world, APP));
    assert_eq!(world.uid::<Cluster>(CLUSTER), cluster);
}

#[tokio::test(start_paused = true)]
async fn a_volume_of_which_nobody_needs_the_links_is_deleted_for_an_empty_cluster() {
    let world = managed().await;
    proceed(&world, 0).await;
    create_again(&world).await;
    let database = world.condition("acme", "DatabaseReady");
    assert!(database.message.contains(SERVER), "{database:?}");
    world
        .server
        .delete::<PersistentVolumeClaim>(NAMESPACE, SERVER);
    world.settle().await;
    assert!(world.uid::<Cluster>(CLUSTER).is_some());
    assert_eq!(
        world.condition("acme", "DatabaseReady").reason,
        "ClusterStarting"
    );
}

#[tokio::test(start_paused = true)]
async fn with_its_data_a_stack_that_is_deleted_in_the_middle_begins_anew() {
    for steps in 0..4 {
        let world = managed().await;
        world.edit_spec("acme", |spec| spec["deletionPolicy"] = json!("Delete"));
        world.settle().await;
        proceed(&world, steps).await;
        let (cluster, volume) = (
            world.uid::<Cluster>(CLUSTER),
            world.uid::<PersistentVolumeClaim>(SERVER),
        );
        assert!(volume.is_some());
        create_again(&world).await;
        assert_eq!(world.uid::<PersistentVolumeClaim>(SERVER), None);
        let again = world.uid::<Cluster>(CLUSTER);
        assert!(again.is_some() && again != cluster, "{steps}");
        assert!(!imports(&world));
    }
}
