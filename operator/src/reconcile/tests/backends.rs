//! Tests of stores that the stack's programs cannot use, as the pods of the app tell it.

use std::{net::SocketAddr, time::Duration};

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Pod, Secret},
};
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::{Component, labels};

use crate::testing::{
    app::address,
    world::{NAMESPACE, World},
};

fn pod_at(last: u8) -> SocketAddr {
    SocketAddr::from(([10, 1, 0, last], 9090))
}

/// Creates a pod of the app that is ready, or whose status is this.
fn create_pod(world: &World, name: &str, status: Value) {
    let pod = json!({
        "metadata": {"name": name, "namespace": NAMESPACE, "labels": labels("acme", Component::App)},
        "status": status,
    });
    let pod: Pod = serde_json::from_value(pod).unwrap();
    world.server.create(&pod);
}

fn ready(address: SocketAddr) -> Value {
    json!({
        "podIP": address.ip(),
        "conditions": [{"type": "Ready", "status": "True"}],
    })
}

fn create_secret(world: &World, name: &str, key: &str) {
    let secret = json!({
        "metadata": {"name": name, "namespace": NAMESPACE},
        "data": {key: "YW1xcDovL2I="},
    });
    let secret: Secret = serde_json::from_value(secret).unwrap();
    world.server.create(&secret);
}

/// Starts a stack with an external broker behind a private authority, and one pod of the app.
async fn with_external_queue() -> World {
    let external = json!({
        "secretRef": {"name": "mq", "key": "uri"},
        "tls": {"caSecretRef": {"name": "mq-ca"}},
    });
    let spec = json!({"profiles": ["queue"], "queue": {"external": external}});
    let world = World::with_stack(spec).await;
    create_secret(&world, "mq", "uri");
    create_secret(&world, "mq-ca", "ca.crt");
    world.app.says_up();
    create_pod(&world, "acme-app-a", ready(pod_at(1)));
    world.settle().await;
    assert_eq!(world.condition("acme", "QueueReady").reason, "External");
    world.server.forget_writes();
    world
}

fn status_writes(world: &World) -> usize {
    let writes = world.server.writes();
    let status = writes
        .iter()
        .filter(|write| write.path.ends_with("/status"));
    status.count()
}

#[tokio::test(start_paused = true)]
async fn a_refused_certificate_is_told_within_a_minute_and_so_is_its_renewal() {
    let world = with_external_queue().await;
    world.app.says_of_queue("tls_untrusted");
    world.settle().await;
    let sentence = "queue.external: the certificate of the broker is not signed by the authority in Secret mq-ca (key \
                    ca.crt): add the authority that signed it";
    for type_ in ["QueueReady", "Degraded"] {
        let condition = world.condition("acme", type_);
        assert_eq!(
            (condition.reason.as_str(), condition.message.as_str()),
            ("TlsUntrusted", sentence),
            "{type_}"
        );
    }
    assert_eq!(world.condition("acme", "QueueReady").status, "False");
    assert_eq!(world.child_writes(), [] as [String; 0]);

    world.app.says_up();
    world.settle().await;
    let healthy = world.condition("acme", "QueueReady");
    assert_eq!(
        (healthy.status.as_str(), healthy.reason.as_str()),
        ("True", "External")
    );
}

#[tokio::test(start_paused = true)]
async fn a_store_that_stays_as_it_is_causes_no_write_even_after_a_restart() {
    let world = with_external_queue().await;
    world.app.says_of_queue("denied");
    world.settle().await;
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), []);
    let rounds = world.app.asked().len();
    assert!((90..=170).contains(&rounds), "{rounds} in an hour");
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.server.writes(), []);
    let condition = world.condition("acme", "QueueReady");
    assert_eq!(condition.reason, "LoginRefused", "{}", condition.message);
}

#[tokio::test(start_paused = true)]
async fn silence_of_the_store_is_told_and_silence_of_the_pod_makes_it_unknown() {
    let world = with_external_queue().await;
    world.app.says_of_queue("unreachable");
    world.pass(Duration::from_secs(90)).await;
    let condition = world.condition("acme", "QueueReady");
    assert_eq!(condition.reason, "Unreachable", "{}", condition.message);
    world.server.forget_writes();
    world.app.fall_silent();
    world.pass(Duration::from_secs(150)).await;
    assert_eq!(world.condition("acme", "QueueReady").reason, "External");
    assert_eq!(status_writes(&world), 1);
}

#[tokio::test(start_paused = true)]
async fn the_newest_ready_pod_is_asked_at_once() {
    let world = with_external_queue().await;
    let asked = world.app.asked();
    assert!(
        asked.iter().all(|asked| *asked == address(pod_at(1))),
        "{asked:?}"
    );
    create_pod(&world, "acme-app-b", json!({"podIP": pod_at(2).ip()}));
    world.settle().await;
    assert!(!world.app.asked().contains(&address(pod_at(2))));
    world.server.edit::<Pod>(NAMESPACE, "acme-app-b", |pod| {
        pod["status"] = ready(pod_at(2));
    });
    world.pass(Duration::from_secs(2)).await;
    assert!(world.app.asked().contains(&address(pod_at(2))));
}

/// Sets the number of ready pods of the managed database.
fn set_ready_databases(world: &World, ready: i32) {
    world
        .server
        .edit::<StatefulSet>(NAMESPACE, "acme-postgres", |live| {
            live["status"] = json!({
                "observedGeneration": live["metadata"]["generation"],
                "replicas": 1, "updatedReplicas": 1, "readyReplicas": ready,
            });
        });
}

/// Starts a stack with a managed database that is ready, and one pod of the app.
async fn with_managed_database() -> World {
    let world = World::with_stack(json!({})).await;
    world.app.says_up();
    set_ready_databases(&world, 1);
    create_pod(&world, "acme-app-a", ready(pod_at(1)));
    world.settle().await;
    assert_eq!(world.condition("acme", "DatabaseReady").reason, "PodsReady");
    world.server.forget_writes();
    world
}

#[tokio::test(start_paused = true)]
async fn a_managed_database_that_refuses_its_clients_is_not_ready() {
    let world = with_managed_database().await;
    world.app.says_of_database("denied");
    world.pass(Duration::from_secs(90)).await;
    for (type_, status) in [
        ("DatabaseReady", "False"),
        ("Ready", "False"),
        ("Degraded", "True"),
    ] {
        let condition = world.condition("acme", type_);
        assert_eq!(
            (condition.status.as_str(), condition.reason.as_str()),
            (status, "LoginRefused"),
            "{type_}"
        );
        let remedy =
            "database.managed: the database refuses the credentials in Secret acme-postgres";
        assert!(
            condition.message.starts_with(remedy),
            "{}",
            condition.message
        );
        assert!(condition.message.ends_with("delete pod acme-postgres-0"));
    }
    assert_eq!(world.child_writes(), [] as [String; 0]);
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes(), [], "a stack at rest");
    world.app.says_up();
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.condition("acme", "DatabaseReady").reason, "PodsReady");
}

#[tokio::test(start_paused = true)]
async fn a_restart_of_a_managed_database_is_no_fault() {
    let world = with_managed_database().await;
    world.app.says_of_database("unreachable");
    for (ready, reason) in [(0, "PodsStarting"), (1, "Unreachable")] {
        set_ready_databases(&world, ready);
        world.pass(Duration::from_secs(90)).await;
        let database = world.condition("acme", "DatabaseReady");
        assert_eq!(database.reason, reason, "{}", database.message);
        let degraded = world.condition("acme", "Degraded");
        assert_eq!(degraded.status, "False", "{}", degraded.message);
    }
    world.app.says_up();
    world.pass(Duration::from_secs(60)).await;
    assert_eq!(world.condition("acme", "DatabaseReady").reason, "PodsReady");
}

#[tokio::test(start_paused = true)]
async fn stopped_stacks_are_not_asked() {
    let world = with_external_queue().await;
    world.edit_spec("acme", |spec| spec["stopped"] = json!(true));
    world.settle().await;
    world.app.asked();
    world.settle().await;
    assert_eq!(world.app.asked(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn a_migration_that_cannot_log_in_is_told_before_any_pod_is_ready() {
    let external = json!({"external": {"secretRef": {"name": "db", "key": "uri"}}});
    let world = World::with_stack(json!({"database": external})).await;
    create_secret(&world, "db", "uri");
    world.settle().await;
    let ended = json!({"terminated": {"exitCode": 1, "message": "app: cannot migrate\ndenied\n"}});
    let statuses = json!([{
        "name": "migrate", "image": "app", "imageID": "", "ready": false, "restartCount": 1,
        "state": {"waiting": {"reason": "CrashLoopBackOff"}}, "lastState": ended,
    }]);
    create_pod(
        &world,
        "acme-app-a",
        json!({"initContainerStatuses": statuses}),
    );
    world.settle().await;
    let condition = world.condition("acme", "DatabaseReady");
    assert_eq!(condition.reason, "LoginRefused");
    let sentence = "database.external: the database refuses the user or the password in Secret db";
    assert!(
        condition.message.starts_with(sentence),
        "{}",
        condition.message
    );
    assert_eq!(world.app.asked(), Vec::<String>::new());
}
