//! Tests of a broker that RabbitMQ's operator runs: what waits for it, what does not, and its end.

use k8s_openapi::api::{
    apps::v1::Deployment, core::v1::Secret, networking::v1::NetworkPolicy,
    policy::v1::PodDisruptionBudget,
};
use serde_json::{Value, json};
use shortener_operator_core::model::{
    queue_state::Depth,
    rabbitmq_cluster::{MEMBERS_BEFORE, RabbitmqCluster},
    topology::JOBS,
};

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

fn spec() -> Value {
    json!({"profiles": ["queue"], "queue": {"rabbitmqCluster": {}}})
}

async fn world(has_kind: bool) -> World {
    let server = FakeApiServer::default();
    if has_kind {
        server.add_kind::<RabbitmqCluster>();
    }
    let world = World::start(server);
    world.server.create(&stored_stack(spec()));
    world.settle().await;
    world
}

/// Creates the Secret of the RabbitmqCluster, as RabbitMQ's operator does before the first member starts.
async fn begin(world: &World) {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {"name": "acme-mq-default-user", "namespace": NAMESPACE},
        "data": {
            "username": "ZGVmYXVsdF91c2Vy", "password": "czNjcmV0", "host": "YWNtZS1tcQ==", "port": "NTY3Mg==",
            "connection_string": "YW1xcDovL2E=",
        },
    }))
    .unwrap();
    world.server.create(&secret);
    report(world, 1, false).await;
}

/// Reports the number of members that are ready, and if RabbitMQ's operator has brought about everything.
async fn report(world: &World, ready: i32, whole: bool) {
    let condition = |type_: &str, status: &str, message: &str| json!({"type": type_, "status": status, "reason": "Because", "message": message});
    let pods = format!("{ready}/3 Pods ready");
    let is = |holds: bool| if holds { "True" } else { "False" };
    let reconciled = if whole { "True" } else { "Unknown" };
    let mut status = json!({"conditions": [
        condition("AllReplicasReady", is(ready >= 3), &pods),
        condition("ClusterAvailable", is(ready > 1), ""),
        condition("ReconcileSuccess", reconciled, ""),
    ]});
    if whole {
        let live = world.server.get::<RabbitmqCluster>(NAMESPACE, "acme-mq");
        status["observedGeneration"] = json!(live.unwrap().metadata.generation);
    }
    world.report::<RabbitmqCluster>("acme-mq", status).await;
}

fn replicas(world: &World) -> Option<i64> {
    let live = world.server.get::<RabbitmqCluster>(NAMESPACE, "acme-mq")?;
    live.replicas()
}

#[tokio::test(start_paused = true)]
async fn the_workers_wait_for_the_members_and_that_is_no_fault() {
    let world = world(true).await;
    assert_eq!(replicas(&world), Some(3));
    assert!(world.uid::<NetworkPolicy>("acme-rabbitmq").is_some());
    assert!(world.uid::<PodDisruptionBudget>("acme-rabbitmq").is_some());
    begin(&world).await;
    let queue = world.condition("acme", "QueueReady");
    assert_eq!(queue.reason, "ClusterStarting");
    assert!(queue.message.contains("1/3 Pods ready"), "{queue:?}");
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    // The app serves links meanwhile.
    assert!(world.uid::<Deployment>("acme-app").is_some());
    assert_eq!(world.uid::<Deployment>("acme-worker"), None);

    report(&world, 3, true).await;
    assert!(world.uid::<Deployment>("acme-worker").is_some());
    world.broker.holds(JOBS, depth(2));
    world.pass(std::time::Duration::from_secs(60)).await;
    assert_eq!(world.verdict("QueueReady"), "True ClusterReady");
    let queue = world.stack("acme").status.unwrap().queue.unwrap();
    assert_eq!(queue.total, 2);
    assert_eq!(world.broker.policy("shortener-jobs", "delivery-limit"), 4);

    // The loss of a member changes no object, and the stack says so.
    world.server.forget_writes();
    report(&world, 2, true).await;
    assert_eq!(world.verdict("QueueReady"), "False ClusterNotReady");
    let queue = world.condition("acme", "QueueReady");
    assert!(queue.message.contains("2/3 Pods ready"), "{queue:?}");
    assert_eq!(world.child_writes(), Vec::<String>::new());
    report(&world, 3, true).await;
    assert_eq!(world.verdict("QueueReady"), "True ClusterReady");
}

#[tokio::test(start_paused = true)]
async fn members_that_the_operator_never_reached_may_lack_their_limits_and_that_is_told() {
    let world = world(true).await;
    world.broker.go_away();
    begin(&world).await;
    report(&world, 3, true).await;
    world.pass(std::time::Duration::from_secs(60)).await;
    assert_eq!(world.verdict("QueueReady"), "True LimitsUnknown");
    let queue = world.condition("acme", "QueueReady");
    assert!(queue.message.contains("port 15672"), "{queue:?}");
}

fn depth(ready: i64) -> Depth {
    Depth { ready, unacked: 0 }
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_kind_is_named_with_the_remedy_until_it_has_it() {
    let world = world(false).await;
    let queue = world.condition("acme", "QueueReady");
    assert_eq!(queue.reason, "ClusterKindMissing");
    assert!(
        queue
            .message
            .contains("install RabbitMQ's cluster operator"),
        "{queue:?}"
    );
    assert_eq!(world.condition("acme", "Degraded").status, "True");
    world.server.add_kind::<RabbitmqCluster>();
    world.pass(std::time::Duration::from_secs(120)).await;
    assert_eq!(replicas(&world), Some(3));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_stops_keeps_the_volumes_and_starts_as_rabbitmqs_operator_demands() {
    let world = world(true).await;
    begin(&world).await;
    report(&world, 3, true).await;
    world.edit_spec("acme", |spec| spec["stopped"] = json!(true));
    world.settle().await;
    assert_eq!(replicas(&world), Some(0));
    assert_eq!(world.verdict("QueueReady"), "True Stopped");
    let annotate = |value: Value| {
        world
            .server
            .edit::<RabbitmqCluster>(NAMESPACE, "acme-mq", |cluster| {
                cluster["metadata"]["annotations"][MEMBERS_BEFORE] = value;
            });
    };
    annotate(json!("3"));
    world.edit_spec("acme", |spec| {
        spec["stopped"] = json!(false);
        spec["queue"]["rabbitmqCluster"]["replicas"] = json!(5);
    });
    world.settle().await;
    assert_eq!(replicas(&world), Some(3));
    world
        .server
        .edit::<RabbitmqCluster>(NAMESPACE, "acme-mq", |cluster| {
            let annotations = cluster["metadata"]["annotations"].as_object_mut();
            annotations.unwrap().remove(MEMBERS_BEFORE);
        });
    world.settle().await;
    assert_eq!(replicas(&world), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_off_is_drained_before_its_members_go() {
    let world = world(true).await;
    begin(&world).await;
    report(&world, 3, true).await;
    world.broker.holds(JOBS, depth(1));
    world.pass(std::time::Duration::from_secs(60)).await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    assert_eq!(
        world.condition("acme", "QueueReady").reason,
        "DrainingQueue"
    );
    assert_eq!(replicas(&world), Some(3));
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-app", |app| {
            app["status"] = json!({
                "observedGeneration": app["metadata"]["generation"],
                "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            });
        });
    world.broker.holds(JOBS, depth(0));
    world.pass(std::time::Duration::from_secs(300)).await;
    assert_eq!(replicas(&world), Some(0));
    assert_eq!(world.uid::<Deployment>("acme-worker"), None);
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["queue"]));
    world.settle().await;
    assert_eq!(replicas(&world), Some(3));
    assert!(world.uid::<Deployment>("acme-worker").is_some());
}

#[tokio::test(start_paused = true)]
async fn a_drain_goes_on_although_the_kind_is_not_listed_when_an_operator_starts() {
    let world = world(true).await;
    begin(&world).await;
    report(&world, 3, true).await;
    world.broker.holds(JOBS, depth(1));
    world.settle().await;
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
    world.settle().await;
    let kept = |world: &World| {
        (
            world.uid::<Deployment>("acme-worker"),
            world.uid::<NetworkPolicy>("acme-rabbitmq"),
            world.uid::<PodDisruptionBudget>("acme-rabbitmq"),
        )
    };
    let before = kept(&world);
    assert!(before.0.is_some() && before.1.is_some() && before.2.is_some());
    let fault = Some(Fault::Refuse(500));
    world.server.fail_reads::<RabbitmqCluster>(fault);
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(kept(&world), before);
    world.server.fail_reads::<RabbitmqCluster>(None);
    world.pass(std::time::Duration::from_secs(120)).await;
    assert_eq!(kept(&world), before);
    assert_eq!(
        world.condition("acme", "QueueReady").reason,
        "DrainingQueue"
    );
}

#[tokio::test(start_paused = true)]
async fn a_cluster_that_the_spec_no_longer_names_outlives_the_stack_if_data_is_kept() {
    let world = world(true).await;
    let owners = || {
        let cluster = world.server.get::<RabbitmqCluster>(NAMESPACE, "acme-mq");
        cluster
            .unwrap()
            .metadata
            .owner_references
            .map_or(0, |all| all.len())
    };
    world.edit_spec("acme", |spec| spec["deletionPolicy"] = "Delete".into());
    world.settle().await;
    assert_eq!(owners(), 1);
    world.edit_spec("acme", |spec| {
        spec["deletionPolicy"] = "Retain".into();
        spec["queue"] = json!({});
    });
    world.settle().await;
    assert_eq!(owners(), 0);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_of_others_is_not_touched() {
    let server = FakeApiServer::default();
    server.add_kind::<RabbitmqCluster>();
    let foreign: RabbitmqCluster = serde_json::from_value(json!({
        "metadata": {"name": "acme-mq", "namespace": NAMESPACE},
        "spec": {"replicas": 1},
    }))
    .unwrap();
    server.create(&foreign);
    let world = World::start(server);
    world.server.create(&stored_stack(spec()));
    world.settle().await;
    let live: RabbitmqCluster = world.server.get(NAMESPACE, "acme-mq").unwrap();
    assert_eq!(live.spec, foreign.spec);
    assert_eq!(world.uid::<Deployment>("acme-worker"), None);
    assert_eq!(world.condition("acme", "QueueReady").reason, "NameTaken");
}
