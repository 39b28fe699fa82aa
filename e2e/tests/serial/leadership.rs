//! Two replicas of the operator: one leads, and the other takes over.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, Client, api::DeleteParams};
use serde_json::json;
use shortener_e2e::{Operator, PATIENCE, Space, await_within};

use crate::alone;

#[tokio::test]
async fn a_second_operator_takes_over_from_a_leader_that_is_forced_out_or_leaves() -> Result<()> {
    let _alone = alone().await;
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
    let time = replaced_by_the_other(space, operator, &at_once).await?;
    println!(
        "drift was repaired {:.1} s after the leader was killed",
        time.as_secs_f32()
    );
    operator.settled(2).await?;
    let time = replaced_by_the_other(space, operator, &DeleteParams::default()).await?;
    println!(
        "drift was repaired {:.1} s after the leader was deleted with a grace period",
        time.as_secs_f32()
    );
    ensure!(
        time < Duration::from_secs(15),
        "the other operator took {time:?} (limit 15 s): the leader did not release its lease"
    );
    operator.settled(2).await
}

/// Deletes the leader's pod and a child, and returns the time until the child is restored.
async fn replaced_by_the_other(
    space: &Space,
    operator: &Operator,
    how: &DeleteParams,
) -> Result<Duration> {
    let client: &Client = &space.client;
    let config_maps = Api::<ConfigMap>::namespaced(client.clone(), &space.name);
    let leader = operator.leader().await?;
    operator.pods.delete(&leader, how).await?;
    config_maps
        .delete("acme-gateway", &DeleteParams::default())
        .await?;
    let ((), time) = await_within(PATIENCE, "the other operator repairs drift", async || {
        config_maps.get("acme-gateway").await?;
        let next = operator.leader().await?;
        ensure!(next != leader, "{leader} still leads");
        Ok(())
    })
    .await?;
    Ok(time)
}
