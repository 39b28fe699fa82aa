//! Tests of the users' changes of pod templates on live objects.

use k8s_openapi::api::{
    apps::v1::{Deployment, StatefulSet},
    core::v1::{PodTemplateSpec, Secret, Service},
};
use serde_json::{Value, json};

use super::lifecycle::CHILDREN;
use crate::testing::world::{NAMESPACE, World};

/// Changes that add to the pods and take away from them.
fn changes() -> Value {
    json!({
        "metadata": {"labels": {"team": "links"}},
        "spec": {
            "securityContext": {"runAsUser": null, "runAsGroup": null},
            "containers": [{
                "name": "proxy", "image": "proxy:1", "resources": {"limits": {"memory": "64Mi"}},
                "securityContext": {"allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}},
            }],
        },
    })
}

fn app(world: &World) -> (PodTemplateSpec, Option<i32>) {
    let app = world.server.get::<Deployment>(NAMESPACE, "acme-app");
    let spec = app.unwrap().spec.unwrap();
    (spec.template, spec.replicas)
}

#[tokio::test(start_paused = true)]
async fn changes_take_away_what_the_operator_sets_and_give_it_back() {
    let world = World::with_stack(json!({})).await;
    let (before, _) = app(&world);
    world.edit_spec("acme", |spec| spec["app"]["podTemplate"] = changes());
    world.settle().await;
    let (changed, _) = app(&world);
    let labels = changed.metadata.unwrap().labels.unwrap();
    assert_eq!(labels["team"], "links");
    let pod = changed.spec.unwrap();
    assert_eq!(pod.containers.len(), 2);
    let security = pod.security_context.unwrap();
    assert_eq!((security.run_as_user, security.run_as_group), (None, None));
    assert_eq!(security.run_as_non_root, Some(true));
    world.edit_spec("acme", |spec| spec["app"]["podTemplate"] = Value::Null);
    world.settle().await;
    assert_eq!(app(&world).0, before);
}

#[tokio::test(start_paused = true)]
async fn a_restart_writes_no_changed_pod_again() {
    let spec = json!({"app": {"podTemplate": changes()}, "database": {"managed": {"podTemplate": changes()}}});
    let world = World::with_stack(spec).await;
    let world = world.restart().await;
    world.settle().await;
    assert_eq!(world.child_writes(), Vec::<String>::new());
}

#[tokio::test(start_paused = true)]
async fn refused_changes_leave_the_live_pods_alone_and_everything_else_goes_on() {
    let world = World::with_stack(json!({"app": {"podTemplate": changes()}})).await;
    let (before, _) = app(&world);
    world.edit_spec("acme", |spec| {
        spec["app"]["podTemplate"] = json!({"spec": {"hostNetwork": true}});
        spec["app"]["replicas"] = json!(5);
        spec["gateway"]["replicas"] = json!(3);
    });
    world.settle().await;
    assert_eq!(app(&world), (before.clone(), Some(5)));
    let gateway = world.server.get::<Deployment>(NAMESPACE, "acme-gateway");
    assert_eq!(gateway.unwrap().spec.unwrap().replicas, Some(3));
    assert_eq!(world.children(), CHILDREN);
    for type_ in ["AppReady", "Degraded", "Stalled"] {
        let named = world.condition("acme", type_);
        assert_eq!(named.reason, "PodTemplateRefused", "{type_}");
        let sentence = "app.podTemplate: spec.hostNetwork ";
        assert!(named.message.starts_with(sentence), "{}", named.message);
    }
    world.edit_spec("acme", |spec| spec["app"]["podTemplate"] = changes());
    world.settle().await;
    assert_eq!(app(&world).0, before);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn a_store_with_refused_changes_is_repaired_except_its_pod() {
    let world = World::with_stack(json!({})).await;
    let before = world.server.get::<StatefulSet>(NAMESPACE, "acme-postgres");
    world.edit_spec("acme", |spec| {
        spec["database"] = json!({"managed": {"podTemplate": {"sepc": {}}}});
    });
    world.server.delete::<Service>(NAMESPACE, "acme-postgres");
    world.settle().await;
    assert_eq!(world.children(), CHILDREN);
    let after = world.server.get::<StatefulSet>(NAMESPACE, "acme-postgres");
    assert_eq!(after, before);
    let named = world.condition("acme", "DatabaseReady");
    assert_eq!(named.reason, "PodTemplateRefused", "{}", named.message);
    assert!(
        named.message.contains("sepc is no field"),
        "{}",
        named.message
    );
}

#[tokio::test(start_paused = true)]
async fn a_new_stack_with_refused_changes_has_one_password_for_its_missing_pod() {
    let spec = json!({
        "profiles": ["caching"],
        "cache": {"managed": {"podTemplate": {"spec": {"volumes": [{"name": "config", "emptyDir": {}}]}}}},
    });
    let missing = "statefulsets/acme-cache";
    let mut expected = World::with_stack(json!({"profiles": ["caching"]}))
        .await
        .children();
    expected.retain(|child| child != missing);
    let world = World::with_stack(spec).await;
    assert_eq!(world.children(), expected);
    let password = |world: &World| {
        world
            .server
            .get::<Secret>(NAMESPACE, "acme-cache")
            .unwrap()
            .data
    };
    let (before, template) = (password(&world), app(&world).0);
    world.edit_spec("acme", |spec| spec["cache"] = json!({}));
    world.settle().await;
    assert!(world.children().contains(&missing.to_owned()));
    assert_eq!((password(&world), app(&world).0), (before, template));
}
