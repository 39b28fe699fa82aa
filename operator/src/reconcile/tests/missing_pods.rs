//! Tests of StatefulSets whose pods cannot be created, of which Kubernetes tells the reason in an Event alone.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::StatefulSet, events::v1::Event};
use serde_json::json;

use crate::testing::{
    api_server::Fault,
    world::{NAMESPACE, World},
};

const SET: &str = "acme-postgres";
const QUOTA: &str =
    "pods \"acme-postgres-0\" is forbidden: exceeded quota: small, requested: pods=1";

/// Makes the controller of StatefulSets see the last write, with this number of pods.
fn observe(world: &World, pods: i32) {
    world.server.edit::<StatefulSet>(NAMESPACE, SET, |set| {
        set["status"] = json!({
            "observedGeneration": set["metadata"]["generation"],
            "replicas": pods, "readyReplicas": pods, "updatedReplicas": pods,
        });
    });
}

/// Writes an Event about the StatefulSet like its controller, some seconds after midnight.
fn tell(world: &World, reason: &str, seconds: u8, note: &str) {
    let uid = world.uid::<StatefulSet>(SET).unwrap();
    let event: Event = serde_json::from_value(json!({
        "metadata": {"name": format!("{SET}.{seconds:02}"), "namespace": NAMESPACE},
        "regarding": {"kind": "StatefulSet", "name": SET, "namespace": NAMESPACE, "uid": uid},
        "reason": reason,
        "note": note,
        "type": "Warning",
        "deprecatedLastTimestamp": format!("2026-01-01T00:00:{seconds:02}Z"),
    }))
    .unwrap();
    world.server.create(&event);
}

fn fail(world: &World, seconds: u8) {
    let note = format!("create Pod acme-postgres-0 in StatefulSet {SET} failed error: {QUOTA}");
    tell(world, "FailedCreate", seconds, &note);
}

/// Starts a stack whose database lacks its pod.
async fn lacking() -> World {
    let world = World::with_stack(json!({})).await;
    assert_eq!(world.server.lists::<Event>(), 0);
    observe(&world, 0);
    world
}

fn reason(world: &World) -> String {
    world.condition("acme", "DatabaseReady").reason
}

#[tokio::test(start_paused = true)]
async fn a_full_quota_is_named_soon_and_forgotten_with_the_first_pod() {
    let world = lacking().await;
    fail(&world, 1);
    world.pass(Duration::from_secs(10)).await;
    let named = world.condition("acme", "DatabaseReady");
    let sentence = format!("pods of the postgres cannot be created: {QUOTA}");
    assert_eq!(
        (named.reason.as_str(), named.message),
        ("PodsNotCreated", sentence)
    );
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    // A reason that is known is read again at the resync only, and nothing is written.
    world.server.forget_writes();
    let before = world.server.lists::<Event>();
    world.pass(Duration::from_secs(3600)).await;
    assert!(world.server.lists::<Event>() - before <= 16);
    assert_eq!(world.server.writes(), []);
    observe(&world, 1);
    world.pass(Duration::from_secs(1)).await;
    assert_eq!(reason(&world), "PodsReady");
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    let before = world.server.lists::<Event>();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.lists::<Event>(), before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_the_operator_keeps_the_reason() {
    let world = lacking().await;
    fail(&world, 1);
    world.settle().await;
    world.server.forget_writes();
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(reason(&world), "PodsNotCreated");
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn an_event_that_comes_late_is_found_without_another_change() {
    let world = lacking().await;
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(reason(&world), "PodsStarting");
    fail(&world, 1);
    world.pass(Duration::from_secs(15)).await;
    assert_eq!(reason(&world), "PodsNotCreated");
}

#[tokio::test(start_paused = true)]
async fn a_stateful_set_with_its_pods_costs_no_list() {
    let world = World::with_stack(json!({})).await;
    observe(&world, 1);
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.lists::<Event>(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_failure_before_a_pod_that_was_created_is_over() {
    let world = lacking().await;
    fail(&world, 1);
    tell(&world, "SuccessfulCreate", 2, "create Pod successful");
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(reason(&world), "PodsStarting");
    fail(&world, 3);
    world.pass(Duration::from_secs(20)).await;
    assert_eq!(reason(&world), "PodsNotCreated");
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_was_made_again_is_not_told_by_the_events_of_the_one_before() {
    let world = lacking().await;
    fail(&world, 1);
    world.server.delete::<StatefulSet>(NAMESPACE, SET);
    world.pass(Duration::from_secs(1)).await;
    observe(&world, 0);
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(reason(&world), "PodsStarting");
}

#[tokio::test(start_paused = true)]
async fn events_that_cannot_be_read_change_nothing() {
    let world = lacking().await;
    fail(&world, 1);
    for fault in [Fault::Refuse(403), Fault::Hang] {
        world.server.fail_reads::<Event>(Some(fault));
        world.pass(Duration::from_secs(60)).await;
        assert_eq!(reason(&world), "PodsStarting");
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
    world.server.fail_reads::<Event>(None);
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(reason(&world), "PodsNotCreated");
}

#[tokio::test(start_paused = true)]
async fn a_paused_stack_names_the_reason_too() {
    let world = lacking().await;
    world.edit_spec("acme", |spec| spec["paused"] = true.into());
    fail(&world, 1);
    world.pass(Duration::from_secs(10)).await;
    assert_eq!(reason(&world), "PodsNotCreated");
}
