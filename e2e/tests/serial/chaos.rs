//! The operator is killed again and again while a stack is edited at random: its profiles, numbers of pods, gateway and
//! policy, its children, and the stack itself, which is deleted and made anew. In the end the stack has the children of
//! one that was never disturbed, no credential was minted twice, and nothing is left behind.
//!
//! The stack is stopped, so every child exists and no pod runs. `E2E_KILLS` sets the number of kills, 10 by default.
//! `E2E_SEED` repeats the decisions of a run; the moments of the kills also depend on the cluster.

mod decisions;

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::{ResourceExt, api::DeleteParams};
use shortener_e2e::{
    Child, Operator, OperatorProgram, Space, Stack, Witness, alike, await_alike, await_condition,
    children_of, holds_for,
};

use self::decisions::{Decisions, Disturbance};
use crate::alone;

/// The numbers of kills that a run may have.
const KILLS: std::ops::RangeInclusive<u32> = 1..=2000;
/// The longest time for which an operator may do nothing before it is killed.
const IDLE: Duration = Duration::from_secs(2);
/// A time in which a write that comes late would be seen.
const WATCHED: Duration = Duration::from_secs(3);

#[tokio::test]
async fn an_operator_that_is_killed_again_and_again_leaves_what_an_undisturbed_one_does()
-> Result<()> {
    let _alone = alone().await?;
    let (kills, seed) = (kills()?, seed()?);
    println!("{kills} kills: repeat with E2E_KILLS={kills} E2E_SEED={seed}");
    Space::with("chaos", async |space| {
        Space::with("fresh", async |other| {
            let operator = Operator::find(&space.client).await?;
            let program = OperatorProgram::like(&operator, &[space, other]).await?;
            operator.stop().await?;
            let outcome = survives(space, other, &program, kills, seed).await;
            // The next tests need the operator, whatever becomes of this one.
            let back = operator.scale(1).await;
            outcome?;
            back
        })
        .await
    })
    .await
}

fn kills() -> Result<u32> {
    let kills = std::env::var("E2E_KILLS");
    let kills = kills.map_or(Ok(10), |kills| kills.parse::<u32>());
    let kills = kills.context("E2E_KILLS is not a number")?;
    ensure!(
        KILLS.contains(&kills),
        "E2E_KILLS is {kills}: set it to {} to {}",
        KILLS.start(),
        KILLS.end()
    );
    Ok(kills)
}

fn seed() -> Result<u64> {
    let seed = std::env::var("E2E_SEED");
    let seed = seed.map_or_else(|_| Ok(fastrand::u64(..)), |seed| seed.parse::<u64>());
    seed.context("E2E_SEED is not a number")
}

async fn survives(
    space: &Space,
    other: &Space,
    program: &OperatorProgram,
    kills: u32,
    seed: u64,
) -> Result<()> {
    let mut decisions = Decisions::new(seed);
    let stack = space.stack("acme");
    let mut witness = Witness::of(&stack);
    stack
        .apply_undrained(&decisions.shape().spec(space))
        .await?;
    for kill in 1..=kills {
        let process = program.start()?;
        for _ in 0..decisions.number(1..=3) {
            let disturbance = decisions.disturbance();
            disturb(space, &stack, &disturbance, &mut decisions)
                .await
                .with_context(|| format!("kill {kill}: {disturbance:?}"))?;
            witness.see(decisions.number(1..=25), IDLE).await;
        }
        process.kill().await?;
    }
    println!("{} changes of children were seen", witness.number());
    // An operator that is killed before it does anything would prove nothing.
    let fewest = usize::try_from(kills)? * 5;
    ensure!(
        witness.number() > fewest,
        "only {} changes",
        witness.number()
    );
    let process = program.start()?;
    ends_like_a_new_one(&stack, space, other, &mut decisions).await?;
    let minted = witness.minted_twice();
    ensure!(
        minted.is_empty(),
        "credentials changed over a volume: {minted:?}"
    );
    leaves_nothing(&stack).await?;
    process.stop().await
}

async fn disturb(
    space: &Space,
    stack: &Stack,
    disturbance: &Disturbance,
    decisions: &mut Decisions,
) -> Result<()> {
    match disturbance {
        Disturbance::Edit(shape) => stack.apply_undrained(&shape.spec(space)).await,
        Disturbance::DeleteChildren(number) => {
            let mut children = children_of(stack).await?;
            // A password over a volume that is deleted must be restored by hand.
            children.retain(|child| {
                !["PersistentVolumeClaim", "Secret"].contains(&child.kind.kind.as_str())
            });
            decisions.shuffle(&mut children);
            let now = DeleteParams::background();
            for child in children.iter().take(*number) {
                match child.api.delete(&child.name, &now).await {
                    // The operator was faster.
                    Err(kube::Error::Api(status)) if status.code == 404 => {}
                    outcome => outcome.map(|_| ())?,
                }
            }
            Ok(())
        }
        Disturbance::Replace(shape) => {
            let now = DeleteParams::background();
            stack.api.delete(&stack.name, &now).await?;
            stack.apply_undrained(&shape.spec(space)).await
        }
    }
}

/// Applies one spec to the disturbed stack and to a new one, and waits until they are alike and stay so.
async fn ends_like_a_new_one(
    stack: &Stack,
    space: &Space,
    other: &Space,
    decisions: &mut Decisions,
) -> Result<()> {
    // Otherwise the data of profiles that were on stays, as it should.
    let shape = decisions.shape().deleting();
    println!("in the end: {shape:?}");
    let fresh = other.stack(&stack.name);
    fresh.apply_undrained(&shape.spec(other)).await?;
    stack.apply_undrained(&shape.spec(space)).await?;
    for stack in [stack, &fresh] {
        stack.until("Ready", "False").await?;
    }
    await_alike(stack, &fresh).await?;
    let what = "the stack stays like a new one";
    holds_for(WATCHED, what, async || alike(stack, &fresh).await).await?;
    for stack in [stack, &fresh] {
        stack.until("Degraded", "False").await?;
    }
    let live = stack.get().await?;
    ensure!(
        live.finalizers().is_empty(),
        "the stack has the finalizers {:?}",
        live.finalizers()
    );
    Ok(())
}

/// Deletes the stack and waits until no child is left, not even one of an earlier stack of the name.
async fn leaves_nothing(stack: &Stack) -> Result<()> {
    stack.delete().await?;
    await_condition("no child is left", async || has_no_child(stack).await).await?;
    let what = "no child comes back";
    holds_for(WATCHED, what, async || has_no_child(stack).await).await
}

async fn has_no_child(stack: &Stack) -> Result<()> {
    let left = children_of(stack).await?;
    let left: Vec<String> = left.iter().map(Child::title).collect();
    ensure!(left.is_empty(), "{left:?} is left");
    Ok(())
}
