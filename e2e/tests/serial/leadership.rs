//! Replicas of the operator: one leads, and another one takes over. One that stood still for two lease times, or whose
//! lease was deleted, is no second leader (F12).

mod replicas;

use std::{
    pin::pin,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use futures::AsyncReadExt;
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{
    Api, Client,
    api::{DeleteParams, LogParams},
};
use serde_json::json;
use shortener_e2e::{Operator, PATIENCE, Space, Stack, await_condition, await_within, holds_for};
use tokio::time::timeout;

use self::replicas::{CLASS, Replicas, TERM};
use crate::alone;

/// A lease that is not released lasts longer: 15 s from its last renewal, which is not older than 2.5 s. On a busy machine a
/// leader that releases it may take as long, and then its log tells.
const RELEASED: Duration = Duration::from_secs(12);
/// A time in which a write that comes late would be seen.
const WATCHED: Duration = Duration::from_secs(3);

#[tokio::test]
async fn a_second_operator_takes_over_from_a_leader_that_is_forced_out_or_leaves() -> Result<()> {
    let _alone = alone().await?;
    Space::with("leader", async |space| {
        let stack = space.apply_echo(json!({"stopped": true})).await?;
        stack.until("Ready", "False").await?;
        let operator = Operator::find(&space.client).await?;
        operator.scale(2).await?;
        let outcome = take_over_twice(space, &operator).await;
        operator.scale(1).await?;
        outcome
    })
    .await
}

async fn take_over_twice(space: &Space, operator: &Operator) -> Result<()> {
    let at_once = DeleteParams::default().grace_period(0);
    let leader = operator.leader().await?;
    replaced_by_the_other(space, operator, &leader, &at_once).await?;
    operator.settled(2).await?;
    let leader = operator.leader().await?;
    // It is followed from now on, because it is gone with the pod.
    let follow = LogParams {
        follow: true,
        tail_lines: Some(1),
        ..LogParams::default()
    };
    let mut log = pin!(operator.pods.log_stream(&leader, &follow).await?);
    let leaves = DeleteParams::default();
    let time = replaced_by_the_other(space, operator, &leader, &leaves).await?;
    if time >= RELEASED {
        let mut said = String::new();
        let read = timeout(PATIENCE, log.read_to_string(&mut said)).await;
        read.context("the log of the old leader has no end")??;
        ensure!(
            said.contains("released the lease"),
            "the other operator led after {time:?}, and the leader did not release its lease:\n{said}"
        );
    }
    operator.settled(2).await
}

/// Deletes the leader's pod, and a child once the other operator leads, which restores it. Returns the time until it led.
async fn replaced_by_the_other(
    space: &Space,
    operator: &Operator,
    leader: &str,
    how: &DeleteParams,
) -> Result<Duration> {
    let client: &Client = &space.client;
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), &space.name);
    operator.pods.delete(leader, how).await?;
    let ((), led) = await_within(PATIENCE, "the other operator leads", async || {
        let next = operator.leader().await?;
        ensure!(next != leader, "{leader} still leads");
        Ok(())
    })
    .await?;
    // Not before, because the old leader may run for a moment.
    config_maps
        .delete("acme-gateway", &DeleteParams::default())
        .await?;
    let (_, repaired) = await_within(PATIENCE, "the other operator repairs drift", async || {
        Ok(config_maps.get("acme-gateway").await?)
    })
    .await?;
    println!(
        "after {:.1} s the other operator led, and repaired drift in {:.1} s",
        led.as_secs_f32(),
        repaired.as_secs_f32()
    );
    Ok(led)
}

#[tokio::test]
async fn a_leader_that_stood_still_writes_nothing_and_a_lease_that_is_deleted_stays_with_its_holder()
-> Result<()> {
    let _alone = alone().await?;
    Space::with("replicas", async |space| {
        let mut replicas = Replicas::start(space).await?;
        let stopped = json!({"stopped": true, "operatorClass": CLASS});
        let stack = space.apply_echo(stopped).await?;
        let leader = outlived(&mut replicas, &stack).await?;
        keeps_its_lease(&mut replicas, &stack, &leader).await
    })
    .await
}

/// Stops the leader for two lease times, and returns the one that took over.
async fn outlived(replicas: &mut Replicas, stack: &Stack) -> Result<String> {
    let first = replicas.leader_but("").await?;
    stack.until("Ready", "False").await?;
    let terms = replicas.terms()?;
    ensure!(terms == 1, "{terms} of three replicas led");
    replicas.signal(&first, "STOP").await?;
    let begin = Instant::now();
    let second = replicas.leader_but(&first).await?;
    println!(
        "{second} took over {:.1} s after {first} was stopped",
        begin.elapsed().as_secs_f32()
    );
    let (_, generation) = replicas.written().await?;
    let rest = (TERM * 2).saturating_sub(begin.elapsed());
    let what = "the next leader works alone";
    holds_for(rest, what, async || {
        replicas.led_by(&second, generation).await
    })
    .await?;
    // The old leader is told of this edit while it may still believe that it leads.
    move_gateway(stack, "first").await?;
    replicas.signal(&first, "CONT").await?;
    await_condition("the old leader stands by", async || {
        replicas.said(&first, "this replica is no longer the leader")?;
        replicas.said(&first, &format!("standing by: `{second}` holds the lease"))
    })
    .await?;
    written_by_the_leader_alone(replicas, &second, generation + 1).await?;
    let terms = replicas.terms()?;
    ensure!(terms == 2, "there were {terms} leaders, not 2");
    replicas.check()?;
    Ok(second)
}

/// Deletes the lease, which its holder puts back.
async fn keeps_its_lease(replicas: &mut Replicas, stack: &Stack, leader: &str) -> Result<()> {
    let (_, generation) = replicas.written().await?;
    replicas.delete_lease().await?;
    await_condition("the holder puts its lease back", async || {
        replicas.led_by(leader, generation).await
    })
    .await?;
    // One that took the deletion for the end of a term would lead by the end of this time.
    holds_for(TERM, "the lease stays with its holder", async || {
        replicas.led_by(leader, generation).await
    })
    .await?;
    move_gateway(stack, "second").await?;
    written_by_the_leader_alone(replicas, leader, generation + 1).await?;
    let terms = replicas.terms()?;
    ensure!(terms == 2, "there were {terms} leaders, not 2");
    replicas.check()
}

/// Edits a field of the gateway's Deployment that no running pod has.
async fn move_gateway(stack: &Stack, place: &str) -> Result<()> {
    let place =
        json!({"gateway": {"podTemplate": {"spec": {"nodeSelector": {"e2e-place": place}}}}});
    stack.edit(place).await
}

/// Waits until an edit has reached the gateway, and checks that only the leader wrote it, and only once.
async fn written_by_the_leader_alone(
    replicas: &Replicas,
    leader: &str,
    generation: i64,
) -> Result<()> {
    await_condition("the edit has reached the gateway", async || {
        replicas.led_by(leader, generation).await
    })
    .await?;
    holds_for(WATCHED, "nothing else is written", async || {
        replicas.led_by(leader, generation).await
    })
    .await
}
