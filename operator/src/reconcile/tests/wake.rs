//! Tests of the events that wake a stack, and of the watches that bring them.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{ConfigMap, Secret},
    policy::v1::PodDisruptionBudget,
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::ShortenerStack,
    model::metadata::{INSTANCE_LABEL, MANAGED_BY_LABEL},
};

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

const SECRET: &str = "links-app";

/// Creates a Secret as a Helm release makes it.
fn create_labelled(world: &World) {
    let secret: Secret = serde_json::from_value(json!({
        "metadata": {
            "name": SECRET,
            "namespace": NAMESPACE,
            "labels": {INSTANCE_LABEL: "their-release", MANAGED_BY_LABEL: "Helm"},
        },
        "data": {"url": "cG9zdGdyZXM6Ly9saW5rcw=="},
    }))
    .unwrap();
    world.server.create(&secret);
}

#[tokio::test(start_paused = true)]
async fn a_secret_wakes_the_stacks_that_use_it_whatever_labels_it_carries() {
    let external = json!({"external": {"secretRef": {"name": SECRET}}});
    let world = World::with_stack(json!({"database": external})).await;
    assert_eq!(world.condition("acme", "Degraded").reason, "SecretNotFound");
    create_labelled(&world);
    world.settle().await;
    let degraded = world.condition("acme", "Degraded");
    assert_ne!(degraded.reason, "SecretNotFound", "{}", degraded.message);

    let before = world.checksum::<Deployment>("acme-app");
    world.server.edit::<Secret>(NAMESPACE, SECRET, |secret| {
        secret["data"]["url"] = Value::from("cG9zdGdyZXM6Ly9uZXc=");
    });
    world.settle().await;
    assert_ne!(world.checksum::<Deployment>("acme-app"), before);

    world.server.delete::<Secret>(NAMESPACE, SECRET);
    world.settle().await;
    assert_eq!(world.condition("acme", "Degraded").reason, "SecretNotFound");
}

#[tokio::test(start_paused = true)]
async fn a_secret_that_only_pods_use_wakes_the_stack_when_it_appears_changes_and_is_deleted() {
    let by_key = json!([{"name": "A", "valueFrom": {"secretKeyRef": {"name": "env", "key": "k"}}}]);
    let world = World::with_stack(json!({
        "imagePullSecrets": [{"name": "pull"}],
        "app": {"podTemplate": {"spec": {"containers": [{"name": "app", "env": by_key}]}}},
        "database": {"managed": {"podTemplate": {"spec": {
            "imagePullSecrets": [{"name": "pod-pull"}],
            "containers": [{"name": "mine", "image": "mine:1", "envFrom": [{"secretRef": {"name": "group"}}]}],
            "volumes": [
                {"name": "one", "secret": {"secretName": "volume"}},
                {"name": "two", "projected": {"sources": [{"secret": {"name": "projected"}}]}},
            ],
        }}}},
    }))
    .await;
    let reads = async |change: &dyn Fn()| {
        let before = world.server.reads();
        change();
        world.pass(Duration::from_secs(1)).await;
        world.server.reads() - before
    };
    for name in ["pull", "env", "pod-pull", "group", "volume", "projected"] {
        let secret = Secret {
            metadata: serde_json::from_value(json!({"name": name, "namespace": NAMESPACE}))
                .unwrap(),
            ..Secret::default()
        };
        let create = || {
            world.server.create(&secret);
        };
        let edit = || {
            let edit = |secret: &mut Value| secret["data"] = json!({"k": "dmFsdWU="});
            world.server.edit::<Secret>(NAMESPACE, name, edit);
        };
        let delete = || world.server.delete::<Secret>(NAMESPACE, name);
        assert!(reads(&create).await > 0, "{name} appears");
        assert!(reads(&edit).await > 0, "{name} changes");
        assert!(reads(&delete).await > 0, "{name} is deleted");
    }
    let unused = Secret {
        metadata: serde_json::from_value(json!({"name": "unused", "namespace": NAMESPACE}))
            .unwrap(),
        ..Secret::default()
    };
    let create = || {
        world.server.create(&unused);
    };
    assert_eq!(reads(&create).await, 0);
}

#[tokio::test(start_paused = true)]
async fn an_edit_after_a_quiet_time_acts_at_once() {
    let world = World::with_stack(json!({})).await;
    world.edit_spec("acme", |spec| spec["app"]["replicas"] = 3.into());
    world.pass(Duration::from_millis(10)).await;
    let writes = world.child_writes();
    assert!(
        writes
            .iter()
            .any(|path| path.ends_with("deployments/acme-app")),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn events_that_never_pause_do_not_postpone_an_edit() {
    let world = World::with_stack(json!({})).await;
    for round in 0..10 {
        world
            .server
            .edit::<Deployment>(NAMESPACE, "acme-app", |app| {
                app["status"] = json!({"observedGeneration": round});
            });
        if round == 2 {
            world.edit_spec("acme", |spec| spec["app"]["replicas"] = 3.into());
        }
        world.pass(Duration::from_millis(50)).await;
    }
    let writes = world.child_writes();
    assert!(
        writes
            .iter()
            .any(|path| path.ends_with("deployments/acme-app")),
        "{writes:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_was_paused_while_it_waited_for_its_turn_is_not_written() {
    let world = World::with_stack(json!({})).await;
    let permits = &world.context.permits;
    let all = u32::try_from(permits.available_permits()).unwrap();
    let turns = permits.acquire_many(all).await.unwrap();
    world.edit_spec("acme", |spec| spec["app"]["replicas"] = 3.into());
    world.settle().await;
    world.edit_spec("acme", |spec| spec["paused"] = true.into());
    world.settle().await;
    drop(turns);
    world.settle().await;
    let suspended = "/apis/batch/v1/namespaces/links/cronjobs/acme-purge";
    assert_eq!(world.child_writes(), [suspended]);
}

#[tokio::test(start_paused = true)]
async fn a_status_that_keeps_changing_does_not_defeat_the_backoff_of_a_failing_stack() {
    let world = World::start(FakeApiServer::default());
    world
        .server
        .fail_kind::<ConfigMap>(Some(Fault::Refuse(500)));
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    world.server.forget_writes();
    for round in 0..60 {
        let change = |stack: &mut Value| stack["status"]["theirs"] = round.into();
        world
            .server
            .edit::<ShortenerStack>(NAMESPACE, "acme", change);
        world.pass(Duration::from_secs(1)).await;
    }
    let writes = world.server.writes();
    let attempts = writes
        .iter()
        .filter(|write| write.path.contains("configmaps"));
    assert!(attempts.count() < 10, "{writes:?}");
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_was_deleted_while_its_watch_was_interrupted_leaves_nothing_behind() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    let page = || world.metrics();
    assert!(page().contains("name=\"acme\""), "{}", page());
    world.server.hold_watches();
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    world.server.release_watches();
    world.server.expire_watches();
    world.settle().await;
    assert!(!page().contains("acme"), "{}", page());
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_deleted_while_it_is_reconciled_leaves_nothing_behind() {
    let world = World::with_stack(json!({"profiles": ["queue"]})).await;
    let slow = Duration::from_secs(2);
    world
        .server
        .fail_reads::<Secret>(Some(Fault::AnswerLate(slow)));
    world.edit_spec("acme", |spec| spec["app"] = json!({"replicas": 3}));
    world.pass(slow / 2).await;
    world.server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    let asked = world.context.queues.targets(true);
    assert!(asked.is_empty(), "{asked:?}");
    let page = world.metrics();
    assert!(!page.contains("acme"), "{page}");
}

#[tokio::test(start_paused = true)]
async fn stacks_that_may_not_be_listed_make_the_operator_unready_until_they_may() {
    let server = FakeApiServer::default();
    server.fail_reads::<ShortenerStack>(Some(Fault::Refuse(403)));
    let world = World::start(server);
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    let problems = world.context.health.problems();
    let subject = "shortenerstacks.shortener.dev in all namespaces could not be listed yet";
    assert!(
        problems.len() == 1
            && problems[0].contains(subject)
            && problems[0].contains("grant the operator's service account"),
        "{problems:?}"
    );
    let page = world.metrics();
    let counted = "shortener_operator_watch_errors_total{kind=\"ShortenerStack\"}";
    assert!(page.contains(counted), "{page}");

    world.server.fail_reads::<ShortenerStack>(None);
    // The duration of the longest backoff.
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(world.context.health.problems(), [] as [String; 0]);
    let children = world.children();
    assert!(
        children.contains(&"deployments/acme-app".to_owned()),
        "{children:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_kind_that_may_not_be_listed_is_named_and_holds_up_no_other() {
    let server = FakeApiServer::default();
    server.fail_reads::<PodDisruptionBudget>(Some(Fault::Refuse(403)));
    let world = World::start(server);
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    let children = world.children();
    for child in ["deployments/acme-app", "statefulsets/acme-postgres"] {
        assert!(children.contains(&child.to_owned()), "{children:?}");
    }
    let degraded = world.condition("acme", "Degraded");
    assert!(
        degraded.message.contains("PodDisruptionBudget/acme-"),
        "{}",
        degraded.message
    );
    assert_eq!(world.context.health.problems(), [] as [String; 0]);

    world.server.fail_reads::<PodDisruptionBudget>(None);
    // The durations of the longest backoffs of a watch and of a stack that failed a few times.
    world.pass(Duration::from_secs(300)).await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.status, "False", "{}", degraded.message);
}
