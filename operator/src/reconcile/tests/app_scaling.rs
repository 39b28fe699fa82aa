//! Tests of an app that an autoscaler scales: the operator's own, or one that a user made.

use std::time::Duration;

use k8s_openapi::api::{
    apps::v1::Deployment, autoscaling::v2::HorizontalPodAutoscaler, core::v1::Secret,
};
use kube::ResourceExt;
use serde_json::{Value, json};
use shortener_operator_core::model::metadata::FIELD_MANAGER;

use super::with;
use crate::testing::{
    api_server::Fault,
    world::{NAMESPACE, World},
};

const AUTOSCALER: &str = "horizontalpodautoscalers/acme-app";

fn app(world: &World) -> Deployment {
    world.server.get(NAMESPACE, "acme-app").unwrap()
}

fn replicas(world: &World) -> Option<i32> {
    app(world).spec.unwrap().replicas
}

/// Scales the app as an autoscaler does: its controller then owns the number of pods.
async fn scale(world: &World, replicas: i32) {
    world
        .server
        .edit::<Deployment>(NAMESPACE, "acme-app", |app| {
            app["spec"]["replicas"] = replicas.into();
        });
    world.settle().await;
}

/// Returns true when the operator owns the number of pods.
fn is_written(world: &World) -> bool {
    let app = app(world);
    let mut entries = app.managed_fields().iter();
    entries.any(|entry| {
        let fields = entry.fields_v1.as_ref().unwrap();
        entry.manager.as_deref() == Some(FIELD_MANAGER)
            && fields.0.pointer("/f:spec/f:replicas").is_some()
    })
}

/// Creates an autoscaler like a user.
fn create_rival(world: &World) {
    let target = json!({"apiVersion": "apps/v1", "kind": "Deployment", "name": "acme-app"});
    let rival = json!({
        "metadata": {"name": "mine", "namespace": NAMESPACE},
        "spec": {"maxReplicas": 9, "scaleTargetRef": target},
    });
    let rival: HorizontalPodAutoscaler = serde_json::from_value(rival).unwrap();
    world.server.create(&rival);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_pods_is_handed_over_to_the_autoscaler_and_taken_back_without_a_gap() {
    let autoscaling = json!({"app": {"autoscaling": {"maxReplicas": 6}}});
    let world = World::with_stack(autoscaling).await;
    assert_eq!(world.children(), with(&[&[AUTOSCALER]]));
    assert_eq!(replicas(&world), Some(2));
    assert!(is_written(&world), "left out now, it would fall to 1");
    for number in [4, 5] {
        scale(&world, number).await;
        assert_eq!(
            (replicas(&world), is_written(&world)),
            (Some(number), false)
        );
    }
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(replicas(&world), Some(5));
    world.edit_spec("acme", |spec| spec["app"]["autoscaling"] = Value::Null);
    world.settle().await;
    assert_eq!(world.children(), with(&[]));
    assert_eq!((replicas(&world), is_written(&world)), (Some(2), true));
}

#[tokio::test(start_paused = true)]
async fn the_number_counts_without_the_autoscaler_although_the_first_try_reads_nothing() {
    let autoscaling = json!({"app": {"autoscaling": {"maxReplicas": 6}}});
    let world = World::with_stack(autoscaling).await;
    scale(&world, 5).await;
    let fault = Some(Fault::Refuse(403));
    world.server.fail_reads::<Secret>(fault);
    world.edit_spec("acme", |spec| spec["app"] = json!({"replicas": 3}));
    world.settle().await;
    let degraded = world.condition("acme", "Degraded");
    assert_eq!(degraded.reason, "Forbidden", "{degraded:?}");
    assert_eq!(replicas(&world), Some(5));
    world.server.fail_reads::<Secret>(None);
    world.pass(Duration::from_secs(400)).await;
    assert_eq!(replicas(&world), Some(3));
    assert_eq!(world.children(), with(&[]));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_gets_an_autoscaler_keeps_its_pods() {
    let world = World::with_stack(json!({"app": {"replicas": 5}})).await;
    world.edit_spec("acme", |spec| {
        spec["app"]["autoscaling"] = json!({"maxReplicas": 6});
    });
    world.settle().await;
    assert_eq!(replicas(&world), Some(5));
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_started_again_has_pods_that_its_autoscaler_can_scale() {
    let world = World::with_stack(json!({"app": {"autoscaling": {"maxReplicas": 6}}})).await;
    scale(&world, 4).await;
    world.edit_spec("acme", |spec| spec["stopped"] = true.into());
    world.settle().await;
    assert_eq!(replicas(&world), Some(0));
    world.edit_spec("acme", |spec| spec["stopped"] = false.into());
    world.settle().await;
    assert_eq!(replicas(&world), Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_a_user_is_not_fought_while_it_exists() {
    let world = World::with_stack(json!({})).await;
    scale(&world, 3).await;
    assert_eq!(replicas(&world), Some(2), "an edit by hand is put back");
    create_rival(&world);
    world.settle().await;
    scale(&world, 7).await;
    assert_eq!(replicas(&world), Some(7));
    world
        .server
        .delete::<HorizontalPodAutoscaler>(NAMESPACE, "mine");
    world.settle().await;
    assert_eq!(replicas(&world), Some(2));
}

#[tokio::test(start_paused = true)]
async fn an_autoscaler_of_a_user_keeps_the_operator_from_making_one() {
    let world = World::with_stack(json!({"app": {"autoscaling": {"maxReplicas": 6}}})).await;
    create_rival(&world);
    world.settle().await;
    assert!(!world.children().contains(&AUTOSCALER.to_owned()));
    let condition = world.condition("acme", "AppReady");
    assert_eq!(condition.reason, "AutoscalerConflict");
    assert!(condition.message.contains("mine"), "{condition:?}");
}
