//! A cache that is away, frozen or cut off: redirects go on from the database, each one right and quick (A2).

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::StatefulSet, core::v1::Pod, networking::v1::NetworkPolicy};
use kube::{
    Api,
    api::{DeleteParams, Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{Door, SharedStack, Stack, await_condition, cached_stack, valkey};

/// Redirects that are followed during an outage.
const FOLLOWED: usize = 60;
/// A cache that does not answer costs the app 100 ms, and connecting to one that is cut off would cost seconds. Between
/// them is what a busy machine may add.
const QUICK: Duration = Duration::from_millis(1500);
/// What most redirects take although the machine is busy; past the breaker they do not wait at all.
const USUAL: Duration = Duration::from_millis(250);

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
        // Paused, because the operator would put the pod back.
        shared.stack.edit(json!({"paused": true})).await?;
        shared
            .stack
            .until_reason("Progressing", "False", "Paused")
            .await?;
        let sets = Api::<StatefulSet>::namespaced(shared.space.client.clone(), &shared.space.name);
        let none = Patch::Merge(json!({"spec": {"replicas": 0}}));
        sets.patch("acme-cache", &PatchParams::default(), &none)
            .await?;
        let pods = Api::<Pod>::namespaced(shared.space.client.clone(), &shared.space.name);
        await_condition("the pod of the cache is gone", async || {
            ensure!(pods.get_opt("acme-cache-0").await?.is_none(), "still there");
            Ok(())
        })
        .await?;
        no_redirect_is_a_hit(&shared.door).await?;
        shared.stack.until("CacheReady", "False").await?;
        shared.stack.edit(json!({"paused": false})).await?;
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
        shared.stack.edit(json!({"paused": true})).await?;
        shared
            .stack
            .until_reason("Progressing", "False", "Paused")
            .await?;
        cut_off(&shared.stack).await?;
        no_redirect_is_a_hit(&shared.door).await?;
        shared.stack.edit(json!({"paused": false})).await?;
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

/// Follows new and old links and creates some; prints the slowest.
async fn redirects_are_right_and_quick(door: &Door) -> Result<()> {
    let url = "https://example.com/during-the-outage";
    let code = door.shorten(url).await?;
    let mut times = Vec::with_capacity(FOLLOWED);
    for _ in 0..FOLLOWED {
        let begin = Instant::now();
        door.leads_to(&code, url).await?;
        times.push(begin.elapsed());
    }
    times.sort();
    let (usual, slowest) = (times[FOLLOWED / 2], times[FOLLOWED - 1]);
    println!("without the cache: usual {usual:?}, slowest {slowest:?} of {FOLLOWED} redirects");
    ensure!(
        usual < USUAL && slowest < QUICK,
        "usual {usual:?}, slowest {slowest:?}"
    );
    Ok(())
}

/// The same where nothing can come from the cache, which shows that it is away indeed.
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
    let (shared, _alone) = cached_stack().await?;
    shared.space.check(async |_| test(&shared).await).await
}
