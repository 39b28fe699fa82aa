//! An idle operator sends no writes and no lists.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::ConfigMap;
use kube::{Api, api::DeleteParams};
use shortener_e2e::{
    Meter, Operator, Provider, Reading, await_condition, cluster_client, holds_for, real_stack,
};

use crate::undisturbed;

/// The measured time.
const MINUTE: Duration = Duration::from_secs(60);
/// The time without writes and lists after which all effects of earlier tests are assumed to have ended.
const QUIET: Duration = Duration::from_secs(5);

#[tokio::test]
async fn at_rest_the_operator_writes_and_lists_nothing_for_a_minute() -> Result<()> {
    let _alone = undisturbed().await?;
    let client = cluster_client().await?;
    let shared = real_stack(Provider::IngressNginx).await?;
    real_stack(Provider::Standalone).await?;
    real_stack(Provider::GatewayApi).await?;
    let operator = Operator::find(&client).await?;
    let meter = Meter::install(&client, &operator).await?;
    let start = quiet(&meter).await?;
    holds_for(
        MINUTE,
        "the operator writes and lists nothing",
        async || {
            let now = meter.read().await?;
            ensure!(
                now.writes == start.writes,
                "{} writes",
                now.writes - start.writes
            );
            ensure!(
                now.lists == start.lists,
                "{} lists",
                now.lists - start.lists
            );
            Ok(())
        },
    )
    .await?;
    let end = meter.read().await?;
    println!(
        "in a minute at rest: {} lease requests, 0 writes, 0 lists",
        end.leases - start.leases
    );
    ensure!(
        end.leases > start.leases,
        "the counter of lease requests did not rise"
    );

    // The meter must also count a write, or the zero above would prove nothing.
    Api::<ConfigMap>::namespaced(client, &shared.space.name)
        .delete("acme-gateway", &DeleteParams::default())
        .await?;
    await_condition("the counter of writes rises with a repair", async || {
        ensure!(
            meter.read().await?.writes > end.writes,
            "no write was counted"
        );
        Ok(())
    })
    .await?;
    shared.stack.ready().await
}

#[tokio::test]
async fn an_operator_that_starts_over_writes_nothing() -> Result<()> {
    let _alone = undisturbed().await?;
    let client = cluster_client().await?;
    real_stack(Provider::IngressNginx).await?;
    real_stack(Provider::Standalone).await?;
    real_stack(Provider::GatewayApi).await?;
    let operator = Operator::find(&client).await?;
    let meter = Meter::install(&client, &operator).await?;
    let start = quiet(&meter).await?;
    let old = operator.leader().await?;
    operator.pods.delete(&old, &DeleteParams::default()).await?;
    operator.settled(1).await?;
    ensure!(operator.leader().await? != old, "{old} still leads");
    let end = quiet(&meter).await?;
    ensure!(
        end.reads > start.reads,
        "the counter of reads did not rise after the restart"
    );
    let writes = end.writes - start.writes;
    ensure!(writes == 0, "the restarted operator made {writes} writes");
    Ok(())
}

/// Waits until the counters of writes and lists stop for a while, and returns them.
async fn quiet(meter: &Meter) -> Result<Reading> {
    await_condition("the operator is idle", async || {
        let start = meter.read().await?;
        holds_for(QUIET, "the operator writes and lists nothing", async || {
            let now = meter.read().await?;
            ensure!(
                (now.writes, now.lists) == (start.writes, start.lists),
                "{now:?}"
            );
            Ok(())
        })
        .await?;
        Ok(start)
    })
    .await
}
