//! The API server stands still for 90 s while the operator builds a stack (F3). Redirects are answered all the time, and
//! afterwards the operator goes on: no object was replaced or made twice, and no credential either.
//!
//! The operator cannot renew its lease in time, and stands by until the API server answers. Its container goes on.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::{Api, api::LogParams};
use serde_json::{Value, json};
use shortener_e2e::{
    Freezer, Load, Operator, Provider, Space, Stack, Witness, await_alike, await_within, merge,
    node_name, stopped_with_every_profile,
};
use tokio::time::timeout;

use crate::{OperatorPod, TARGET, uids};

/// The time of the outage.
const OUTAGE: Duration = Duration::from_secs(90);
/// The time after which a request counts as unanswered.
const SILENCE: Duration = Duration::from_secs(3);
/// The limit for the API server to answer and then for the operator to work, which is promised within 30 s. After an
/// outage the controllers of Kubernetes start over as well, on two cores.
const RECOVERED: Duration = Duration::from_secs(120);

#[tokio::test]
async fn an_api_server_that_stands_still_costs_no_redirect_and_no_object() -> Result<()> {
    Space::with("frozen", async |space| {
        Space::with("unfrozen", async |other| {
            let operator = Operator::find(&space.client).await?;
            let before = OperatorPod::find(&operator).await?;
            let changes = json!({"app": {"replicas": 2}, "gateway": {"replicas": 2}});
            let (served, gateway) = space.serve(Provider::Standalone, changes).await?;
            let code = gateway.shorten(TARGET).await?;
            gateway.wait_until_redirects(&code, TARGET).await?;
            let children = uids(&served, |_| true).await?;
            let built = space.stack("built");
            let mut witness = Witness::of(&built);

            let load = Load::of_redirects(&gateway, &code).await?;
            let outage = stand_still(space, &built, &mut witness);
            let begun = load
                .fails_nothing("outage of the API server", outage)
                .await?;
            works_again(&served).await?;
            let after = OperatorPod::find(&operator).await?;
            if after != before {
                print_last_end(&operator, &after).await?;
            }
            ensure!(after == before, "{before:?} became {after:?}");

            served.ready().await?;
            let now = uids(&served, |_| true).await?;
            ensure!(now == children, "{children:?} became {now:?}");
            is_like_a_new_one(&built, other).await?;
            let all = witness.named(&built.name);
            ensure!(begun < all, "the stack was complete before the outage");
            let minted = witness.minted_twice();
            ensure!(minted.is_empty(), "credentials changed: {minted:?}");
            gateway.assert_redirects(&code, TARGET).await
        })
        .await
    })
    .await
}

/// Lets the API server stand still as soon as the operator has built the first object of a stack. Returns the number of its
/// objects before that.
async fn stand_still(space: &Space, built: &Stack, witness: &mut Witness) -> Result<usize> {
    let node = node_name(&space.client).await?;
    // Before the stack is applied: the operator may complete it while docker starts a program.
    let freezer = Freezer::ready(&node, OUTAGE).await?;
    built.apply_undrained(&spec(space)).await?;
    witness.see_named(&built.name).await?;
    let silent = async {
        await_within(OUTAGE, "the API server does not answer", async || {
            let asked = timeout(SILENCE, space.client.apiserver_version()).await;
            ensure!(asked.is_err(), "it answers");
            Ok(())
        })
        .await?;
        let begun = witness.named(&built.name);
        println!("{begun} objects of the stack were there before it");
        anyhow::Ok(begun)
    };
    let ((), begun) = tokio::try_join!(freezer.freeze(), silent)?;
    Ok(begun)
}

/// The spec of a stack beside the one that is served.
fn spec(space: &Space) -> Value {
    let mut spec = stopped_with_every_profile(space);
    let host = format!("built.{}", space.host());
    merge(&mut spec, json!({"gateway": {"hosts": [host]}}));
    spec
}

/// Edits a stack as soon as the API server answers, and waits until the edit reaches its child.
async fn works_again(stack: &Stack) -> Result<()> {
    let begin = Instant::now();
    let edit = json!({"app": {"replicas": 3}});
    await_within(RECOVERED, "the API server takes an edit", async || {
        let edited = timeout(SILENCE, stack.edit(edit.clone())).await;
        edited.context("it does not answer")?
    })
    .await?;
    let answered = begin.elapsed();
    let deployments = Api::<Deployment>::namespaced(stack.client.clone(), &stack.namespace);
    let (_, reached) = await_within(RECOVERED, "the operator applies the edit", async || {
        let app = timeout(SILENCE, deployments.get("acme-app")).await;
        let spec = app.context("the API server does not answer")??.spec;
        let replicas = spec.and_then(|spec| spec.replicas);
        ensure!(replicas == Some(3), "the app has {replicas:?} replicas");
        Ok(())
    })
    .await?;
    println!(
        "the API server took an edit after {:.1} s, and the operator applied it {:.1} s later",
        answered.as_secs_f32(),
        reached.as_secs_f32()
    );
    Ok(())
}

/// Prints the times and the reason with which the process before this one ended.
async fn print_last_end(operator: &Operator, pod: &OperatorPod) -> Result<()> {
    let earlier = LogParams {
        previous: true,
        tail_lines: Some(8),
        ..LogParams::default()
    };
    let log = operator.pods.logs(&pod.name, &earlier).await?;
    println!("the process before ended with:\n{log}");
    Ok(())
}

/// Waits until the stack that was being built has the children of one that is built without an outage.
async fn is_like_a_new_one(built: &Stack, other: &Space) -> Result<()> {
    let undisturbed = other.stack(&built.name);
    undisturbed.apply_undrained(&spec(other)).await?;
    for stack in [built, &undisturbed] {
        stack.until("Ready", "False").await?;
        stack.until("Degraded", "False").await?;
    }
    await_alike(built, &undisturbed).await
}
