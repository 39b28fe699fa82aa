//! A cache that is stopped, frozen or isolated: redirects continue from the database, each one right and quick (A2).
//!
//! Specification: 7, 3.1.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, api::DeleteParams};
use shortener_e2e::{
    GatewayClient, SharedStack, await_condition, redirects_are_right_and_quick, valkey,
    with_every_profile,
};

/// The cache's liveness probe tolerates a pause of this length.
const FROZEN: Duration = Duration::from_secs(25);

#[tokio::test]
async fn redirects_go_on_while_the_pod_of_the_cache_is_replaced() -> Result<()> {
    with_every_profile(async |shared| {
        let pods = Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name);
        pods.delete("acme-cache-0", &DeleteParams::default())
            .await?;
        redirects_are_right_and_quick(&shared.gateway).await?;
        used_again(shared).await
    })
    .await
}

#[tokio::test]
async fn redirects_go_on_without_any_pod_of_the_cache() -> Result<()> {
    with_every_profile(async |shared| {
        shared.stack.pause().await?;
        shared.stack.scale_to_zero("cache").await?;
        no_redirect_is_a_hit(&shared.gateway).await?;
        shared.stack.until("CacheReady", "False").await?;
        shared.stack.resume().await?;
        used_again(shared).await
    })
    .await
}

#[tokio::test]
async fn redirects_go_on_while_the_cache_is_frozen() -> Result<()> {
    with_every_profile(async |shared| {
        // The cache accepts connections and answers no request.
        let time = FROZEN.as_millis().to_string();
        let begin = Instant::now();
        valkey(&shared.stack, &["client", "pause", &time, "all"]).await?;
        let hits = hits_meanwhile(&shared.gateway).await?;
        // On a machine that needs longer for the redirects, the last ones are hits.
        ensure!(
            hits == 0 || begin.elapsed() >= FROZEN,
            "expected no hit while the cache was frozen, counted {hits}"
        );
        used_again(shared).await
    })
    .await
}

#[tokio::test]
async fn redirects_go_on_while_packets_to_the_cache_are_dropped() -> Result<()> {
    with_every_profile(async |shared| {
        shared.stack.pause().await?;
        shared.stack.isolate("cache").await?;
        no_redirect_is_a_hit(&shared.gateway).await?;
        shared.stack.resume().await?;
        used_again(shared).await
    })
    .await
}

/// Follows a link and checks that no redirect is a hit, which proves that the cache is really unavailable.
async fn no_redirect_is_a_hit(gateway: &GatewayClient) -> Result<()> {
    let hits = hits_meanwhile(gateway).await?;
    ensure!(
        hits == 0,
        "expected no hit during the outage, counted {hits}"
    );
    Ok(())
}

/// Follows a link, and returns the number of redirects that were hits.
async fn hits_meanwhile(gateway: &GatewayClient) -> Result<u64> {
    let before = hits(gateway).await?;
    redirects_are_right_and_quick(gateway).await?;
    Ok(hits(gateway).await? - before)
}

async fn hits(gateway: &GatewayClient) -> Result<u64> {
    gateway.count(r#"cache_requests_total{result="hit"}"#).await
}

/// Waits until the cache serves hits again.
async fn used_again(shared: &SharedStack) -> Result<()> {
    shared.stack.ready().await?;
    let url = "https://example.com/after-the-outage";
    let code = shared.gateway.shorten(url).await?;
    await_condition("redirects are hits again", async || {
        let before = hits(&shared.gateway).await?;
        shared.gateway.assert_redirects(&code, url).await?;
        ensure!(
            hits(&shared.gateway).await? > before,
            "the redirect was not a hit"
        );
        Ok(())
    })
    .await
}
