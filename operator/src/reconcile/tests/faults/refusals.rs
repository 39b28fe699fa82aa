//! Tests of an API server that refuses, loses or never answers a write (fault F2).
//!
//! Each write fails in one way after the other: its first attempt in the first, the next attempt in the second.

use std::time::Duration;

use crate::testing::{
    api_server::Fault,
    rehearsal::{Rehearsal, Scenario, gateways, life, profiles, some},
};

/// Answers of an API server that is too busy, restarts, or loses its store.
const REFUSALS: [Fault; 4] = [
    Fault::Refuse(409),
    Fault::Refuse(429),
    Fault::Refuse(500),
    Fault::CommitThenAnswer(504),
];
/// Broken connections.
const LOSSES: [Fault; 3] = [Fault::LoseRequest, Fault::Hang, Fault::LoseResponse];

async fn fail_at(rehearsal: &Rehearsal, number: u64, faults: &[Fault]) {
    let case = format!("{}: {faults:?} at write {number}", rehearsal.name);
    let world = rehearsal.begin().await;
    world.server.fail_repeatedly(number, faults);
    rehearsal.change(&world);
    // Four times the backoff, and the deadline of a reconcile.
    world.pass(Duration::from_secs(120)).await;
    assert_eq!(world.server.pending_faults(), 0, "{case}: it did not occur");
    rehearsal.assert_same_run(&world, &case);
    rehearsal.assert_few_writes(&world, faults.len(), &case);
}

async fn fail_in_each(scenarios: Vec<Scenario>, faults: &[Fault]) {
    for scenario in scenarios {
        let rehearsal = scenario.rehearse().await;
        for number in rehearsal.numbers() {
            fail_at(&rehearsal, number, faults).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_in_the_life_of_a_stack_is_repeated_until_it_succeeds() {
    fail_in_each(life(), &REFUSALS).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_while_a_profile_is_switched_is_repeated_until_it_succeeds() {
    fail_in_each(profiles(), &REFUSALS).await;
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_while_the_gateway_is_switched_is_repeated_until_it_succeeds() {
    fail_in_each(gateways(), &REFUSALS).await;
}

#[tokio::test(start_paused = true)]
async fn a_write_whose_connection_breaks_is_repeated_until_it_succeeds() {
    fail_in_each(some(), &LOSSES).await;
}
