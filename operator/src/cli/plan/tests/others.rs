//! Tests of plans in which other operators and autoscalers have a part.

use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use shortener_operator_core::model::{cloud_native_pg::Cluster, pooler::Pooler};

use super::*;

fn restarts(report: &PlanReport) -> Vec<String> {
    let restarts = report.changes.restarts.iter();
    restarts
        .map(|restart| format!("{}: {}", restart.child, restart.reasons.join(", ")))
        .collect()
}

#[tokio::test(start_paused = true)]
async fn a_first_install_whose_servers_other_operators_make_is_planned_to_its_end() {
    let server = FakeApiServer::default();
    server.add_optional_kinds();
    let spec = json!({
        "profiles": ["queue"],
        "database": {"cloudNativePG": {}}, "queue": {"rabbitmqCluster": {}},
    });
    let report = planned(&server, spec).await;
    assert_eq!(report.outcome(), PlanOutcome::Changed, "{report:?}");
    let created = names(&report.changes.created);
    for child in ["Deployment/acme-app", "Deployment/acme-worker"] {
        assert!(created.contains(&child.to_owned()), "{created:?}");
    }
    let notes = report.notes.join("\n");
    for first in [
        "first CloudNativePG makes Cluster/acme-pg",
        "first RabbitMQ's operator makes RabbitmqCluster/acme-mq",
    ] {
        assert!(notes.contains(first), "{notes}");
    }
    assert_eq!(server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_cluster_without_the_other_operator_holds_the_database() {
    let spec = json!({"database": {"cloudNativePG": {}}});
    let report = planned(&FakeApiServer::default(), spec).await;
    assert_eq!(report.outcome(), PlanOutcome::Blocked);
    assert_eq!(report.held[0].reason, "ClusterKindMissing");
}

#[tokio::test(start_paused = true)]
async fn a_move_to_a_cluster_is_planned_as_its_first_step_without_writes() {
    let server = FakeApiServer::default();
    server.add_kind::<Cluster>();
    server.add_kind::<Pooler>();
    let world = World::start(server);
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    world.server.forget_writes();
    let spec = json!({"database": {"cloudNativePG": {"storage": "3Gi"}}});
    let report = planned(&world.server, spec).await;
    assert_eq!(report.outcome(), PlanOutcome::Disturbed, "{report:?}");
    assert_eq!(report.held, []);
    let restarts = restarts(&report);
    assert!(restarts[0].starts_with("StatefulSet/acme-postgres: "));
    let notes = report.notes.join("\n");
    assert!(notes.contains("writes get 503"), "{notes}");
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn the_pods_that_a_growing_volume_restarts_are_named() {
    let world = World::with_stack(json!({})).await;
    let volume = json!({"phase": "Bound", "capacity": {"storage": "1Gi"}});
    world
        .report::<PersistentVolumeClaim>("acme-postgres", volume)
        .await;
    world.server.forget_writes();
    let same = planned(&world.server, json!({})).await;
    assert_eq!(same.outcome(), PlanOutcome::Unchanged, "{same:?}");
    let larger = json!({"database": {"managed": {"storage": "10Gi"}}});
    let report = planned(&world.server, larger).await;
    assert_eq!(report.outcome(), PlanOutcome::Disturbed);
    let restarts = restarts(&report).join("\n");
    let reason = "spec.containers[app].env[DATABASE_CAPACITY_BYTES]";
    assert!(restarts.contains(reason), "{restarts}");
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn the_number_of_an_autoscaler_that_is_gone_stays_until_the_spec_is_edited() {
    let world = World::with_stack(json!({})).await;
    let controller = json!({
        "manager": "kube-controller-manager", "operation": "Update", "subresource": "scale",
        "fieldsV1": {"f:spec": {"f:replicas": {}}},
    });
    world
        .server
        .reshape::<Deployment>(NAMESPACE, "acme-app", |app| {
            app["spec"]["replicas"] = 5.into();
            let managers = app["metadata"]["managedFields"].as_array_mut();
            managers.unwrap().push(controller);
        });
    world.settle().await;
    world.server.forget_writes();
    let same = planned(&world.server, json!({})).await;
    assert_eq!(same.outcome(), PlanOutcome::Unchanged, "{same:?}");
    let edited = json!({"rateLimits": {"shortenPerMinute": 61}});
    let edited = restarts(&planned(&world.server, edited).await);
    let fewer = "Deployment/acme-app: spec.replicas 5 -> 2: 3 pods end";
    assert!(edited[0].starts_with(fewer), "{edited:?}");
    assert_eq!(world.server.writes(), []);
}
