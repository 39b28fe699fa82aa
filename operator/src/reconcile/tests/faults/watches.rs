//! Tests of watches that drop, repeat or swap changes or expire, and of lists that are out of date (fault F5).

use std::time::Duration;

use crate::testing::{
    api_server::WatchFault,
    rehearsal::{Rehearsal, some},
    world::World,
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
