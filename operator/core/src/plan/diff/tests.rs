mod ends;
mod risks;

use base64::{Engine, engine::general_purpose::STANDARD};
use k8s_openapi::ByteString;
use serde_json::json;

use super::*;
use crate::{
    model::{
        metadata::FIELD_MANAGER,
        stack::{Drain, Draining, Store, ValidatedStack},
    },
    plan::build,
    testing::stack::{every_profile, minimal_stack, resolved},
};

fn plan(stack: ValidatedStack) -> Plan {
    Plan {
        desired: build::build(&stack),
        stack,
        drain: Drain::Skipped,
    }
}

/// Returns the children of a stack as the API server stores them, with credentials in the Secrets.
fn live(mut stack: ValidatedStack) -> LiveChildren {
    let desired = build::build(&stack);
    let mut live: LiveChildren = rendered::children(&desired)
        .unwrap()
        .into_iter()
        .map(|rendered| {
            let mut object = rendered.object;
            let fields = owned(&object);
            object["metadata"]["managedFields"] = json!([
                {"manager": FIELD_MANAGER, "operation": "Apply", "fieldsV1": fields},
            ]);
            (rendered.child, object)
        })
        .collect();
    for (name, value) in credentials(&mut stack) {
        let secret = live.get_mut(&child("Secret/acme-postgres")).unwrap();
        secret["data"][name] = json!(STANDARD.encode(value));
    }
    live
}

/// Returns the ownership of every field, of lists as a whole.
fn owned(value: &Value) -> Value {
    let fields = value.as_object().into_iter().flatten();
    fields
        .map(|(key, value)| (format!("f:{key}"), owned(value)))
        .collect()
}

/// Returns the credentials of every managed store, apart from the user name, which is no secret.
fn credentials(stack: &mut ValidatedStack) -> BTreeMap<String, Vec<u8>> {
    let stores = stack.stores_mut().filter_map(|store| store.managed());
    let data = stores.flat_map(|store| store.credentials.data.clone());
    data.filter(|(key, _)| key != "username")
        .map(|(key, value)| (key, value.0))
        .collect()
}

fn child(text: &str) -> ChildName {
    let (kind, name) = text.split_once('/').unwrap();
    ChildName {
        kind: kind.to_owned(),
        name: name.to_owned(),
    }
}

fn names(children: &[ChildName]) -> Vec<String> {
    children.iter().map(ToString::to_string).collect()
}

fn paths<'a>(changes: &'a Changes, name: &str) -> Vec<&'a str> {
    let child = child(name);
    let mut changed = changes.changed.iter();
    let changed = changed.find(|changed| changed.child == child).unwrap();
    let paths = changed.fields.iter();
    paths.map(|field| field.path.as_str()).collect()
}

fn reasons(changes: &Changes) -> Vec<RiskReason> {
    changes.risks.iter().map(|risk| risk.reason).collect()
}

#[test]
fn a_stack_that_is_as_it_should_be_does_not_change() {
    let changes = diff(&plan(every_profile()), &live(every_profile())).unwrap();
    assert!(changes.is_empty() && !changes.disturbs(), "{changes:?}");
    let desired = build::build(&every_profile());
    assert_eq!(changes.unchanged, children(&desired).unwrap());
}

#[test]
fn everything_of_a_new_stack_is_created() {
    let new = every_profile().with_new_secrets();
    let changes = diff(&plan(new.clone()), &LiveChildren::new()).unwrap();
    assert_eq!(changes.created, children(&build::build(&new)).unwrap());
    assert!(!changes.disturbs());
}

#[test]
fn more_pods_disturb_none() {
    let changes = diff(&plan(minimal_stack().replicas(3)), &live(minimal_stack())).unwrap();
    assert_eq!(paths(&changes, "Deployment/acme-app"), ["spec.replicas"]);
    assert_eq!(changes.restarts, []);
    assert!(!changes.is_empty() && !changes.disturbs());
}

#[test]
fn a_restart_is_told_with_the_fields_and_the_secret_that_cause_it() {
    let wanted = minimal_stack().caching().with_new_secrets();
    let changes = diff(&plan(wanted), &live(minimal_stack())).unwrap();
    for created in ["Secret/acme-cache", "StatefulSet/acme-cache"] {
        let created = created.to_owned();
        assert!(names(&changes.created).contains(&created), "{created}");
    }
    let [restart] = changes.restarts.as_slice() else {
        panic!("{:?}", changes.restarts);
    };
    assert_eq!(restart.child, child("Deployment/acme-app"));
    assert_eq!(restart.pods, 2);
    let reasons = &restart.reasons;
    let told = |reason: &str| reasons.iter().any(|found| found == reason);
    assert!(
        told("the pods use Secret/acme-cache, which this plan writes"),
        "{reasons:?}"
    );
    assert!(
        told("spec.containers[app].env[CACHE_URL] changes"),
        "{reasons:?}"
    );
}

#[test]
fn a_setting_that_is_taken_away_restarts_as_well() {
    let changes = diff(
        &plan(minimal_stack()),
        &live(minimal_stack().user_settings()),
    )
    .unwrap();
    let paths = paths(&changes, "Deployment/acme-app");
    let gone = "spec.template.spec.nodeSelector.disk";
    assert!(paths.contains(&gone), "{paths:?}");
    let restarted: Vec<ChildName> = changes
        .restarts
        .iter()
        .map(|restart| restart.child.clone())
        .collect();
    assert!(restarted.contains(&child("Deployment/acme-app")));
}

#[test]
fn pods_that_end_are_told_like_a_restart() {
    let changes = diff(&plan(minimal_stack().stopped()), &live(minimal_stack())).unwrap();
    let stopped: Vec<String> = changes
        .restarts
        .iter()
        .map(|restart| format!("{}: {}", restart.child, restart.reasons.join(", ")))
        .collect();
    let app = "Deployment/acme-app: spec.replicas becomes 0, so the pods end";
    assert!(stopped.contains(&app.to_owned()), "{stopped:?}");
    assert!(changes.disturbs());
}

#[test]
fn pods_that_do_not_run_do_not_restart() {
    let live = live(minimal_stack().stopped());
    let changes = diff(&plan(minimal_stack().caching()), &live).unwrap();
    assert!(paths(&changes, "Deployment/acme-app").len() > 1);
    assert_eq!(changes.restarts, []);
}

#[test]
fn a_profile_that_is_off_leaves_its_volume_unless_the_data_is_to_be_deleted() {
    let live = live(every_profile());
    let (volume, secret) = (
        child("PersistentVolumeClaim/acme-qdrant"),
        child("Secret/acme-qdrant"),
    );
    let kept = diff(&plan(minimal_stack()), &live).unwrap();
    assert!(kept.deleted.contains(&child("StatefulSet/acme-qdrant")));
    assert!(!kept.deleted.contains(&volume) && !kept.deleted.contains(&secret));
    assert_eq!(reasons(&kept), [RiskReason::QueueGivenUp]);

    let gone = diff(&plan(minimal_stack().deleting_data()), &live).unwrap();
    assert!(gone.deleted.contains(&volume) && gone.deleted.contains(&secret));
    let at_risk = |reason: RiskReason, name: &ChildName| {
        let mut risks = gone.risks.iter();
        risks.any(|risk| risk.reason == reason && risk.child == *name)
    };
    assert!(at_risk(RiskReason::VolumeDeleted, &volume));
    let database = child("PersistentVolumeClaim/acme-postgres");
    assert!(at_risk(RiskReason::VolumeDeletedWithStack, &database));
    assert!(gone.disturbs());
}

#[test]
fn a_queue_that_drains_tells_how_many_jobs_are_left() {
    let with_members = minimal_stack().rabbitmq_cluster(json!({}));
    for (stack, broker) in [
        (every_profile(), "StatefulSet/acme-rabbitmq"),
        (with_members, "RabbitmqCluster/acme-mq"),
    ] {
        let draining = Plan {
            drain: Drain::Draining(Draining {
                closed: true,
                left: Some(3),
                workers: true,
            }),
            ..plan(stack.clone().draining())
        };
        let changes = diff(&draining, &live(stack)).unwrap();
        assert_eq!(reasons(&changes), [RiskReason::QueueDrains]);
        assert!(changes.risks[0].message.contains("3 jobs are left"));
        assert_eq!(changes.risks[0].child, child(broker));
    }
}

#[test]
fn documents_in_a_collection_that_the_app_leaves_are_told() {
    let mut other = minimal_stack().vector();
    if let Some(vector) = &mut other.vector {
        vector.collection = "pages".to_owned();
    }
    let changes = diff(&plan(other), &live(minimal_stack().vector())).unwrap();
    assert_eq!(reasons(&changes), [RiskReason::CollectionChanges]);
}

#[test]
fn a_database_that_moves_to_another_server_leaves_its_data() {
    let external = plan(minimal_stack().external_database());
    let changes = diff(&external, &live(minimal_stack())).unwrap();
    assert_eq!(reasons(&changes), [RiskReason::StoreReplaced]);
}

#[test]
fn takedowns_after_the_backup_that_a_database_begins_with_are_a_risk() {
    let from = json!({"claimName": "old-backup", "backup": "20261128T041700Z"});
    let stack = || resolved(json!({"database": {"restoreFrom": from}}));
    let changes = diff(&plan(stack()), &LiveChildren::new()).unwrap();
    assert_eq!(reasons(&changes), [RiskReason::TakedownsNotInBackup]);
    let message = &changes.risks[0].message;
    assert!(message.contains("20261128T041700Z"), "{message}");
    let changes = diff(&plan(stack()), &live(stack())).unwrap();
    assert_eq!(reasons(&changes), []);
}

#[test]
fn data_of_a_part_that_is_off_is_released_when_data_is_kept() {
    let mut live = live(minimal_stack().vector());
    let names = ["PersistentVolumeClaim/acme-qdrant", "Secret/acme-qdrant"];
    let owner = minimal_stack().identity.owner;
    for name in names {
        let object = live.get_mut(&child(name)).unwrap();
        object["metadata"]["ownerReferences"] = json!([owner]);
    }
    let changes = diff(&plan(minimal_stack()), &live).unwrap();
    for name in names {
        assert_eq!(paths(&changes, name), ["metadata.ownerReferences"]);
    }
    // A volume never loses its owner before its Secret does.
    live.remove(&child("Secret/acme-qdrant"));
    let changes = diff(&plan(minimal_stack()), &live).unwrap();
    let mut changed = changes.changed.iter();
    assert!(!changed.any(|changed| changed.child == child(names[0])));
}

#[test]
fn an_object_of_another_owner_blocks_and_is_not_compared() {
    let mut live = live(minimal_stack());
    let app = child("Deployment/acme-app");
    let object = live.get_mut(&app).unwrap();
    object["metadata"]["ownerReferences"] = json!([
        {"apiVersion": "v1", "kind": "Other", "name": "x", "uid": "x", "controller": true},
    ]);
    object["spec"]["replicas"] = json!(7);
    let changes = diff(&plan(minimal_stack()), &live).unwrap();
    assert_eq!(changes.changed, []);
    let blocked: Vec<&ChildName> = changes.blocked.iter().map(|found| &found.child).collect();
    assert_eq!(blocked, [&app]);
}

#[test]
fn no_credential_is_ever_shown() {
    let mut before = every_profile();
    let mut after = every_profile();
    for store in after.stores_mut() {
        if let Store::Managed(store) = store {
            for value in store.credentials.data.values_mut() {
                *value = ByteString(b"an0ther".to_vec());
            }
            store.checksum = "another-checksum".to_owned();
        }
    }
    let mut hidden: Vec<Vec<u8>> = credentials(&mut before).into_values().collect();
    hidden.extend(credentials(&mut after).into_values());
    for (stack, rotated) in [(&mut before, None), (&mut after, Some(b"r0tated"))] {
        let operator = stack
            .queue
            .as_mut()
            .and_then(|queue| queue.operator.as_mut());
        let password = &mut operator.unwrap().password;
        password.0 = rotated.map_or_else(|| password.0.clone(), |rotated| rotated.to_vec());
        hidden.push(password.0.clone());
    }
    let changes = diff(&plan(after), &live(before)).unwrap();
    assert_eq!(
        paths(&changes, "Secret/acme-rabbitmq"),
        ["data.operator-password", "data[definitions.json]"]
    );
    assert!(changes.disturbs());
    let text = serde_json::to_string(&changes).unwrap();
    assert!(text.contains(HIDDEN) && !text.contains("another-checksum"));
    for secret in hidden {
        let encoded = STANDARD.encode(&secret);
        let secret = String::from_utf8(secret).unwrap();
        assert!(!text.contains(&secret), "{secret} in {text}");
        assert!(!text.contains(&encoded), "{encoded} in {text}");
    }
}
