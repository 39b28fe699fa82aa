//! Tests of the queue, switched on and off on a live stack, with a broker that answers and one that does not.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{ConfigMap, PersistentVolumeClaim, Secret, Service, ServiceAccount},
    networking::v1::NetworkPolicy,
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::{
        metadata::FORCE_DISABLE,
        queue_state::Depth,
        topology::{DEAD_LETTERS, JOBS},
    },
};

use super::{
    drift::{Kind, recreates, restores_label},
    with,
};
use crate::testing::{
    api_server::Fault,
    world::{NAMESPACE, World},
};

/// Children that the profile adds and that are deleted with it.
const QUEUE: [&str; 8] = [
    "configmaps/acme-rabbitmq",
    "deployments/acme-worker",
    "networkpolicies/acme-rabbitmq",
    "networkpolicies/acme-worker",
    "serviceaccounts/acme-rabbitmq",
    "serviceaccounts/acme-worker",
    "services/acme-rabbitmq",
    "statefulsets/acme-rabbitmq",
];
/// Children that remain after the profile is switched off.
const DATA: [&str; 2] = [
    "persistentvolumeclaims/acme-rabbitmq",
    "secrets/acme-rabbitmq",
];

fn queue() -> Value {
    json!({"profiles": ["queue"]})
}

fn depth(ready: i64, unacked: i64) -> Depth {
    Depth { ready, unacked }
}

fn switch_off(world: &World) {
    world.edit_spec("acme", |spec| spec["profiles"] = json!([]));
}

fn env_of(world: &World, deployment: &str) -> Vec<String> {
    let deployment = world.server.get::<Deployment>(NAMESPACE, deployment);
    let pod = deployment.unwrap().spec.unwrap().template.spec.unwrap();
    let env = pod.containers.into_iter().next().unwrap().env.unwrap();
    env.into_iter().map(|variable| variable.name).collect()
}

/// Sets the app's status as the Deployment controller does when every pod runs the newest template.
fn roll_out_the_app(world: &World) {
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-app", |app| {
            app["status"] = json!({
                "observedGeneration": app["metadata"]["generation"],
                "replicas": 2, "updatedReplicas": 2, "readyReplicas": 2,
            });
        });
}

fn definitions(world: &World) -> Value {
    let secret = world.server.get::<Secret>(NAMESPACE, "acme-rabbitmq");
    let data = secret.unwrap().data.unwrap();
    serde_json::from_slice(&data["definitions.json"].0).unwrap()
}

/// Returns an entry of the broker's Secret.
fn entry(world: &World, key: &str) -> Vec<u8> {
    let secret = world.server.get::<Secret>(NAMESPACE, "acme-rabbitmq");
    secret.unwrap().data.unwrap()[key].0.clone()
}

fn status_writes(world: &World) -> usize {
    let writes = world.server.writes();
    let status = writes
        .iter()
        .filter(|write| write.path.ends_with("/status"));
    status.count()
}

#[tokio::test(start_paused = true)]
async fn switching_the_queue_on_adds_broker_and_workers_and_tells_the_app() {
    let world = World::with_stack(json!({})).await;
    world.broker.holds(JOBS, depth(2, 1));
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["queue"]));
    world.settle().await;
    assert_eq!(world.children(), with(&[&QUEUE, &DATA]));
    assert!(env_of(&world, "acme-app").contains(&"QUEUE_URL".to_owned()));
    let status = world.stack("acme").status.unwrap();
    assert_eq!(status.profiles, ["queue"]);
    let queue = status.queue.unwrap();
    assert_eq!((queue.ready, queue.unacked, queue.total), (2, 1, 3));
    assert_eq!(world.condition("acme", "QueueReady").reason, "Pending");
    assert_eq!(world.condition("acme", "WorkersReady").reason, "Pending");
    assert_eq!(definitions(&world)["users"][0]["name"], "shortener");
}

#[tokio::test(start_paused = true)]
async fn a_key_of_the_app_is_generated_once_and_another_one_restarts_the_app_alone() {
    for (name, variable) in [
        ("acme-job-ids", "JOB_ID_KEY"),
        ("acme-management", "MANAGEMENT_KEY"),
    ] {
        let world = World::with_stack(queue()).await;
        let key = || {
            let secret = world.server.get::<Secret>(NAMESPACE, name).unwrap();
            secret.data.unwrap()["key"].0.clone()
        };
        let first = key();
        assert_eq!(first.len(), 32);
        assert!(env_of(&world, "acme-app").contains(&variable.to_owned()));
        assert!(!env_of(&world, "acme-worker").contains(&variable.to_owned()));
        world.server.edit::<Secret>(NAMESPACE, name, |secret| {
            secret["data"]["key"] = "bmV3".into();
        });
        world.settle().await;
        assert_eq!(key(), b"new");
        let writes = world.child_writes();
        assert!(
            writes.len() == 1 && writes[0].ends_with("/deployments/acme-app"),
            "{writes:?}"
        );
        world.server.delete::<Secret>(NAMESPACE, name);
        world.settle().await;
        assert!(key().len() == 32 && key() != first);
        assert_eq!(world.condition("acme", "Degraded").status, "False");
    }
}

#[tokio::test(start_paused = true)]
async fn a_queue_at_rest_causes_no_write_to_cluster_or_broker() {
    let world = World::with_stack(queue()).await;
    world.broker.forget_changes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
    assert_eq!(world.broker.changes(), Vec::<String>::new());
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.server.writes(), []);
    assert_eq!(world.broker.changes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn the_status_follows_the_queue_once_in_30_s_at_most() {
    let world = World::with_stack(queue()).await;
    for ready in 1..=60 {
        world.broker.holds(JOBS, depth(ready, 0));
        world.pass(Duration::from_secs(5)).await;
    }
    let writes = status_writes(&world);
    assert!((9..=11).contains(&writes), "{writes} in 300 s");
    world.settle().await;
    let queue = world.stack("acme").status.unwrap().queue.unwrap();
    assert_eq!((queue.ready, queue.total), (60, 60));
}

#[tokio::test(start_paused = true)]
async fn no_depth_is_exported_of_a_queue_that_is_not_queried_any_more() {
    for edit in [json!({"profiles": []}), json!({"stopped": true})] {
        let world = World::with_stack(queue()).await;
        let page = || world.metrics();
        world.broker.holds(JOBS, depth(2, 1));
        world.pass(Duration::from_secs(30)).await;
        let series = "shortener_stack_queue_messages{namespace=\"links\",stack=\"acme\"";
        assert!(page().contains(series), "{}", page());
        world.broker.holds(JOBS, depth(0, 0));
        world.edit_spec("acme", |spec| {
            let edit = edit.as_object().unwrap().clone();
            spec.as_object_mut().unwrap().extend(edit);
        });
        world.settle().await;
        // Otherwise a queue that is switched off goes on, because old pods publish.
        roll_out_the_app(&world);
        world.settle().await;
        assert!(!page().contains(series), "{edit}: {}", page());
    }
}

#[tokio::test(start_paused = true)]
async fn limits_follow_the_spec_and_are_put_back_without_a_restart_of_the_broker() {
    let world = World::with_stack(queue()).await;
    let limit = |world: &World| world.broker.policy("shortener-jobs", "delivery-limit");
    let broker = world.checksum::<StatefulSet>("acme-rabbitmq");
    let letters = |world: &World| world.broker.policy("shortener-dead-letters", "max-length");
    assert_eq!((limit(&world), letters(&world)), (json!(4), json!(10_000)));
    world.edit_spec("acme", |spec| {
        spec["queue"] = json!({"deliveryLimit": 10, "deadLetters": {"maxLength": 7}});
    });
    world.settle().await;
    assert_eq!((limit(&world), letters(&world)), (json!(9), json!(7)));
    assert_eq!(world.checksum::<StatefulSet>("acme-rabbitmq"), broker);
    let policies = definitions(&world)["policies"].clone();
    assert_eq!(policies[0]["definition"]["delivery-limit"], 9);
    world.broker.forget_changes();
    world.broker.edit_policy("shortener-jobs", |policy| {
        policy["definition"]["max-length"] = 1.into();
    });
    world.settle().await;
    assert_eq!(world.broker.policy("shortener-jobs", "max-length"), 100_000);
    assert_eq!(
        world.broker.changes(),
        ["PUT /api/policies/%2F/shortener-jobs"]
    );
}

#[tokio::test(start_paused = true)]
async fn the_broker_of_a_paused_stack_is_looked_at_and_left_alone() {
    let world = World::with_stack(queue()).await;
    world.edit_spec("acme", |spec| spec["paused"] = true.into());
    world.settle().await;
    world.broker.edit_policy("shortener-jobs", |policy| {
        policy["definition"]["max-length"] = 1.into();
    });
    world.broker.holds(JOBS, depth(5, 0));
    world.settle().await;
    assert_eq!(world.broker.policy("shortener-jobs", "max-length"), 1);
    assert_eq!(world.stack("acme").status.unwrap().queue.unwrap().ready, 5);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_holds_jobs_is_drained_before_it_goes() {
    let world = World::with_stack(queue()).await;
    world.broker.holds(JOBS, depth(2, 1));
    world.settle().await;
    switch_off(&world);
    world.settle().await;
    // The app accepts no more jobs. The broker and the workers still exist.
    assert!(!env_of(&world, "acme-app").contains(&"QUEUE_URL".to_owned()));
    assert_eq!(world.children(), with(&[&QUEUE, &DATA]));
    let progressing = world.condition("acme", "Progressing");
    assert_eq!(
        (progressing.status.as_str(), progressing.reason.as_str()),
        ("True", "DrainingQueue")
    );
    roll_out_the_app(&world);
    world.settle().await;
    let progressing = world.condition("acme", "Progressing");
    assert!(
        progressing.message.contains("3 jobs remain"),
        "{}",
        progressing.message
    );
    world.broker.holds(JOBS, depth(0, 1));
    world.settle().await;
    assert_eq!(world.children(), with(&[&QUEUE, &DATA]), "one is worked on");
    world.broker.holds(JOBS, depth(0, 0));
    world.settle().await;
    assert_eq!(world.children(), with(&[&DATA]));
    let status = world.stack("acme").status.unwrap();
    assert_eq!((status.queue, status.profiles.len()), (None, 0));
    let left = status
        .conditions
        .iter()
        .filter(|condition| ["QueueReady", "WorkersReady"].contains(&condition.type_.as_str()));
    assert_eq!(left.count(), 0);
}

#[tokio::test(start_paused = true)]
async fn an_empty_queue_waits_for_the_last_publisher_only() {
    let world = World::with_stack(queue()).await;
    switch_off(&world);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.children(), with(&[&QUEUE, &DATA]), "old pods publish");
    roll_out_the_app(&world);
    world.settle().await;
    assert_eq!(world.children(), with(&[&DATA]));
}

#[tokio::test(start_paused = true)]
async fn a_drain_outlives_the_operator_and_is_called_off_by_switching_on_again() {
    let world = World::with_stack(queue()).await;
    world.broker.holds(JOBS, depth(3, 0));
    let (volume, broker) = (
        world.uid::<PersistentVolumeClaim>("acme-rabbitmq"),
        world.uid::<StatefulSet>("acme-rabbitmq"),
    );
    switch_off(&world);
    world.settle().await;
    let world = world.restart().await;
    roll_out_the_app(&world);
    world.settle().await;
    assert_eq!(
        world.condition("acme", "Progressing").reason,
        "DrainingQueue"
    );
    world.edit_spec("acme", |spec| spec["profiles"] = json!(["queue"]));
    world.settle().await;
    assert_eq!(world.uid::<StatefulSet>("acme-rabbitmq"), broker);
    assert_eq!(world.uid::<PersistentVolumeClaim>("acme-rabbitmq"), volume);
    assert!(env_of(&world, "acme-app").contains(&"QUEUE_URL".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn deleting_the_workers_or_the_broker_in_a_drain_brings_them_back_and_the_drain_goes_on() {
    for policy in ["Retain", "Delete"] {
        let world =
            World::with_stack(json!({"profiles": ["queue"], "deletionPolicy": policy})).await;
        world.broker.holds(JOBS, depth(2, 1));
        world.settle().await;
        let volume = world.uid::<PersistentVolumeClaim>("acme-rabbitmq");
        switch_off(&world);
        world.settle().await;
        roll_out_the_app(&world);
        world.settle().await;
        world.server.delete::<Deployment>(NAMESPACE, "acme-worker");
        world.settle().await;
        assert_eq!(world.children(), with(&[&QUEUE, &DATA]), "{policy}");
        world
            .server
            .delete::<StatefulSet>(NAMESPACE, "acme-rabbitmq");
        world.settle().await;
        assert_eq!(world.children(), with(&[&QUEUE, &DATA]), "{policy}");
        // All at once, as by the label of the stack.
        world.server.delete::<Deployment>(NAMESPACE, "acme-worker");
        world
            .server
            .delete::<StatefulSet>(NAMESPACE, "acme-rabbitmq");
        world.server.delete::<Service>(NAMESPACE, "acme-rabbitmq");
        world.settle().await;
        assert_eq!(world.children(), with(&[&QUEUE, &DATA]), "{policy}");
        assert_eq!(
            world.uid::<PersistentVolumeClaim>("acme-rabbitmq"),
            volume,
            "{policy}"
        );
        let progressing = world.condition("acme", "Progressing");
        assert_eq!(progressing.reason, "DrainingQueue", "{policy}");
        world.broker.holds(JOBS, depth(0, 0));
        world.settle().await;
        let left: &[&str] = if policy == "Retain" { &DATA } else { &[] };
        assert_eq!(world.children(), with(&[left]), "{policy}");
    }
}

#[tokio::test(start_paused = true)]
async fn workers_that_are_deleted_while_the_operator_restarts_come_back_for_the_jobs() {
    let world = World::with_stack(queue()).await;
    world.broker.holds(JOBS, depth(2, 0));
    switch_off(&world);
    world.settle().await;
    roll_out_the_app(&world);
    world.settle().await;
    world.server.delete::<Deployment>(NAMESPACE, "acme-worker");
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.children(), with(&[&QUEUE, &DATA]));
    world
        .server
        .edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
            stack["metadata"]["annotations"][FORCE_DISABLE] = "queue".into();
        });
    world.settle().await;
    assert_eq!(world.children(), with(&[&DATA]), "a person gave up");
}

#[tokio::test(start_paused = true)]
async fn a_silent_broker_holds_a_drain_until_a_person_gives_up() {
    let world = World::with_stack(queue()).await;
    world.broker.holds(JOBS, depth(3, 0));
    world.settle().await;
    world.broker.go_away();
    switch_off(&world);
    world.settle().await;
    roll_out_the_app(&world);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(world.children(), with(&[&QUEUE, &DATA]));
    let progressing = world.condition("acme", "Progressing");
    assert!(
        progressing.message.contains("remaining jobs is unknown"),
        "{}",
        progressing.message
    );
    world
        .server
        .edit::<ShortenerStack>(NAMESPACE, "acme", |stack| {
            stack["metadata"]["annotations"][FORCE_DISABLE] = "queue".into();
        });
    world.settle().await;
    assert_eq!(world.children(), with(&[&DATA]));
}

/// Sets the status of the broker as the StatefulSet controller does when its pod is ready.
fn start_the_broker(world: &World) {
    world
        .server
        .edit::<StatefulSet>(NAMESPACE, "acme-rabbitmq", |set| {
            set["status"] = json!({
                "observedGeneration": set["metadata"]["generation"],
                "replicas": 1, "updatedReplicas": 1, "readyReplicas": 1,
            });
        });
}

#[tokio::test(start_paused = true)]
async fn dead_letters_that_fill_their_queue_are_told_before_and_after_some_are_dropped() {
    let world = World::with_stack(queue()).await;
    start_the_broker(&world);
    for (letters, dropped, reason) in [
        (7_999, 0, "PodsReady"),
        (8_000, 0, "DeadLettersNearlyFull"),
        (10_000, 3, "DeadLettersDropped"),
        (10, 0, "PodsReady"),
    ] {
        world.broker.holds(DEAD_LETTERS, depth(letters, 0));
        world.broker.drops(dropped);
        world.settle().await;
        let condition = world.condition("acme", "QueueReady");
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            ("True", reason)
        );
    }
    world.broker.without_metrics();
    world.broker.holds(DEAD_LETTERS, depth(9_000, 0));
    world.settle().await;
    let condition = world.condition("acme", "QueueReady");
    assert_eq!(condition.reason, "DeadLettersNearlyFull");
}

#[tokio::test(start_paused = true)]
async fn a_broker_that_does_not_answer_is_told_and_its_depth_is_not_made_up() {
    let world = World::with_stack(queue()).await;
    start_the_broker(&world);
    world.settle().await;
    assert_eq!(world.condition("acme", "QueueReady").reason, "PodsReady");
    world.broker.raise_alarm("disk");
    world.settle().await;
    let alarm = world.condition("acme", "QueueReady");
    assert_eq!(
        (alarm.status.as_str(), alarm.reason.as_str()),
        ("False", "BrokerAlarm")
    );
    world.broker.go_away();
    world.settle().await;
    assert_eq!(world.condition("acme", "QueueReady").reason, "DepthUnknown");
    assert_eq!(world.stack("acme").status.unwrap().queue, None);
}

#[tokio::test(start_paused = true)]
async fn an_external_broker_adds_workers_only_and_is_left_at_once() {
    let world = World::with_stack(json!({
        "profiles": ["queue"],
        "queue": {"external": {"secretRef": {"name": "amqp"}}},
    }))
    .await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "SecretNotFound");
    assert!(
        degraded.message.contains("queue.external"),
        "{}",
        degraded.message
    );
    world.server.create(&Secret {
        metadata: serde_json::from_value(json!({"name": "amqp", "namespace": NAMESPACE})).unwrap(),
        data: serde_json::from_value(json!({"url": "YW1xcDovL3U6cEBob3N0"})).unwrap(),
        ..Secret::default()
    });
    world.settle().await;
    let workers = [
        "deployments/acme-worker",
        "networkpolicies/acme-worker",
        "serviceaccounts/acme-worker",
    ];
    assert_eq!(world.children(), with(&[&workers, &["secrets/amqp"]]));
    let condition = world.condition("acme", "QueueReady");
    assert_eq!(condition.reason, "External");
    assert_eq!(world.stack("acme").status.unwrap().queue, None);
    assert_eq!(world.broker.changes(), Vec::<String>::new());
    switch_off(&world);
    world.settle().await;
    assert_eq!(world.children(), with(&[&["secrets/amqp"]]));
}

#[tokio::test(start_paused = true)]
async fn the_number_of_workers_is_the_specs_whoever_writes_it() {
    let world = World::with_stack(queue()).await;
    let replicas = |world: &World| {
        let workers = world.server.get::<Deployment>(NAMESPACE, "acme-worker");
        workers.unwrap().spec.unwrap().replicas
    };
    assert_eq!(replicas(&world), Some(1));
    // The same edit as by `kubectl scale` or an autoscaler on the scale subresource.
    world.edit_spec("acme", |spec| spec["workers"]["replicas"] = 7.into());
    world.settle().await;
    assert_eq!(replicas(&world), Some(7));
    assert!(
        world
            .children()
            .contains(&"poddisruptionbudgets/acme-worker".to_owned())
    );
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-worker", |workers| {
            workers["spec"]["replicas"] = 2.into();
            workers["status"] = json!({"replicas": 7});
        });
    world.settle().await;
    assert_eq!(replicas(&world), Some(7));
    assert_eq!(world.stack("acme").status.unwrap().workers.replicas, 7);
    let to_the_stack = world
        .server
        .writes()
        .into_iter()
        .filter(|write| write.path.contains("/shortenerstacks/"))
        .filter(|write| !write.path.ends_with("/status"));
    assert_eq!(to_the_stack.count(), 0, "the spec is the user's");
}

#[tokio::test(start_paused = true)]
async fn each_child_of_the_queue_that_is_deleted_or_edited_is_put_back() {
    async fn check<K: Kind>(world: &World, name: &str) {
        recreates::<K>(world, name).await;
        restores_label::<K>(world, name).await;
    }
    let world = World::with_stack(queue()).await;
    check::<ServiceAccount>(&world, "acme-rabbitmq").await;
    check::<ServiceAccount>(&world, "acme-worker").await;
    check::<ConfigMap>(&world, "acme-rabbitmq").await;
    check::<NetworkPolicy>(&world, "acme-rabbitmq").await;
    check::<NetworkPolicy>(&world, "acme-worker").await;
    check::<Service>(&world, "acme-rabbitmq").await;
    check::<StatefulSet>(&world, "acme-rabbitmq").await;
    check::<Deployment>(&world, "acme-worker").await;
    restores_label::<Secret>(&world, "acme-rabbitmq").await;
    restores_label::<PersistentVolumeClaim>(&world, "acme-rabbitmq").await;
}

#[tokio::test(start_paused = true)]
async fn edited_definitions_are_put_back_and_restart_nothing() {
    let world = World::with_stack(queue()).await;
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-rabbitmq", |secret| {
            secret["data"]["definitions.json"] = "e30=".into();
        });
    world.settle().await;
    assert_eq!(definitions(&world)["users"][0]["name"], "shortener");
    let writes = world.child_writes();
    assert!(
        writes.len() == 1 && writes[0].ends_with("/secrets/acme-rabbitmq"),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_rotated_password_reaches_the_definitions_and_restarts_broker_app_and_workers() {
    let world = World::with_stack(queue()).await;
    let before = definitions(&world)["users"][0]["password_hash"].clone();
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-rabbitmq", |secret| {
            secret["data"]["password"] = "bmV3".into();
        });
    world.settle().await;
    assert_ne!(definitions(&world)["users"][0]["password_hash"], before);
    let mut writes = world.child_writes();
    writes.sort();
    let expected = [
        "deployments/acme-app",
        "deployments/acme-worker",
        "statefulsets/acme-rabbitmq",
        "secrets/acme-rabbitmq",
    ];
    assert_eq!(writes.len(), expected.len(), "{writes:?}");
    for name in expected {
        assert!(
            writes.iter().any(|write| write.ends_with(name)),
            "{writes:?}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_rotated_password_of_the_operator_restarts_the_broker_alone_and_stays() {
    let world = World::with_stack(queue()).await;
    let hash = |user: usize| definitions(&world)["users"][user]["password_hash"].clone();
    let before = [hash(0), hash(1)];
    world
        .server
        .edit::<Secret>(NAMESPACE, "acme-rabbitmq", |secret| {
            secret["data"]["operator-password"] = "bmV3".into();
        });
    world.settle().await;
    assert_eq!(hash(0), before[0]);
    assert_ne!(hash(1), before[1]);
    assert_eq!(entry(&world, "operator-password"), b"new");
    let mut writes = world.child_writes();
    writes.sort();
    assert_eq!(writes.len(), 2, "{writes:?}");
    assert!(writes[0].ends_with("/secrets/acme-rabbitmq"), "{writes:?}");
    assert!(
        writes[1].ends_with("/statefulsets/acme-rabbitmq"),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn lost_credentials_of_a_broker_with_a_volume_are_never_minted_anew() {
    let world = World::with_stack(queue()).await;
    let secret = world.server.get::<Secret>(NAMESPACE, "acme-rabbitmq");
    world.server.delete::<Secret>(NAMESPACE, "acme-rabbitmq");
    world.settle().await;
    assert!(
        world
            .server
            .get::<Secret>(NAMESPACE, "acme-rabbitmq")
            .is_none()
    );
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "CredentialsMissing");
    // A restore needs the user name and the password only.
    let mut restored = secret.unwrap();
    restored
        .data
        .as_mut()
        .unwrap()
        .retain(|key, _| key != "definitions.json");
    world.server.create(&restored);
    world.settle().await;
    assert_eq!(world.condition("acme", "Degraded").status, "False");
    assert_eq!(definitions(&world)["users"][0]["name"], "shortener");
}

#[tokio::test(start_paused = true)]
async fn switching_the_queue_off_takes_the_data_of_a_stack_that_keeps_none() {
    let world = World::with_stack(json!({"profiles": ["queue"], "deletionPolicy": "Delete"})).await;
    world.broker.holds(DEAD_LETTERS, depth(4, 0));
    switch_off(&world);
    world.settle().await;
    roll_out_the_app(&world);
    world.settle().await;
    assert_eq!(world.children(), with(&[]), "dead letters hold nothing up");
}

/// Switches an empty queue off with one failing write at the very end. The operator may crash during the deletions.
async fn switch_off_with(failure: Option<(Fault, u64)>, crash: bool) -> World {
    let mut world = World::with_stack(queue()).await;
    switch_off(&world);
    world.settle().await;
    world.server.forget_writes();
    if let Some((fault, number)) = failure {
        world.server.fail_write(number, fault);
    }
    roll_out_the_app(&world);
    if crash {
        // The queue is found empty after 10 to 20 s. Then the deletions are in progress.
        world.pass(Duration::from_secs(15)).await;
        world = world.restart().await;
    }
    world.pass(Duration::from_secs(90)).await;
    world
}

#[tokio::test(start_paused = true)]
async fn a_failure_or_a_crash_at_any_write_of_the_end_of_a_queue_leads_to_the_same_end() {
    let reference = switch_off_with(None, false).await.server.writes().len() as u64;
    assert!(reference > QUEUE.len() as u64, "{reference}");
    for (fault, crash) in [(Fault::Refuse(500), false), (Fault::LoseResponse, true)] {
        for number in 1..=reference {
            let world = switch_off_with(Some((fault, number)), crash).await;
            let case = format!("{fault:?} at write {number}, crash: {crash}");
            assert_eq!(world.children(), with(&[&DATA]), "{case}");
            assert_eq!(world.creations(), 0, "{case}: something came back");
            assert_eq!(
                world.condition("acme", "Degraded").status,
                "False",
                "{case}"
            );
        }
    }
}
