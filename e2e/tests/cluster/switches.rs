//! `spec.paused` and `spec.stopped`.

use std::time::Duration;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Pod};
use kube::{
    Api,
    api::{DeleteParams, ListParams},
};
use serde_json::json;
use shortener_e2e::{GatewayClient, Provider, Space, await_condition, holds_for};

#[tokio::test]
async fn a_paused_stack_is_not_repaired_until_it_goes_on() -> Result<()> {
    Space::with("paused", async |space| {
        let stack = space.apply_echo(json!({})).await?;
        stack.ready().await?;
        stack.pause().await?;

        let deployments = Api::<Deployment>::namespaced(space.client.clone(), &space.name);
        deployments
            .delete("acme-app", &DeleteParams::background())
            .await?;
        stack.until("AppReady", "False").await?;
        holds_for(
            Duration::from_secs(5),
            "the operator repairs nothing while the stack is paused",
            async || {
                let repaired = deployments.get_opt("acme-app").await?;
                ensure!(repaired.is_none(), "the operator recreated the Deployment");
                Ok(())
            },
        )
        .await?;

        stack.resume().await
    })
    .await
}

#[tokio::test]
async fn a_stopped_stack_has_no_pods_and_comes_back_with_its_links() -> Result<()> {
    Space::with("stopped", async |space| {
        let (stack, gateway) = space.serve(Provider::Standalone, json!({})).await?;
        let code = gateway.shorten("https://example.com/rested").await?;

        stack.edit(json!({"stopped": true})).await?;
        let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
        await_condition("no pod is left", async || {
            let left = pods.list(&ListParams::default()).await?.items.len();
            ensure!(left == 0, "{left} pods are left");
            Ok(())
        })
        .await?;
        stack.until("Ready", "False").await?;

        stack.edit(json!({"stopped": false})).await?;
        stack.ready().await?;
        GatewayClient::open(space, &stack, Provider::Standalone, &space.host())
            .await?
            .assert_redirects(&code, "https://example.com/rested")
            .await
    })
    .await
}
