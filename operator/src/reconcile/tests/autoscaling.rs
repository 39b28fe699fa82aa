//! Tests of numbers of workers that follow the queue.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_operator_core::model::{
    metadata::{Component, DELETION_COST, labels},
    queue_state::Depth,
    topology::JOBS,
};

use crate::testing::{
    api_server::Fault,
    world::{NAMESPACE, World},
};

/// Time in which a job has to start a worker.
const WAKE_UP: Duration = Duration::from_secs(15);
/// Names of workers' pods.
const PODS: [&str; 3] = ["acme-worker-a", "acme-worker-b", "acme-worker-c"];

fn autoscaling(min: i32) -> Value {
    json!({
        "minReplicas": min, "maxReplicas": 6, "jobsPerWorker": 1, "stabilizationWindowSeconds": 120,
    })
}

/// Starts an operator with a stack of which the number of workers follows the queue.
async fn world(min: i32) -> World {
    let spec = json!({"profiles": ["queue"], "workers": {"autoscaling": autoscaling(min)}});
    World::with_stack(spec).await
}

fn hold(world: &World, ready: i64, unacked: i64) {
    world.broker.holds(JOBS, Depth { ready, unacked });
}

fn workers(world: &World) -> Option<i32> {
    let workers = world.server.get::<Deployment>(NAMESPACE, "acme-worker");
    workers.unwrap().spec.unwrap().replicas
}

fn desired(world: &World) -> Option<i32> {
    let status = world.stack("acme").status.unwrap();
    status.workers.desired_replicas
}

/// Creates the pods of three workers, of which the second processes a job.
fn create_pods(world: &World) {
    for (name, unacked) in PODS.into_iter().zip([0, 1, 0]) {
        let labels = labels("acme", Component::Worker);
        let pod = json!({"metadata": {"name": name, "namespace": NAMESPACE, "labels": labels}});
        let pod: Pod = serde_json::from_value(pod).unwrap();
        world.server.create(&pod);
        let client = format!("shortener-worker {name}");
        world.broker.connect(&client, Some(unacked));
    }
}

fn costs(world: &World) -> [Option<String>; 3] {
    PODS.map(|name| {
        let pod = world.server.get::<Pod>(NAMESPACE, name).unwrap();
        pod.annotations().get(DELETION_COST).cloned()
    })
}

#[tokio::test(start_paused = true)]
async fn the_first_job_starts_a_worker_and_the_last_one_leaves_none_after_a_while() {
    let world = world(0).await;
    assert_eq!((workers(&world), desired(&world)), (Some(0), Some(0)));
    assert_eq!(
        world.condition("acme", "WorkersReady").reason,
        "ScaledToZero"
    );
    hold(&world, 1, 0);
    world.pass(WAKE_UP).await;
    assert_eq!((workers(&world), desired(&world)), (Some(1), Some(1)));
    hold(&world, 90, 1);
    world.pass(Duration::from_secs(11)).await;
    assert_eq!(workers(&world), Some(5), "a step");
    world.pass(WAKE_UP).await;
    assert_eq!(workers(&world), Some(6), "the limit");
    hold(&world, 0, 0);
    world.pass(Duration::from_secs(100)).await;
    assert_eq!(workers(&world), Some(6), "jobs may come again");
    world.pass(Duration::from_secs(120)).await;
    assert_eq!((workers(&world), desired(&world)), (Some(0), Some(0)));
}

#[tokio::test(start_paused = true)]
async fn each_change_of_the_number_has_an_event_with_its_numbers() {
    let world = world(0).await;
    hold(&world, 1, 0);
    world.pass(WAKE_UP).await;
    hold(&world, 90, 1);
    world.pass(Duration::from_secs(11)).await;
    let mut events = world.events();
    events.retain(|event| event.reason.as_deref() == Some("WorkersScaled"));
    let notes: Vec<_> = events.into_iter().filter_map(|event| event.note).collect();
    for change in ["from 0 to 1 ", "from 1 to 5 "] {
        let tells = notes.iter().any(|note| note.contains(change));
        assert!(tells, "{change}: {notes:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_number_at_rest_causes_no_write() {
    let world = world(2).await;
    hold(&world, 1, 1);
    world.settle().await;
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    let writes = world.server.writes();
    assert!(writes.is_empty(), "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_restarts_removes_no_worker_before_it_knows_the_queue() {
    let world = world(0).await;
    hold(&world, 3, 0);
    world.settle().await;
    hold(&world, 0, 0);
    world.pass(Duration::from_secs(100)).await;
    let world = world.restart().await;
    world.pass(Duration::from_secs(100)).await;
    assert_eq!(workers(&world), Some(3));
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(workers(&world), Some(0));
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_costs_no_worker() {
    let world = world(0).await;
    hold(&world, 3, 0);
    world.settle().await;
    world.broker.go_away();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(workers(&world), Some(3));
}

#[tokio::test(start_paused = true)]
async fn the_busy_worker_is_marked_before_idle_ones_are_removed() {
    let world = world(0).await;
    hold(&world, 3, 0);
    world.settle().await;
    create_pods(&world);
    hold(&world, 0, 1);
    world.server.forget_writes();
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(workers(&world), Some(1));
    assert_eq!(costs(&world), [None, Some("1".to_owned()), None]);
    let writes = world.child_writes();
    let first = |end: &str| writes.iter().position(|path| path.ends_with(end));
    let (mark, removal) = (
        first("/pods/acme-worker-b"),
        first("/deployments/acme-worker"),
    );
    assert!(mark.is_some() && mark < removal, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn workers_that_cannot_be_marked_stay_and_the_condition_says_so() {
    let world = world(0).await;
    hold(&world, 3, 0);
    world.settle().await;
    create_pods(&world);
    hold(&world, 0, 1);
    world.server.fail_kind::<Pod>(Some(Fault::Refuse(403)));
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(workers(&world), Some(3));
    let condition = world.condition("acme", "WorkersReady");
    assert!(
        condition.message.contains("Pod/acme-worker-b"),
        "{condition:?}"
    );
    world.server.fail_kind::<Pod>(None);
    world.pass(Duration::from_secs(300)).await;
    assert_eq!(workers(&world), Some(1));
}

#[tokio::test(start_paused = true)]
async fn the_number_in_the_spec_counts_again_without_autoscaling() {
    let world = world(0).await;
    world.edit_spec("acme", |spec| spec["workers"]["replicas"] = 4.into());
    world.settle().await;
    assert_eq!(workers(&world), Some(0), "it follows the queue");
    world.edit_spec("acme", |spec| spec["workers"]["autoscaling"] = Value::Null);
    world.settle().await;
    assert_eq!((workers(&world), desired(&world)), (Some(4), None));
    world.edit_spec("acme", |spec| {
        spec["workers"]["autoscaling"] = autoscaling(0);
    });
    world.settle().await;
    assert_eq!(workers(&world), Some(0), "it has been empty for long");
}

#[tokio::test(start_paused = true)]
async fn a_paused_stack_keeps_its_workers() {
    let world = world(1).await;
    world.edit_spec("acme", |spec| spec["paused"] = true.into());
    world.settle().await;
    hold(&world, 5, 0);
    world.settle().await;
    assert_eq!(workers(&world), Some(1));
    world.edit_spec("acme", |spec| spec["paused"] = false.into());
    world.settle().await;
    assert_eq!(workers(&world), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_switched_off_gets_workers_for_its_last_jobs() {
    let world = world(0).await;
    hold(&world, 2, 0);
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.pass(WAKE_UP).await;
    assert_eq!(workers(&world), Some(2));
}
