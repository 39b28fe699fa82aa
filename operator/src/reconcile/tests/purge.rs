//! Tests of the CronJob that removes expired data.

use std::time::Duration;

use k8s_openapi::api::batch::v1::CronJob;
use serde_json::json;

use crate::testing::{
    api_server::{FakeApiServer, Fault},
    shared::stored_stack,
    world::{NAMESPACE, World},
};

const PURGE: &str = "cronjobs/acme-purge";

fn live(world: &World) -> CronJob {
    world.server.get(NAMESPACE, "acme-purge").unwrap()
}

fn is_suspended(world: &World) -> Option<bool> {
    live(world).spec.unwrap().suspend
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_paused_starts_no_removal_and_one_that_goes_on_does() {
    let world = World::with_stack(json!({})).await;
    world.edit_spec("acme", |spec| spec["paused"] = true.into());
    world.settle().await;
    assert_eq!(is_suspended(&world), Some(true));
    let edit = json!({"schedule": "1 1 * * *", "suspend": false, "jobTemplate": {}});
    world
        .server
        .edit::<CronJob>(NAMESPACE, "acme-purge", |purge| purge["spec"] = edit);
    world.settle().await;
    assert_eq!(is_suspended(&world), Some(true));
    assert_eq!(live(&world).spec.unwrap().schedule, "1 1 * * *");
    world.server.forget_writes();
    world.pass(Duration::from_secs(3600)).await;
    assert_eq!(world.child_writes(), [] as [String; 0]);
    world.edit_spec("acme", |spec| spec["paused"] = false.into());
    world.settle().await;
    assert_eq!(is_suspended(&world), Some(false));
    assert_eq!(live(&world).spec.unwrap().schedule, "17 3 * * *");
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_is_stopped_starts_no_removal() {
    let world = World::with_stack(json!({"stopped": true})).await;
    assert_eq!(is_suspended(&world), Some(true));
}

#[tokio::test(start_paused = true)]
async fn without_a_schedule_there_is_no_trace_of_the_removal() {
    let world = World::with_stack(json!({})).await;
    assert!(world.children().contains(&PURGE.to_owned()));
    world.edit_spec("acme", |spec| {
        spec["workers"] = json!({"purge": {"schedule": ""}});
    });
    world.settle().await;
    let left = world.children();
    assert!(
        left.iter().all(|child| !child.ends_with("-purge")),
        "{left:?}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_removal_that_fails_shows_in_the_metrics_until_one_succeeds() {
    let world = World::with_stack(json!({})).await;
    let shown = |world: &World| {
        let page = world.metrics();
        let series = "shortener_stack_purge_succeeded{namespace=\"links\",stack=\"acme\"} ";
        let line = page.lines().find_map(|line| line.strip_prefix(series));
        line.map(str::to_owned)
    };
    assert_eq!(shown(&world), None);
    let due = "2026-11-23T03:17:00Z";
    for (done, expected) in [
        (json!(null), "0"),
        (json!("2026-11-22T03:17:08Z"), "0"),
        (json!("2026-11-23T03:17:08Z"), "1"),
    ] {
        world
            .server
            .edit::<CronJob>(NAMESPACE, "acme-purge", |purge| {
                purge["status"] = json!({"lastScheduleTime": due, "lastSuccessfulTime": done});
            });
        world.settle().await;
        assert_eq!(shown(&world).as_deref(), Some(expected));
    }
    world.edit_spec("acme", |spec| spec["stopped"] = true.into());
    world.settle().await;
    assert_eq!(shown(&world), None);
}

#[tokio::test(start_paused = true)]
async fn a_cron_job_that_is_refused_is_named_and_paused_stacks_are_told_too() {
    let server = FakeApiServer::default();
    server.fail_kind::<CronJob>(Some(Fault::Refuse(403)));
    let world = World::start(server);
    world.server.create(&stored_stack(json!({})));
    world.settle().await;
    let named = world.condition("acme", "AppReady");
    assert_eq!(named.reason, "Forbidden");
    assert!(
        named.message.contains("CronJob/acme-purge"),
        "{}",
        named.message
    );

    let world = World::with_stack(json!({})).await;
    world.server.fail_kind::<CronJob>(Some(Fault::Refuse(403)));
    world.edit_spec("acme", |spec| spec["paused"] = true.into());
    world.settle().await;
    let named = world.condition("acme", "AppReady");
    assert!(
        named.message.contains("CronJob/acme-purge"),
        "{}",
        named.message
    );
    world.server.fail_kind::<CronJob>(None);
    world.pass(Duration::from_secs(600)).await;
    assert_eq!(is_suspended(&world), Some(true));
}
