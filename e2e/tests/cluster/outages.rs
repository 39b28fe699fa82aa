//! A cache that is away, frozen or cut off: redirects go on from the database, each one right and quick (A2).
//!
//! Specification: 7, 3.1.

use anyhow::{Result, ensure};
use k8s_openapi::api::{core::v1::Pod, networking::v1::NetworkPolicy};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{
    Door, SharedStack, Stack, await_condition, observed_stack, redirects_are_right_and_quick,
    valkey,
};

#[tokio::test]
async fn redirects_go_on_while_the_pod_of_the_cache_is_replaced() -> Result<()> {
    with_cache(async |shared| {
        let pods = Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name);
        pods.delete("acme-cache-0", &DeleteParams::default())
            .await?;
        redirects_are_right_and_quick(&shared.door).await?;
        used_again(shared).await
    })
    .await
}

#[tokio::test]
async fn redirects_go_on_without_any_pod_of_the_cache() -> Result<()> {
    with_cache(async |shared| {
        shared.stack.pause().await?;
        shared.stack.take_away("cache").await?;
        no_redirect_is_a_hit(&shared.door).await?;
        shared.stack.until("CacheReady", "False").await?;
        shared.stack.resume().await?;
        used_again(shared).await
    })
    .await
}

#[tokio::test]
async fn redirects_go_on_while_the_cache_is_frozen() -> Result<()> {
    with_cache(async |shared| {
        // It takes connections and answers nobody, shorter than its liveness probe has patience.
        valkey(&shared.stack, &["client", "pause", "25000", "all"]).await?;
        no_redirect_is_a_hit(&shared.door).await?;
        used_again(shared).await
    })
    .await
}

#[tokio::test]
async fn redirects_go_on_while_packets_to_the_cache_are_dropped() -> Result<()> {
    with_cache(async |shared| {
        shared.stack.pause().await?;
        cut_off(&shared.stack).await?;
        no_redirect_is_a_hit(&shared.door).await?;
        shared.stack.resume().await?;
        used_again(shared).await
    })
    .await
}

/// Lets nobody connect to the cache any more, and ends the connections there are, which a policy leaves alone.
async fn cut_off(stack: &Stack) -> Result<()> {
    let policies = Api::<NetworkPolicy>::namespaced(stack.client.clone(), &stack.namespace);
    let closed = Patch::Merge(json!({"spec": {"ingress": null}}));
    policies
        .patch("acme-cache", &PatchParams::default(), &closed)
        .await?;
    await_condition("no client is connected to the cache", async || {
        valkey(stack, &["client", "kill", "type", "normal"]).await?;
        let clients = valkey(stack, &["client", "list", "type", "normal"]).await?;
        // The one that asks is at home.
        let others = clients
            .lines()
            .filter(|line| !line.contains("addr=127.0.0.1"));
        let others = others.count();
        ensure!(others == 0, "{others} clients");
        Ok(())
    })
    .await
}

/// Follows a link where nothing can come from the cache, which shows that it is away indeed.
async fn no_redirect_is_a_hit(door: &Door) -> Result<()> {
    let before = hits(door).await?;
    redirects_are_right_and_quick(door).await?;
    let hits = hits(door).await? - before;
    ensure!(hits == 0, "{hits} hits");
    Ok(())
}

async fn hits(door: &Door) -> Result<u64> {
    door.count(r#"cache_requests_total{result="hit"}"#).await
}

/// Waits until the cache serves hits again.
async fn used_again(shared: &SharedStack) -> Result<()> {
    shared.stack.ready().await?;
    let url = "https://example.com/after-the-outage";
    let code = shared.door.shorten(url).await?;
    await_condition("redirects are hits again", async || {
        let before = hits(&shared.door).await?;
        shared.door.leads_to(&code, url).await?;
        ensure!(hits(&shared.door).await? > before, "no hit");
        Ok(())
    })
    .await
}

async fn with_cache(test: impl AsyncFnOnce(&SharedStack) -> Result<()>) -> Result<()> {
    let (shared, _alone) = observed_stack().await?;
    shared.space.check(async |_| test(&shared).await).await
}
