//! Tests of watches that drop, repeat or swap changes or expire, and of lists that are out of date (fault F5).

use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;
use serde_json::json;
use shortener_operator_core::api::ShortenerStack;

use crate::{
    reconcile::tests::lifecycle::CHILDREN,
    testing::{
        api_server::{FakeApiServer, Fault, WatchFault},
        rehearsal::{Rehearsal, deletions, some},
        shared::stored_stack,
        world::{NAMESPACE, World},
    },
};

/// Time for every backoff of a watch, and for a reconcile without an event.
const LONG: Duration = Duration::from_secs(600);
/// Time for a list after `410 Gone`, and for what follows.
const RELIST: Duration = Duration::from_secs(120);

/// Returns false for Events, which nothing watches.
fn is_watched(name: &str) -> bool {
    !name.starts_with("events/")
}

/// Runs the change with a fault of the watches, which then list again.
async fn survive(rehearsal: &Rehearsal, fault: WatchFault) {
    let case = format!("{}: {fault:?} of the watches", rehearsal.name);
    let world = rehearsal.begin().await;
    world.server.fail_watches(Some(fault));
    rehearsal.change(&world);
    world.pass(LONG).await;
    world.server.fail_watches(None);
    world.server.expire_watches();
    world.pass(RELIST).await;
    rehearsal.assert_same_run(&world, &case);
}

#[tokio::test(start_paused = true)]
async fn a_change_that_no_watch_shows_is_found_by_the_next_list() {
    for scenario in some() {
        let rehearsal = scenario.rehearse().await;
        for (number, name) in (1..).zip(&rehearsal.changes) {
            if is_watched(name) {
                survive(&rehearsal, WatchFault::Drop(number)).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn changes_that_come_twice_or_late_or_end_the_watch_change_nothing_about_the_end() {
    for scenario in some() {
        let rehearsal = scenario.rehearse().await;
        for fault in [WatchFault::Double, WatchFault::Swap, WatchFault::Gone] {
            survive(&rehearsal, fault).await;
        }
    }
}

/// Starts an operator whose lists lack the last changes, which it sees later.
async fn start_in_the_past(rehearsal: &Rehearsal, changes: usize) {
    let case = format!("{}: lists after change {changes}", rehearsal.name);
    let server = rehearsal.end_showing(changes);
    let live = server.uids();
    let world = World::start(server);
    world.pass(Duration::from_secs(20)).await;
    world.server.release_watches();
    world.pass(RELIST).await;
    rehearsal.assert_same_end(&world, &case);
    assert_eq!(world.server.uids(), live, "{case}: an object was replaced");
}

#[tokio::test(start_paused = true)]
async fn an_operator_that_starts_with_stale_lists_costs_no_live_object() {
    for scenario in some() {
        let rehearsal = scenario.rehearse().await;
        start_in_the_past(&rehearsal, 0).await;
        for (changes, name) in (1..).zip(&rehearsal.changes) {
            if is_watched(name) {
                start_in_the_past(&rehearsal, changes).await;
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_whose_deletion_no_watch_shows_gets_no_child_again() {
    for scenario in deletions() {
        let rehearsal = scenario.rehearse().await;
        let name = rehearsal.name;
        assert_eq!(rehearsal.changes[0], "shortenerstacks/acme", "{name}");
        let world = rehearsal.begin().await;
        world.server.fail_watches(Some(WatchFault::Drop(1)));
        let before = world.server.reads();
        rehearsal.change(&world);
        world.pass(LONG).await;
        assert_eq!(world.server.writes(), [], "{name}");
        // A few for each of the reconciles that the burst of deleted children causes, and none afterwards.
        let reads = world.server.reads() - before;
        assert!((1..=40).contains(&reads), "{name}: {reads} reads");
    }
}

#[tokio::test(start_paused = true)]
async fn a_stack_whose_deletion_has_begun_unseen_gets_no_child_again() {
    let world = World::with_stack(json!({})).await;
    world.begin_unseen_deletion().await;
    world.server.delete::<ConfigMap>(NAMESPACE, "acme-gateway");
    world.settle().await;
    assert_eq!(world.server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_stack_that_cannot_be_read_is_built_all_the_same() {
    for fault in [Fault::Refuse(403), Fault::Hang] {
        let world = World::start(FakeApiServer::default());
        world.settle().await;
        world.server.fail_reads::<ShortenerStack>(Some(fault));
        world.server.create(&stored_stack(json!({})));
        world.settle().await;
        assert_eq!(world.children(), CHILDREN, "{fault:?}");
    }
}

/// The garbage collector does not delete a child whose owner is of an unknown kind.
#[tokio::test(start_paused = true)]
async fn a_stack_whose_deletion_with_its_definition_no_watch_shows_gets_no_child_again() {
    let world = World::with_stack(json!({})).await;
    let server = &world.server;
    server.fail_watches(Some(WatchFault::Drop(1)));
    server.fail_reads::<ShortenerStack>(Some(Fault::Refuse(404)));
    server.delete::<ShortenerStack>(NAMESPACE, "acme");
    world.settle().await;
    assert_eq!(server.writes(), []);
}

#[tokio::test(start_paused = true)]
async fn a_definition_that_is_deleted_is_named_and_needs_no_restart_when_it_is_back() {
    let world = World::with_stack(json!({})).await;
    let server = &world.server;
    server.delete::<ShortenerStack>(NAMESPACE, "acme");
    server.fail_reads::<ShortenerStack>(Some(Fault::Refuse(404)));
    server.expire_watches();
    world.pass(RELIST).await;
    let problems = world.context.health.problems();
    assert_eq!(problems.len(), 1, "{problems:?}");
    let named = "the cluster does not serve shortenerstacks.shortener.dev";
    assert!(problems[0].contains(named), "{problems:?}");
    server.fail_reads::<ShortenerStack>(None);
    server.create(&stored_stack(json!({})));
    world.pass(RELIST).await;
    assert_eq!(world.context.health.problems(), [] as [String; 0]);
    assert_eq!(world.children(), CHILDREN);
}
