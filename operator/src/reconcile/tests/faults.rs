//! Tests of faults between the operator and the API server: a crash after every write, refusals of every write, and
//! watches that lose, repeat and swap changes or lag behind. The end must be that of a run without the fault. An edit of
//! a live stack must lead to the children of a new one.

mod crashes;
mod edits;
mod refusals;
mod watches;

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use serde_json::json;

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::Fault,
    world::{NAMESPACE, World},
};

#[tokio::test(start_paused = true)]
async fn an_api_server_that_is_away_for_a_while_costs_nothing() {
    let world = World::with_stack(json!({})).await;
    world.server.fail_all(Some(Fault::LoseRequest));
    world.server.expire_watches();
    world.pass(Duration::from_secs(90)).await;
    world.server.fail_all(None);
    // The duration of the longest backoff.
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(world.children(), CHILDREN);
    assert_eq!(world.child_writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn stale_and_expired_watches_never_cost_a_live_child_or_a_volume() {
    let world = World::with_stack(json!({})).await;
    let volume = world.uid::<PersistentVolumeClaim>("acme-postgres");
    world.server.hold_watches();
    world.server.delete::<ConfigMap>(NAMESPACE, "acme-gateway");
    world.edit_spec("acme", |spec| spec["app"]["replicas"] = 3.into());
    world.settle().await;
    world.server.release_watches();
    world.server.expire_watches();
    world.settle().await;
    assert_eq!(world.children(), CHILDREN);
    assert_eq!(world.uid::<PersistentVolumeClaim>("acme-postgres"), volume);
    assert!(
        !world
            .child_writes()
            .iter()
            .any(|path| path.contains("persistentvolumeclaims"))
    );
}
