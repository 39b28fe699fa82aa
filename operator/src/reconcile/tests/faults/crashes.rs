//! Tests of an operator that crashes before and after every write (fault F1).
//!
//! A crash before a write leaves the cluster as a crash after the write before it, so the crash after each write and the
//! one before the first are all there are.

use std::time::Duration;

use crate::testing::{
    api_server::Fault,
    rehearsal::{Rehearsal, Scenario, gateways, life, profiles},
};

/// Longer than any operator of these tests lives.
const NEVER: Duration = Duration::from_secs(1_000_000);

/// Lets the operator crash after the write with this number, before it gets the answer; 0 is before the first write.
async fn crash_after(rehearsal: &Rehearsal, number: u64) {
    let case = format!("{}: crash after write {number}", rehearsal.name);
    let world = rehearsal.begin().await;
    if number > 0 {
        world.server.fail_write(number, Fault::AnswerLate(NEVER));
    }
    rehearsal.change(&world);
    world.until_faults_are_over().await;
    let world = world.restart().await;
    world.settle().await;
    rehearsal.assert_same_run(&world, &case);
}

async fn crash_in_each(scenarios: Vec<Scenario>) {
    for scenario in scenarios {
        let rehearsal = scenario.rehearse().await;
        crash_after(&rehearsal, 0).await;
        for number in rehearsal.numbers() {
            crash_after(&rehearsal, number).await;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_crash_in_the_life_of_a_stack_changes_nothing_about_its_end() {
    crash_in_each(life()).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_a_profile_is_switched_changes_nothing_about_the_end() {
    crash_in_each(profiles()).await;
}

#[tokio::test(start_paused = true)]
async fn a_crash_while_the_gateway_is_switched_changes_nothing_about_the_end() {
    crash_in_each(gateways()).await;
}
