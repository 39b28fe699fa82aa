//! Tests of a failure at every single write, with and without a restart of the operator after it, and of stale
//! watches. The result must be the same as without the failure, and nothing may be created twice.

use std::time::Duration;

use k8s_openapi::api::core::v1::{ConfigMap, PersistentVolumeClaim};
use serde_json::json;

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

/// Returns the number of mutating requests that a new stack takes without failures.
async fn reference() -> usize {
    let world = World::start(FakeApiServer::default());
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    world.server.writes().len()
}

/// Builds a stack with one failing write. The operator may crash right after it.
async fn build_with(fault: Fault, number: u64, crash: bool) -> World {
    let world = World::start(FakeApiServer::default());
    world.server.fail_write(number, fault);
    world.server.create(&stored_stack(json!({})));
    if !crash {
        world.settle().await;
        return world;
    }
    // The writes are in progress. The process may crash at any point.
    world.pass(Duration::from_millis(500)).await;
    let world = world.restart().await;
    world.settle().await;
    world
}

fn assert_same_end(world: &World, reference: usize, case: &str) {
    assert_eq!(world.children(), CHILDREN, "{case}");
    assert_eq!(
        world.creations(),
        CHILDREN.len(),
        "{case}: something was created twice"
    );
    let writes = world.server.writes().len();
    assert!(
        writes <= 3 * reference,
        "{case}: {writes} writes, {reference} without the fault"
    );
    assert_eq!(
        world.condition("acme", "Degraded").status,
        "False",
        "{case}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_failure_at_any_write_leads_to_the_same_end() {
    let reference = reference().await;
    let faults = [
        Fault::LoseRequest,
        Fault::LoseResponse,
        Fault::Refuse(409),
        Fault::Refuse(429),
        Fault::Refuse(500),
        Fault::CommitThenAnswer(504),
        Fault::Hang,
    ];
    for fault in faults {
        for number in 1..=reference as u64 {
            let world = build_with(fault, number, false).await;
            assert_same_end(&world, reference, &format!("{fault:?} at write {number}"));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_after_any_write_leads_to_the_same_end() {
    let reference = reference().await;
    for number in 1..=reference as u64 {
        // The operator crashes while it waits for a response that never comes.
        let world = build_with(Fault::Hang, number, true).await;
        assert_same_end(&world, reference, &format!("crash at write {number}"));
        let world = build_with(Fault::LoseResponse, number, true).await;
        assert_same_end(&world, reference, &format!("crash after write {number}"));
    }
}

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
