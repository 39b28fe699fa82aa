//! Tests of what changes of pod templates can and cannot do to the pods of a stack.

use std::{collections::BTreeSet, sync::Arc};

use k8s_openapi::api::apps::v1::Deployment;
use kube_core::ResourceExt;
use serde_json::{Value, json};

use super::*;
use crate::{
    model::facts::Facts,
    plan::{build::build, validate::validate},
    testing::{
        shared::stored_stack,
        stack::{defaults, every_profile, facts, resolved},
    },
};

/// Returns the stack with every profile and the changes of the pod templates at their fields.
fn changed(changes: &[(&str, Value)]) -> ValidatedStack {
    resolved(spec(changes))
}

fn spec(changes: &[(&str, Value)]) -> Value {
    let mut spec = json!({
        "profiles": ["caching", "queue", "observability", "vector"],
        "observability": {"backend": {"managed": {}}},
    });
    for (field, change) in changes {
        let place = field
            .split('.')
            .fold(&mut spec, |object, name| &mut object[name]);
        place["podTemplate"] = change.clone();
    }
    spec
}

/// The fields of the components with their labels.
const FIELDS: [(&str, Component); 9] = [
    ("app", Component::App),
    ("gateway", Component::Gateway),
    ("workers", Component::Worker),
    ("database.managed", Component::Postgres),
    ("cache.managed", Component::Cache),
    ("queue.managed", Component::Rabbitmq),
    ("vector.managed", Component::Qdrant),
    ("observability.collector.managed", Component::Otel),
    ("observability.backend.managed", Component::Telemetry),
];

/// Returns a container of the user that complies with the policy.
fn sidecar() -> Value {
    json!({"name": "sidecar", "image": "sidecar:1", "securityContext": {
        "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]},
    }})
}

#[test]
fn every_component_takes_changes_of_its_own_pods_alone() {
    let change = json!({
        "metadata": {"labels": {"team": "links"}},
        "spec": {"containers": [sidecar()], "securityContext": {"runAsUser": null}},
    });
    let before = build::pod_templates(&changed(&[]));
    assert_eq!(before.len(), FIELDS.len());
    for (field, component) in FIELDS {
        let stack = changed(&[(field, change.clone())]);
        assert!(stack.held.is_empty(), "{:?}", stack.held);
        for (other, template) in build::pod_templates(&stack) {
            if other != component {
                assert_eq!(template, before[&other], "{field} changes {other:?}");
                continue;
            }
            let labels = template.metadata.unwrap().labels.unwrap();
            assert_eq!(labels["team"], "links", "{field}");
            let pod = template.spec.unwrap();
            assert_eq!(pod.containers.last().unwrap().name, "sidecar", "{field}");
            assert_eq!(pod.security_context.unwrap().run_as_user, None, "{field}");
        }
    }
}

#[test]
fn a_store_has_the_sidecar_that_its_pod_template_asks_for() {
    let label = "sidecar.istio.io/inject";
    let change = json!({"metadata": {"labels": {label: "true"}}});
    let stack = changed(&[("database.managed", change)]);
    assert!(stack.held.is_empty(), "{:?}", stack.held);
    let template = &build::pod_templates(&stack)[&Component::Postgres];
    let labels = template.metadata.as_ref().unwrap().labels.as_ref();
    assert_eq!(labels.unwrap()[label], "true");
}

#[test]
fn a_pod_template_merged_over_itself_is_the_same() {
    for (component, template) in build::pod_templates(&every_profile()) {
        let itself = serde_json::to_value(&template).unwrap();
        let itself = itself.as_object().unwrap();
        let changes = checked("itself", itself, &template, Some(&BTreeSet::new())).unwrap();
        assert_eq!(changes.onto(&template).unwrap(), template, "{component:?}");
    }
}

/// Returns changes of the main container of the app.
fn app(mut container: Value) -> Value {
    container["name"] = json!("app");
    json!({"spec": {"containers": [container]}})
}

/// Checks that each of these changes of the app holds it, with this path in the message.
fn all_refused(table: &[(Value, &str)]) {
    for (change, path) in table {
        refused("app", Component::App, change, path);
    }
}

#[test]
fn metadata_that_the_stack_does_not_work_without_is_refused_by_name() {
    all_refused(&[
        (
            json!({"metadata": {"labels": {"app.kubernetes.io/instance": "x"}}}),
            "metadata.labels.app.kubernetes.io/instance",
        ),
        (
            json!({"metadata": {"labels": null}}),
            "metadata.labels.app.kubernetes.io/component",
        ),
        (
            json!({"metadata": {"annotations": {"$patch": "replace"}}}),
            "metadata.annotations.shortener.dev/config-checksum",
        ),
        (
            json!({"metadata": {"annotations": {"shortener.dev/mine": "x"}}}),
            "metadata.annotations.shortener.dev/mine",
        ),
        (json!({"metadata": {"name": "x"}}), "metadata.name"),
    ]);
}

#[test]
fn a_field_of_the_pod_that_the_stack_does_not_work_without_is_refused_by_name() {
    all_refused(&[
        (
            json!({"spec": {"restartPolicy": "Never"}}),
            "spec.restartPolicy",
        ),
        (json!({"spec": {"hostNetwork": true}}), "spec.hostNetwork"),
        (json!({"spec": {"hostPID": true}}), "spec.hostPID"),
        (json!({"spec": {"hostIPC": true}}), "spec.hostIPC"),
        (
            json!({"spec": {"automountServiceAccountToken": true}}),
            "spec.automountServiceAccountToken",
        ),
        (
            json!({"spec": {"serviceAccount": "x"}}),
            "spec.serviceAccount",
        ),
        (
            json!({"spec": {"activeDeadlineSeconds": 60}}),
            "spec.activeDeadlineSeconds",
        ),
        (
            json!({"spec": {"ephemeralContainers": [{"name": "x"}]}}),
            "spec.ephemeralContainers",
        ),
        (
            json!({"spec": {"terminationGracePeriodSeconds": 5}}),
            "spec.terminationGracePeriodSeconds",
        ),
        (
            json!({"spec": {"$patch": "replace"}}),
            "spec.automountServiceAccountToken",
        ),
        (json!({"spec": {"containres": []}}), "spec.containres"),
    ]);
}

#[test]
fn other_containers_cannot_take_the_place_of_the_operators() {
    all_refused(&[
        (
            json!({"spec": {"initContainers": null}}),
            "spec.initContainers[migrate]",
        ),
        (
            json!({"spec": {"initContainers": [{"name": "migrate", "$patch": "delete"}]}}),
            "spec.initContainers[migrate]",
        ),
        (
            json!({"spec": {"initContainers": [{"name": "migrate", "args": ["x"]}]}}),
            "spec.initContainers[migrate].args",
        ),
        (
            json!({"spec": {"containers": [{"name": "x", "ports": [{"containerPort": 3000}]}]}}),
            "spec.containers[x].ports",
        ),
        (
            json!({"spec": {"initContainers": [{"name": "x", "ports": [{"containerPort": 1, "hostPort": 1}]}]}}),
            "spec.initContainers[x].ports",
        ),
    ]);
}

#[test]
fn a_field_of_the_app_that_the_stack_does_not_work_without_is_refused_by_name() {
    all_refused(&[
        (app(json!({"$patch": "delete"})), "spec.containers[app]"),
        (
            app(json!({"command": ["sh"]})),
            "spec.containers[app].command",
        ),
        (app(json!({"args": null})), "spec.containers[app].args"),
        (
            app(json!({"image": "mine:1"})),
            "spec.containers[app].image",
        ),
        (
            app(json!({"resources": {"limits": {"memory": "1Gi"}}})),
            "spec.containers[app].resources",
        ),
        (
            app(json!({"ports": [{"containerPort": 3000, "name": "other"}]})),
            "spec.containers[app].ports",
        ),
        (
            app(json!({"ports": [{"containerPort": 4000, "hostPort": 4000}]})),
            "spec.containers[app].ports",
        ),
        (
            app(json!({"readinessProbe": null})),
            "spec.containers[app].readinessProbe",
        ),
        (
            app(json!({"livenessProbe": {"httpGet": {"path": "/"}}})),
            "spec.containers[app].livenessProbe",
        ),
        (
            app(json!({"env": [{"name": "DATABASE_URL", "$patch": "delete"}]})),
            "spec.containers[app].env",
        ),
        (app(json!({"env": null})), "spec.containers[app].env"),
        (
            app(json!({"restartPolicy": "Always"})),
            "spec.containers[app].restartPolicy",
        ),
    ]);
}

/// Checks that changes hold their component alone, with the field and the path in the message.
fn refused(field: &str, component: Component, change: &Value, path: &str) {
    let stack = changed(&[(field, change.clone())]);
    let held: Vec<_> = stack.held.keys().copied().collect();
    assert_eq!(held, [component], "{change}");
    let failure = &stack.held[&component];
    assert_eq!(failure.reason, "PodTemplateRefused");
    assert!(failure.needs_an_edit);
    let sentence = format!("{field}.podTemplate: {path} ");
    assert!(
        failure.message.starts_with(&sentence),
        "{}",
        failure.message
    );
    assert!(stack.pod_templates.is_empty());
}

#[test]
fn data_configuration_and_hooks_of_the_stores_stay_as_they_are() {
    let data = json!({"spec": {"volumes": [{"name": "data", "persistentVolumeClaim": {"claimName": "other"}}]}});
    refused(
        "database.managed",
        Component::Postgres,
        &data,
        "spec.volumes[data]",
    );
    let config = json!({"spec": {"volumes": [{"name": "config", "emptyDir": {}}]}});
    refused(
        "queue.managed",
        Component::Rabbitmq,
        &config,
        "spec.volumes[config]",
    );
    let mount = json!({"spec": {"containers": [
        {"name": "qdrant", "volumeMounts": [{"mountPath": "/qdrant/storage", "name": "tmp"}]},
    ]}});
    refused(
        "vector.managed",
        Component::Qdrant,
        &mount,
        "spec.containers[qdrant].volumeMounts",
    );
    let hook = json!({"spec": {"containers": [
        {"name": "postgres", "lifecycle": {"postStart": null}},
    ]}});
    refused(
        "database.managed",
        Component::Postgres,
        &hook,
        "spec.containers[postgres].lifecycle",
    );
}

#[test]
fn what_only_adds_to_the_operators_containers_is_admitted() {
    for (field, change) in [
        (
            "app",
            app(json!({"env": [{"name": "DATABASE_URL", "value": "postgres://proxy/x"}]})),
        ),
        (
            "app",
            app(json!({"ports": [{"containerPort": 4000}], "imagePullPolicy": "Always"})),
        ),
        (
            "app",
            app(json!({"readinessProbe": {"periodSeconds": 9, "failureThreshold": 5}})),
        ),
        (
            "app",
            app(json!({"lifecycle": {"preStop": {"sleep": {"seconds": 3}}}})),
        ),
        (
            "app",
            app(json!({"securityContext": {"readOnlyRootFilesystem": false}})),
        ),
        (
            "app",
            json!({"spec": {"terminationGracePeriodSeconds": 300, "runtimeClassName": "gvisor"}}),
        ),
        (
            "app",
            json!({"spec": {"initContainers": [{"name": "migrate", "resources": {"limits": {"memory": "1Gi"}}}]}}),
        ),
        (
            "database.managed",
            json!({"spec": {"volumes": [{"name": "tmp", "emptyDir": {"sizeLimit": "4Gi"}}]}}),
        ),
    ] {
        let stack = changed(&[(field, change.clone())]);
        assert!(stack.held.is_empty(), "{change}: {:?}", stack.held);
    }
}

/// Returns the names of the workloads that are written.
fn workloads(stack: &ValidatedStack) -> BTreeSet<String> {
    let children = build(stack).children;
    let deployments = children.deployments.iter().map(ResourceExt::name_any);
    let sets = children.stateful_sets.iter().map(ResourceExt::name_any);
    deployments.chain(sets).collect()
}

#[test]
fn refused_changes_keep_the_pods_of_their_component_and_everything_else_goes_on() {
    let all = workloads(&every_profile());
    for (field, component) in FIELDS {
        let stack = changed(&[(field, json!({"spec": {"hostNetwork": true}}))]);
        let own = format!("acme-{}", component.as_str());
        let mut expected = all.clone();
        expected.remove(&own);
        assert_eq!(workloads(&stack), expected, "{field}");
        let (mut found, mut unchanged) = (build(&stack), build(&changed(&[])));
        assert_eq!(found.held, BTreeSet::from([component]));
        for children in [&mut found.children, &mut unchanged.children] {
            children.deployments.clear();
            children.stateful_sets.clear();
        }
        assert_eq!(found.children, unchanged.children, "{field}");
    }
}

#[test]
fn a_program_with_refused_changes_keeps_its_live_template_and_is_scaled() {
    let live: Deployment = serde_json::from_value(json!({
        "spec": {"selector": {}, "template": {"metadata": {"labels": {"live": "yes"}}}},
    }))
    .unwrap();
    let mut spec = spec(&[("workers", json!({"spec": {"hostNetwork": true}}))]);
    spec["workers"]["replicas"] = json!(7);
    let stack = stored_stack(spec);
    let programs =
        [Component::App, Component::Worker].map(|program| (program, Arc::new(live.clone())));
    let facts = Facts {
        programs: programs.into(),
        ..facts(&stack.spec)
    };
    let validated = validate(&stack, facts, &defaults()).unwrap();
    let kept: Vec<_> = validated.kept_templates.keys().copied().collect();
    assert_eq!(kept, [Component::Worker]);
    let mut deployments = build(&validated).children.deployments.into_iter();
    let workers = deployments.find(|deployment| deployment.name_any() == "acme-worker");
    let found = workers.unwrap().spec.unwrap();
    assert_eq!(found.replicas, Some(7));
    assert_eq!(found.template, live.spec.unwrap().template);
}

#[test]
fn changes_for_a_part_that_is_off_wait_for_it() {
    let spec = json!({"workers": {"podTemplate": {"spec": {"hostNetwork": true}}}});
    assert!(resolved(spec).held.is_empty());
}
