//! A certificate of a stack that a Gateway of another namespace uses. The test changes the Gateway of all tests.

use anyhow::{Context, Result};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, Patch, PatchParams},
    core::gvk::GroupVersionKind,
};
use serde_json::{Value, json};
use shortener_e2e::{GatewayClient, Provider, Space, await_condition, echo_spec, merge};

use crate::alone;

const PROVIDER: Provider = Provider::GatewayApi;
const SECRET: &str = "go-tls";

#[tokio::test]
async fn a_gateway_uses_a_certificate_while_the_stack_lends_it() -> Result<()> {
    let _alone = alone().await?;
    Space::with("lent", async |space| {
        let before = gateways(space).get("contour").await?.data["spec"]["listeners"].take();
        let outcome = lend(space, &before).await;
        set_listeners(space, &before).await?;
        outcome
    })
    .await
}

async fn lend(space: &Space, listeners: &Value) -> Result<()> {
    space.unused_database().await?;
    let host = space.host();
    let old = space.new_certificate(SECRET, &host).await?;
    let stack = space.stack("acme");
    let mut spec = echo_spec(space, PROVIDER);
    merge(
        &mut spec,
        json!({"gateway": {"tls": {"secretName": SECRET}}}),
    );
    stack.apply(&spec).await?;
    stack
        .until_reason("GatewayReady", "False", "CertificateNotUsed")
        .await?;

    // What the owner of the Gateway does. Without the ReferenceGrant, the Gateway would not be programmed.
    let mut changed = listeners.clone();
    let mut all = changed.as_array_mut().into_iter().flatten();
    let https = all.find(|listener| listener["name"] == "https");
    let https = https.context("the Gateway has no listener https")?;
    https["tls"]["certificateRefs"] = json!([{"name": SECRET, "namespace": space.name}]);
    set_listeners(space, &changed).await?;
    stack.ready().await?;
    GatewayClient::open_tls(space, &stack, PROVIDER, &host, &old).await?;

    let new = space.new_certificate(SECRET, &host).await?;
    let renewed = GatewayClient::trusting(space, &stack, PROVIDER, &host, &[&new]).await?;
    await_condition("the Gateway has the new certificate", async || {
        renewed.get("/x").await
    })
    .await?;

    stack.edit(json!({"gateway": {"tls": null}})).await?;
    stack
        .until_reason("GatewayReady", "False", "GatewayNotProgrammed")
        .await?;
    Ok(())
}

async fn set_listeners(space: &Space, listeners: &Value) -> Result<()> {
    let patch = Patch::Merge(json!({"spec": {"listeners": listeners}}));
    gateways(space)
        .patch("contour", &PatchParams::default(), &patch)
        .await?;
    Ok(())
}

fn gateways(space: &Space) -> Api<DynamicObject> {
    let kind = GroupVersionKind::gvk("gateway.networking.k8s.io", "v1", "Gateway");
    let kind = ApiResource::from_gvk_with_plural(&kind, "gateways");
    Api::namespaced_with(space.client.clone(), "projectcontour", &kind)
}
