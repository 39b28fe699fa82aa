//! Tests of data that an edit puts at risk, by the kind of its servers.

use super::*;
use crate::model::stack::{DatabaseMove, MoveStep};

/// Returns the risks of the step from one stack to another, as reason and object.
fn risks(before: ValidatedStack, after: ValidatedStack) -> Vec<(RiskReason, String)> {
    let changes = diff(&plan(after), &live(before)).unwrap();
    let risks = changes.risks.into_iter();
    risks
        .map(|risk| (risk.reason, risk.child.to_string()))
        .collect()
}

#[test]
fn servers_of_other_operators_that_go_with_the_stack_are_a_risk() {
    let stack = || {
        minimal_stack()
            .cloud_native_pg(json!({}))
            .rabbitmq_cluster(json!({}))
    };
    let deleted = RiskReason::VolumeDeletedWithStack;
    assert_eq!(
        risks(stack(), stack().deleting_data()),
        ["Cluster/acme-pg", "RabbitmqCluster/acme-mq"].map(|name| (deleted, name.to_owned()))
    );
    assert_eq!(risks(stack().deleting_data(), stack()), []);
}

fn external(secret: &str, key: &str) -> ValidatedStack {
    let reference = json!({"name": secret, "key": key});
    resolved(json!({"database": {"external": {"secretRef": reference}}}))
}

#[test]
fn a_store_in_whose_place_the_app_gets_another_leaves_its_data() {
    let clustered = || minimal_stack().cloud_native_pg(json!({}));
    let brokered = || minimal_stack().rabbitmq_cluster(json!({}));
    let replaced = [
        (
            minimal_stack(),
            external("a", "uri"),
            "StatefulSet/acme-postgres",
        ),
        (external("a", "uri"), minimal_stack(), "Secret/a"),
        (external("a", "uri"), external("b", "uri"), "Secret/a"),
        (external("a", "uri"), external("a", "host"), "Secret/a"),
        (external("a", "uri"), clustered(), "Secret/a"),
        (clustered(), minimal_stack(), "Cluster/acme-pg"),
        (clustered(), external("a", "uri"), "Cluster/acme-pg"),
        (
            minimal_stack().queue(),
            minimal_stack().external_queue(),
            "StatefulSet/acme-rabbitmq",
        ),
        (
            minimal_stack().external_queue(),
            minimal_stack().queue(),
            "Secret/links-queue",
        ),
        (
            minimal_stack().queue(),
            brokered(),
            "StatefulSet/acme-rabbitmq",
        ),
        (
            brokered(),
            minimal_stack().queue(),
            "RabbitmqCluster/acme-mq",
        ),
    ];
    for (before, after, holder) in replaced {
        let found = risks(before, after);
        assert_eq!(found, [(RiskReason::StoreReplaced, holder.to_owned())]);
    }
}

#[test]
fn documents_of_another_vector_store_come_from_the_database() {
    let found = risks(minimal_stack().vector(), minimal_stack().external_vector());
    let filled = (
        RiskReason::CollectionChanges,
        "StatefulSet/acme-qdrant".to_owned(),
    );
    assert!(found.contains(&filled), "{found:?}");
    let reasons: Vec<RiskReason> = found.into_iter().map(|(reason, _)| reason).collect();
    assert!(!reasons.contains(&RiskReason::StoreReplaced));
}

#[test]
fn a_store_that_stays_or_goes_and_links_that_are_brought_are_not_left() {
    let mut moved = minimal_stack().cloud_native_pg(json!({}));
    moved.database_move = Some(DatabaseMove {
        step: MoveStep::Switching,
        server: None,
        username: "shortener".to_owned(),
        copy: None,
    });
    let pooled = minimal_stack().cloud_native_pg(json!({"pooler": {}}));
    for (before, after) in [
        (minimal_stack(), moved),
        (minimal_stack().cloud_native_pg(json!({})), pooled),
        (external("a", "uri"), external("a", "uri").caching()),
        (minimal_stack().external_queue(), minimal_stack()),
    ] {
        assert_eq!(risks(before, after), []);
    }
    let from = json!({"database": {"restoreFrom": {"claimName": "old-backup"}}});
    let begun = (
        RiskReason::TakedownsNotInBackup,
        "StatefulSet/acme-postgres".to_owned(),
    );
    assert_eq!(risks(external("a", "uri"), resolved(from)), [begun]);
}
