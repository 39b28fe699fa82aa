//! Tests of the backups of the database.

use k8s_openapi::api::{
    batch::v1::CronJob,
    core::v1::{PersistentVolumeClaim, Pod},
};
use serde_json::{Value, json};
use shortener_operator_core::{
    api::BackupResult,
    model::metadata::{Component, INSTANCE_LABEL, MANAGED_BY_LABEL, USABLE_BY_STACKS, labels},
};

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

const CRON_JOB: &str = "cronjobs/acme-backup";
const CLAIM: &str = "persistentvolumeclaims/acme-backup";

/// Returns a spec with backups.
fn backed_up() -> Value {
    let verify = json!({"schedule": "17 5 * * 0"});
    let backup = json!({"schedule": "17 4 * * *", "volume": {}, "verify": verify});
    json!({"database": {"backup": backup}})
}

/// Returns the time, to the second.
fn now() -> String {
    let now = jiff::Timestamp::now().as_second();
    jiff::Timestamp::from_second(now).unwrap().to_string()
}

/// Ends a run of a component with this message.
fn end(world: &World, component: Component, code: i32, message: &str) {
    let end = json!({"exitCode": code, "message": message, "finishedAt": now()});
    let container = json!({"name": "it", "image": "", "imageID": "", "ready": false, "restartCount": 0, "state": {"terminated": end}});
    let pod: Pod = serde_json::from_value(json!({
        "metadata": {
            "name": format!("acme-{}-{code}", component.as_str()),
            "namespace": NAMESPACE,
            "labels": labels("acme", component),
        },
        "status": {
            "phase": if code == 0 { "Succeeded" } else { "Failed" },
            "containerStatuses": [container],
        },
    }))
    .unwrap();
    world.server.create(&pod);
}

fn is_suspended(world: &World) -> Option<bool> {
    let live: CronJob = world.server.get(NAMESPACE, "acme-backup").unwrap();
    live.spec.unwrap().suspend
}

#[tokio::test(start_paused = true)]
async fn backups_that_are_switched_off_leave_their_volume() {
    let world = World::with_stack(backed_up()).await;
    let children = world.children();
    for child in [CRON_JOB, CLAIM] {
        assert!(children.contains(&child.to_owned()), "{children:?}");
    }
    world.edit_spec("acme", |spec| spec["database"] = json!({}));
    world.settle().await;
    let mut left = world.children();
    left.retain(|child| child.ends_with("-backup"));
    assert_eq!(left, [CLAIM]);
}

#[tokio::test(start_paused = true)]
async fn a_larger_volume_of_another_class_is_taken_up_as_it_is() {
    let world = World::start(FakeApiServer::default());
    let claim = json!({
        "metadata": {"name": "acme-backup", "namespace": NAMESPACE, "labels": {INSTANCE_LABEL: "acme"}},
        "spec": {
            "accessModes": ["ReadWriteOncePod"],
            "storageClassName": "fast",
            "resources": {"requests": {"storage": "200Gi"}},
        },
        "status": {"phase": "Bound", "capacity": {"storage": "200Gi"}},
    });
    let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
    let before = world.server.create(&claim);
    world.server.create(&stored_stack(backed_up()));
    world.settle().await;
    let live: PersistentVolumeClaim = world.server.get(NAMESPACE, "acme-backup").unwrap();
    assert_eq!(live.spec, before.spec);
    assert_eq!(world.condition("acme", "Degraded").status, "False");
}

#[tokio::test(start_paused = true)]
async fn no_backup_begins_while_the_stack_is_paused_or_stopped_or_backups_are_suspended() {
    let world = World::with_stack(backed_up()).await;
    assert_eq!(is_suspended(&world), Some(false));
    let database = |suspend: bool| {
        let mut database = backed_up()["database"].clone();
        database["backup"]["suspend"] = suspend.into();
        database
    };
    for (field, on, off) in [
        ("paused", json!(true), json!(false)),
        ("stopped", json!(true), json!(false)),
        ("database", database(true), database(false)),
    ] {
        for (value, expected) in [(on, true), (off, false)] {
            world.edit_spec("acme", |spec| spec[field] = value);
            world.settle().await;
            assert_eq!(is_suspended(&world), Some(expected), "{field}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_status_shows_the_backups_after_their_pods_are_gone() {
    let world = World::with_stack(backed_up()).await;
    let reason = |world: &World, type_: &str| world.condition("acme", type_).reason;
    // The API server of the tests creates every object long ago.
    assert_eq!(reason(&world, "BackupReady"), "Overdue");
    assert_eq!(reason(&world, "BackupVerified"), "VerificationOverdue");
    let name = "20261128T041700Z";
    let made = format!("backup={name}\nbytes=71802\nseconds=3\n");
    end(&world, Component::Backup, 0, &made);
    world.settle().await;
    assert_eq!(reason(&world, "BackupReady"), "Complete");
    end(
        &world,
        Component::Verify,
        1,
        &format!("backup={name}\nerror: table links: different\n"),
    );
    world.settle().await;
    assert_eq!(reason(&world, "BackupVerified"), "VerificationFailed");
    // Nothing of it concerns what the stack serves.
    assert_eq!(reason(&world, "Degraded"), "NoFault");
    let page = world.metrics();
    let labels = "{namespace=\"links\",stack=\"acme\"}";
    for (metric, value) in [("backup_succeeded", 1), ("backup_verified", 0)] {
        let series = format!("shortener_stack_{metric}{labels} {value}");
        assert!(page.contains(&series), "{page}");
    }
    for pod in ["acme-backup-0", "acme-verify-1"] {
        world.server.delete::<Pod>(NAMESPACE, pod);
    }
    let world = world.restart().await;
    world.settle().await;
    let backups = world.stack("acme").status.unwrap().backups;
    assert_eq!((backups.len(), backups[0].name.as_str()), (1, name));
    assert_eq!(
        (backups[0].bytes, backups[0].result),
        (Some(71802), Some(BackupResult::Failed))
    );
    assert_eq!(reason(&world, "BackupVerified"), "VerificationFailed");
    world.server.forget_writes();
    world.pass(std::time::Duration::from_secs(3600)).await;
    assert_eq!(world.server.writes().len(), 0);
    world.edit_spec("acme", |spec| spec["database"] = json!({}));
    world.settle().await;
    let status = world.stack("acme").status.unwrap();
    let mut types = status.conditions.iter().map(|condition| &condition.type_);
    assert!(!types.any(|type_| type_.starts_with("Backup")));
    assert_eq!(status.backups.len(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_database_begins_only_with_a_claim_of_backups_or_one_with_the_label() {
    let labelled = json!({USABLE_BY_STACKS: "true"});
    let of_backups = json!(labels("old", Component::Backup));
    let of_a_database = json!(labels("old", Component::Postgres));
    let managed = json!({MANAGED_BY_LABEL: "shortener-operator"});
    for (labels, usable) in [
        (None, false),
        (Some(managed), false),
        (Some(of_a_database), false),
        (Some(json!({USABLE_BY_STACKS: "false"})), false),
        (Some(labelled), true),
        (Some(of_backups), true),
    ] {
        let world = World::start(FakeApiServer::default());
        if let Some(labels) = &labels {
            let claim =
                json!({"metadata": {"name": "theirs", "namespace": NAMESPACE, "labels": labels}});
            let claim: PersistentVolumeClaim = serde_json::from_value(claim).unwrap();
            world.server.create(&claim);
        }
        let from = json!({"claimName": "theirs"});
        let stack = stored_stack(json!({"database": {"restoreFrom": from}}));
        world.server.create(&stack);
        world.settle().await;
        let database = world.condition("acme", "DatabaseReady");
        let is_refused = database.reason == "ClaimNotUsable";
        assert_eq!(is_refused, !usable, "{labels:?}: {}", database.message);
        let set = "statefulsets/acme-postgres".to_owned();
        assert_eq!(world.children().contains(&set), usable, "{labels:?}");
        if usable {
            continue;
        }
        assert!(
            database.message.contains(USABLE_BY_STACKS),
            "{}",
            database.message
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_is_refused_is_named() {
    let server = FakeApiServer::default();
    server.fail_kind::<CronJob>(Some(Fault::Refuse(403)));
    let world = World::start(server);
    world.server.create(&stored_stack(backed_up()));
    world.settle().await;
    for type_ in ["BackupReady", "BackupVerified"] {
        let named = world.condition("acme", type_);
        assert_eq!(named.reason, "Forbidden", "{}", named.message);
    }
}
