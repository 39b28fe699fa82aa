//! Tests of pods that restart or end, by kind.

use super::*;

/// Returns the number of an object's pods and what the step from one stack to another does to them, reason by reason.
fn told(before: &ValidatedStack, after: &ValidatedStack, name: &str) -> (i64, Vec<String>) {
    let changes = diff(&plan(after.clone()), &live(before.clone())).unwrap();
    let mut restarts = changes.restarts.into_iter();
    let found = restarts.find(|restart| restart.child == child(name));
    found.map_or((0, Vec::new()), |found| (found.pods, found.reasons))
}

fn is_told(found: (i64, Vec<String>), pods: i64, reasons: &[&str]) {
    let (now, told) = found;
    assert_eq!(told, reasons);
    assert_eq!(now, pods);
}

fn clustered(settings: Value) -> ValidatedStack {
    resolved(json!({"database": {"cloudNativePG": settings}}))
}

fn brokered(settings: Value) -> ValidatedStack {
    resolved(json!({"profiles": ["queue"], "queue": {"rabbitmqCluster": settings}}))
}

#[test]
fn servers_of_cloudnativepg_restart_and_end_like_pods() {
    let with = |memory: &str| {
        let resources = json!({"limits": {"memory": memory}});
        clustered(json!({"template": {"resources": resources}}))
    };
    let cluster = "Cluster/acme-pg";
    let larger = told(&with("1Gi"), &with("2Gi"), cluster);
    is_told(larger, 3, &["spec.resources.limits.memory changes"]);
    let three = clustered(json!({}));
    let image = clustered(json!({"template": {"imageName": "pg:18"}}));
    is_told(
        told(&three, &image, cluster),
        3,
        &["spec.imageName changes"],
    );
    let two = clustered(json!({"instances": 2}));
    let fewer = ["spec.instances 3 -> 2: 1 pod ends"];
    is_told(told(&three, &two, cluster), 3, &fewer);
    let stopped = resolved(json!({"stopped": true, "database": {"cloudNativePG": {}}}));
    let ends = ["metadata.annotations[cnpg.io/hibernation] becomes on, so the pods end"];
    is_told(told(&three, &stopped, cluster), 3, &ends);
    let quiet = clustered(json!({"storage": "9Gi", "template": {"switchoverDelay": 9}}));
    for (before, after) in [(&two, &three), (&three, &quiet), (&stopped, &image)] {
        is_told(told(before, after, cluster), 0, &[]);
    }
}

#[test]
fn members_of_a_rabbitmq_cluster_restart_and_end_like_pods() {
    let three = brokered(json!({}));
    let cluster = "RabbitmqCluster/acme-mq";
    let resources = json!({"limits": {"memory": "3Gi"}});
    let larger = brokered(json!({"template": {"resources": resources}}));
    is_told(
        told(&three, &larger, cluster),
        3,
        &["spec.resources changes"],
    );
    let spec = json!({"profiles": ["queue"], "queue": {"rabbitmqCluster": {}}, "stopped": true});
    let ends = ["spec.replicas becomes 0, so the pods end"];
    is_told(told(&three, &resolved(spec), cluster), 3, &ends);
    let quiet = brokered(json!({"storage": "9Gi", "template": {"skipPostDeploySteps": true}}));
    is_told(told(&three, &quiet, cluster), 0, &[]);
    // They have to know how many they are.
    let more = ["spec.rabbitmq.additionalConfig changes"];
    is_told(
        told(&three, &brokered(json!({"replicas": 5})), cluster),
        3,
        &more,
    );
}

#[test]
fn pods_of_a_pooler_restart_and_end_like_others() {
    let pooled = |instances: i32| clustered(json!({"pooler": {"instances": instances}}));
    let pooler = "Pooler/acme-pg-pooler";
    let mut elsewhere = pooled(3);
    elsewhere.pod_templates = minimal_stack().user_settings().pod_templates;
    let (pods, reasons) = told(&pooled(3), &elsewhere, pooler);
    assert_eq!(pods, 3);
    let moved = "spec.nodeSelector changes".to_owned();
    assert!(reasons.contains(&moved), "{reasons:?}");
    let fewer = ["spec.instances 3 -> 1: 2 pods end"];
    is_told(told(&pooled(3), &pooled(1), pooler), 3, &fewer);
    is_told(told(&pooled(1), &pooled(3), pooler), 0, &[]);
    let gone = ["it is deleted, so the pods end"];
    is_told(told(&pooled(2), &clustered(json!({})), pooler), 2, &gone);
}

#[test]
fn pods_that_are_too_many_end() {
    let (ten, one) = (minimal_stack().replicas(10), minimal_stack().replicas(1));
    let app = "Deployment/acme-app";
    let fewer = ["spec.replicas 10 -> 1: 9 pods end"];
    is_told(told(&ten, &one, app), 10, &fewer);
    is_told(told(&one, &ten, app), 0, &[]);
    let changes = diff(&plan(one), &live(ten)).unwrap();
    assert!(changes.disturbs());
}

#[test]
fn an_autoscaler_with_a_lower_limit_ends_pods_and_none_when_it_goes() {
    let limited = |most: i32| {
        let mut stack = minimal_stack().scaled_by_load(None);
        if let Some(scaling) = &mut stack.app.scaling {
            scaling.is_left = true;
            if let Some(limits) = &mut scaling.limits {
                limits.max_replicas = most;
            }
        }
        stack
    };
    let autoscaler = child("HorizontalPodAutoscaler/acme-app");
    let mut live = live(limited(6));
    live.get_mut(&autoscaler).unwrap()["status"] = json!({"currentReplicas": 5});
    let of_autoscaler = |changes: Changes| {
        let mut restarts = changes.restarts.into_iter();
        restarts.find(|restart| restart.child == autoscaler)
    };
    for (most, reason) in [(5, None), (3, Some("spec.maxReplicas 6 -> 3: 2 pods end"))] {
        let found = of_autoscaler(diff(&plan(limited(most)), &live).unwrap());
        let found = found.map(|found| (found.pods, found.reasons.join(", ")));
        assert_eq!(found, reason.map(|reason| (5, reason.to_owned())));
    }
    let gone = diff(&plan(minimal_stack()), &live).unwrap();
    assert!(gone.deleted.contains(&autoscaler));
    assert_eq!(of_autoscaler(gone), None);
}

#[test]
fn pods_of_a_workload_that_is_deleted_end() {
    let cached = minimal_stack().caching();
    let gone = ["it is deleted, so the pods end"];
    let found = told(&cached, &minimal_stack(), "StatefulSet/acme-cache");
    is_told(found, 1, &gone);
    // Those of one without pods do not.
    let stopped = cached.stopped();
    let found = told(&stopped, &minimal_stack(), "StatefulSet/acme-cache");
    is_told(found, 0, &[]);
}
