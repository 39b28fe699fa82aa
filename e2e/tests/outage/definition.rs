//! The resource definition is deleted and put back (F10). Every stack goes with it, and what they keep stays. The operator
//! says what it lacks and how to get it, and goes on without a restart once the definition is back.

use std::time::Instant;

use anyhow::{Context, Result, ensure};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::{
    Api,
    api::{DeleteParams, LogParams},
};
use serde_json::json;
use shortener_e2e::{
    Child, GatewayClient, Operator, Provider, Space, Stack, await_condition, base_spec, checkout,
    children_of, is_ready, kubectl, merge,
};

use crate::{OperatorPod, TARGET, uids};

const DEFINITION: &str = "shortenerstacks.shortener.dev";
/// The message of the operator's log about it.
const LACKS_IT: &str =
    "does not serve shortenerstacks.shortener.dev: install its CustomResourceDefinition";
const PROVIDER: Provider = Provider::Standalone;

#[tokio::test]
async fn a_definition_that_is_deleted_and_put_back_costs_neither_data_nor_a_restart() -> Result<()>
{
    Space::with("definition", async |space| {
        let operator = Operator::find(&space.client).await?;
        let stack = space.stack("acme");
        let mut spec = base_spec(space, PROVIDER);
        merge(&mut spec, json!({"deletionPolicy": "Retain"}));
        stack.apply(&spec).await?;
        stack.ready().await?;
        let gateway = GatewayClient::open(space, &stack, PROVIDER, &space.host()).await?;
        let code = gateway.shorten(TARGET).await?;
        let data = uids(&stack, holds_data).await?;
        let before = OperatorPod::find(&operator).await?;

        let outcome = without_the_definition(&stack, &operator, &before.name).await;
        // The cluster needs it, whatever becomes of this test.
        let begin = Instant::now();
        define(&stack).await?;
        outcome?;
        await_condition("the API server serves the definition", async || {
            stack.apply(&spec).await
        })
        .await?;
        stack.ready().await?;
        println!("the stack was back after {} s", begin.elapsed().as_secs());
        let after = OperatorPod::find(&operator).await?;
        ensure!(after == before, "{before:?} became {after:?}");
        let now = uids(&stack, holds_data).await?;
        ensure!(now == data, "the data {data:?} became {now:?}");
        GatewayClient::open(space, &stack, PROVIDER, &space.host())
            .await?
            .wait_until_redirects(&code, TARGET)
            .await
    })
    .await
}

/// Deletes the definition, and checks what is left of a stack and what the operator says.
async fn without_the_definition(stack: &Stack, operator: &Operator, pod: &str) -> Result<()> {
    let definitions = definitions(stack);
    let now = DeleteParams::background();
    definitions.delete(DEFINITION, &now).await?;
    await_condition("the definition is gone", async || {
        let left = definitions.get_opt(DEFINITION).await?;
        let left = left.map(|left| left.status);
        ensure!(left.is_none(), "its status is {left:?}");
        Ok(())
    })
    .await?;
    let begin = Instant::now();
    await_condition("only the data of the stack is left", async || {
        let mut children = children_of(stack).await?;
        children.retain(|child| !holds_data(child));
        let left: Vec<String> = children.iter().map(Child::title).collect();
        ensure!(left.is_empty(), "{left:?} is left");
        Ok(())
    })
    .await?;
    await_condition("the operator's log names the definition", async || {
        let log = operator.pods.logs(pod, &LogParams::default()).await?;
        let line = log.lines().find(|line| line.contains(LACKS_IT));
        println!("{}", line.context("no line names it")?);
        Ok(())
    })
    .await?;
    // Not at once, because an API server that restarts is no reason for it.
    await_condition("the operator's pod is not ready", async || {
        let ready = is_ready(&operator.pods.get(pod).await?);
        ensure!(!ready, "it is ready");
        Ok(())
    })
    .await?;
    println!(
        "the operator was unready {} s after the definition was gone",
        begin.elapsed().as_secs()
    );
    Ok(())
}

/// Puts the definition back. One that is still being deleted is not taken for it.
async fn define(stack: &Stack) -> Result<()> {
    let file = checkout("../crds/shortenerstack.yaml");
    let file = file.to_str().context("the checkout's path is not UTF-8")?;
    let definitions = definitions(stack);
    await_condition("the definition is there", async || {
        let arguments = [
            "apply",
            "--server-side",
            "--force-conflicts",
            "--filename",
            file,
        ];
        kubectl(stack, &arguments).await?;
        let applied = definitions.get(DEFINITION).await?;
        let ends = applied.metadata.deletion_timestamp.is_some();
        ensure!(!ends, "the old one is still being deleted");
        Ok(())
    })
    .await
}

fn definitions(stack: &Stack) -> Api<CustomResourceDefinition> {
    Api::all(stack.client.clone())
}

/// Returns true for the kinds of objects that a stack leaves.
fn holds_data(child: &Child) -> bool {
    ["PersistentVolumeClaim", "Secret"].contains(&child.kind.kind.as_str())
}
