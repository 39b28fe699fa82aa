//! A cache that is slow or sends invalid answers: redirects continue from the database, each one right and quick
//! (A2). The tests of a stopped, frozen or isolated cache are in `outages`.
//!
//! Specification: 7, 3.1.

use std::{
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{Pod, Service};
use kube::{Api, api::PostParams};
use serde_json::json;
use shortener_e2e::{
    GatewayClient, Provider, Space, Stack, await_condition, base_spec, merge,
    redirects_are_right_and_quick, restricted_container, restricted_pod, valkey,
    with_every_profile,
};

const MISSES: &str = r#"cache_requests_total{result="miss"}"#;

/// The time of the pauses, or longer on a machine that needs longer for three measurements.
const SLOW: Duration = Duration::from_secs(30);

#[tokio::test]
async fn redirects_go_on_while_the_cache_is_slow() -> Result<()> {
    with_every_profile(async |shared| {
        let misses = shared.gateway.count(MISSES).await?;
        let measured = AtomicBool::new(false);
        tokio::try_join!(
            measure(&shared.gateway, &measured),
            slow_down(&shared.stack, &measured)
        )?;
        // The cache holds every link that is followed, so a miss proves that the cache was too slow.
        let misses = shared.gateway.count(MISSES).await? - misses;
        ensure!(misses > 0, "the cache was never too slow");
        Ok(())
    })
    .await
}

/// The first measurement may end before the first pause.
async fn measure(gateway: &GatewayClient, measured: &AtomicBool) -> Result<()> {
    let (begin, mut number) = (Instant::now(), 0);
    while number < 3 || begin.elapsed() < SLOW {
        redirects_are_right_and_quick(gateway).await?;
        number += 1;
    }
    measured.store(true, Relaxed);
    Ok(())
}

/// Makes the cache slow meanwhile: every pause is three times as long as a request waits, and the next one follows at once.
async fn slow_down(stack: &Stack, measured: &AtomicBool) -> Result<()> {
    let pauses = ["-r", "10", "client", "pause", "300", "all"];
    while !measured.load(Relaxed) {
        let answer = valkey(stack, &pauses).await?;
        ensure!(answer.lines().all(|line| line.trim() == "OK"), "{answer}");
    }
    Ok(())
}

#[tokio::test]
async fn redirects_go_on_while_the_cache_answers_nonsense() -> Result<()> {
    Space::with("nonsense", async |space| {
        nonsense(space).await?;
        let url = json!({"url": "redis://nonsense:3000"});
        space.secret("my-cache", &url).await?;
        let changes = json!({
            "profiles": ["caching"],
            "cache": {"managed": null, "external": {"secretRef": {"name": "my-cache"}}},
        });
        let provider = Provider::IngressNginx;
        let mut spec = base_spec(space, provider);
        merge(&mut spec, changes);
        let stack = space.stack("acme");
        stack.apply(&spec).await?;
        let told = stack
            .until_reason("CacheReady", "False", "Unreachable")
            .await?;
        let sentence =
            "cache.external: the stack's pods get no answer from the cache at the address in Secret my-cache";
        ensure!(told.message.starts_with(sentence), "{}", told.message);
        for served in ["AppReady", "GatewayReady"] {
            stack.until(served, "True").await?;
        }
        let gateway = GatewayClient::open(space, &stack, provider, &space.host()).await?;
        redirects_are_right_and_quick(&gateway).await?;
        let hits = gateway
            .count(r#"cache_requests_total{result="hit"}"#)
            .await?;
        ensure!(hits == 0, "{hits} hits from a server that is not a cache");
        Ok(())
    })
    .await
}

/// Starts a server that accepts connections and speaks another protocol: the stand-in app.
async fn nonsense(space: &Space) -> Result<()> {
    let container = restricted_container(&space.settings.echo_image, json!({"args": ["serve"]}));
    let labels = json!({"app": "nonsense"});
    let pod = restricted_pod("nonsense", &labels, container, json!([]))?;
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    pods.create(&PostParams::default(), &pod).await?;
    let service = serde_json::from_value(json!({
        "metadata": {"name": "nonsense"},
        "spec": {"selector": labels, "ports": [{"port": 3000}]},
    }))?;
    Api::<Service>::namespaced(space.client.clone(), &space.name)
        .create(&PostParams::default(), &service)
        .await?;
    await_condition("pod nonsense is running", async || {
        let status = pods.get("nonsense").await?.status;
        let phase = status.and_then(|status| status.phase);
        let phase = phase.context("the pod has no phase yet")?;
        ensure!(phase == "Running", "the pod is in phase {phase}");
        Ok(())
    })
    .await
}
