//! Tests of stacks that are only planned.

use std::time::Duration;

use k8s_openapi::api::{apps::v1::Deployment, core::v1::Secret};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::{PlanStatus, ShortenerStack},
    model::metadata::PLAN_ONLY,
};

use super::lifecycle::CHILDREN;
use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

fn plan(world: &World) -> Option<PlanStatus> {
    let plan = world.stack("acme").status.unwrap().plan;
    plan.map(|plan| *plan)
}

/// Edits the spec and lets the operator only plan it, in one write.
fn only_plan(world: &World, spec: Value) {
    let edit = |stack: &mut Value| {
        stack["metadata"]["annotations"][PLAN_ONLY] = "true".into();
        stack["spec"] = spec;
    };
    world.server.edit::<ShortenerStack>(NAMESPACE, "acme", edit);
}

fn apply(world: &World) {
    let edit = |stack: &mut Value| stack["metadata"]["annotations"] = json!({});
    world.server.edit::<ShortenerStack>(NAMESPACE, "acme", edit);
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_that_is_only_planned_gets_its_plan_and_no_object() {
    let world = World::start(FakeApiServer::default());
    let mut stack = stored_stack(json!({}));
    let annotations = stack.metadata.annotations.get_or_insert_default();
    annotations.insert(PLAN_ONLY.to_owned(), "true".to_owned());
    world.server.create(&stack);
    world.settle().await;
    assert_eq!(world.children(), Vec::<String>::new());
    assert_eq!(world.condition("acme", "Progressing").reason, "PlanOnly");
    let planned = plan(&world).unwrap();
    assert_eq!(planned.created.len(), CHILDREN.len(), "{planned:?}");
    assert!(planned.created.contains(&"Secret/acme-postgres".to_owned()));
    world.server.forget_writes();
    world.pass(Duration::from_secs(900)).await;
    assert_eq!(world.server.writes(), []);
    apply(&world);
    world.settle().await;
    assert_eq!(world.children().len(), CHILDREN.len());
    assert_eq!(plan(&world), None);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_the_api_server_refuses_is_named_in_the_plan() {
    let world = World::with_stack(json!({})).await;
    world
        .server
        .fail_kind::<Deployment>(Some(Fault::Refuse(422)));
    only_plan(&world, json!({"app": {"image": "app:2"}}));
    world.settle().await;
    let planned = plan(&world).unwrap();
    assert_eq!(planned.blocked, ["Deployment/acme-app"], "{planned:?}");
    assert_eq!(planned.restarts, Vec::<String>::new());
    assert_eq!(world.child_writes(), Vec::<String>::new());
    world.server.fail_kind::<Deployment>(None);
    world.pass(Duration::from_secs(900)).await;
    assert_eq!(plan(&world).unwrap().restarts, ["Deployment/acme-app"]);
}

#[tokio::test(start_paused = true)]
async fn an_edit_that_is_only_planned_changes_nothing_until_the_annotation_goes() {
    let world = World::with_stack(json!({})).await;
    only_plan(&world, json!({"profiles": ["caching"]}));
    world.settle().await;
    assert_eq!(world.child_writes(), Vec::<String>::new());
    let planned = plan(&world).unwrap();
    assert_eq!(planned.restarts, ["Deployment/acme-app"]);
    assert_eq!(planned.created.len(), 6, "{planned:?}");
    assert_eq!(world.server.get::<Secret>(NAMESPACE, "acme-cache"), None);
    apply(&world);
    world.settle().await;
    assert!(
        world
            .children()
            .contains(&"statefulsets/acme-cache".to_owned())
    );
    assert_eq!(plan(&world), None);
}

#[tokio::test(start_paused = true)]
async fn nothing_between_the_reconciles_changes_a_stack_that_is_only_planned() {
    let gateway = json!({"provider": "Standalone", "endToEndProbe": {"intervalSeconds": 30}});
    let world = World::with_stack(json!({"profiles": ["queue"], "gateway": gateway})).await;
    assert!(!world.gateway.seen().is_empty());
    only_plan(&world, json!({"profiles": ["queue"], "gateway": gateway}));
    world.settle().await;
    world.gateway.seen();
    world.broker.edit_policy("shortener-jobs", |policy| {
        policy["definition"]["max-length"] = 1.into();
    });
    world.broker.forget_changes();
    world.pass(Duration::from_secs(900)).await;
    assert_eq!(world.broker.changes(), Vec::<String>::new());
    assert_eq!(world.gateway.seen().len(), 0);
    apply(&world);
    world.settle().await;
    assert_eq!(world.broker.policy("shortener-jobs", "max-length"), 100_000);
    assert!(!world.gateway.seen().is_empty());
}

#[tokio::test(start_paused = true)]
async fn data_that_an_edit_would_delete_stays_and_is_told() {
    let world = World::with_stack(json!({"profiles": ["vector"]})).await;
    only_plan(&world, json!({"deletionPolicy": "Delete"}));
    world.settle().await;
    let planned = plan(&world).unwrap();
    let volume = "VolumeDeleted PersistentVolumeClaim/acme-qdrant: ";
    assert!(
        planned.risks.iter().any(|risk| risk.starts_with(volume)),
        "{planned:?}"
    );
    assert!(planned.summary.ends_with("at risk"), "{}", planned.summary);
    assert_eq!(world.child_writes(), Vec::<String>::new());
}
