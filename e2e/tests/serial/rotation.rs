//! A password that changes under load (F9): the pods that use it are replaced, and no request fails.
//!
//! The password is the one of the cache, without which every request can be answered. The managed database cannot hold this
//! promise: it is one pod, so writes, and links that no cache has, wait for its restart (docs/credentials.md).

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Secret;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{
    Load, Provider, Space, Stack, await_condition, await_replaced, uids_of, valkey,
};

use crate::{rollout::two_of_everything, undisturbed};

/// The components whose pods use the password.
const REPLACED: [&str; 2] = ["app", "cache"];

#[tokio::test]
async fn a_changed_password_of_the_cache_fails_no_request() -> Result<()> {
    let _alone = undisturbed().await?;
    Space::with("cache-password", async |space| {
        let cached = json!({"profiles": ["caching"]});
        let (stack, gateway) = two_of_everything(space, Provider::IngressNginx, cached).await?;
        let load = Load::of_redirects_and_creates(&gateway).await?;
        load.fails_nothing("new password", change_the_password(&stack))
            .await
    })
    .await
}

/// Changes the password of the cache, and waits until new pods use it.
async fn change_the_password(stack: &Stack) -> Result<()> {
    let earlier = uids_of(stack, &REPLACED).await?;
    let edit = Patch::Merge(json!({"stringData": {"password": r#"p@ %/'"\:$x"#}}));
    Api::<Secret>::namespaced(stack.client.clone(), &stack.namespace)
        .patch("acme-cache", &PatchParams::default(), &edit)
        .await?;
    await_replaced(stack, &REPLACED, &earlier).await?;
    // The new cache was empty, and only the requests of the load read from it.
    await_condition("the app reads from the new cache", async || {
        let statistics = valkey(stack, &["info", "stats"]).await?;
        let mut lines = statistics.lines();
        let hits = lines.find_map(|line| line.strip_prefix("keyspace_hits:"));
        let hits = hits.context("the cache counts no hits")?.trim();
        ensure!(hits != "0", "no redirect was a hit");
        Ok(())
    })
    .await
}
