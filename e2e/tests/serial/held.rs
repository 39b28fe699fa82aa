//! The operator is upgraded beside a stack with `upgradePolicy: OnSpecChange`: its pods run on until it is let go. The
//! other release is this one with another default image.

use std::collections::BTreeSet;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::StatefulSet;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;
use shortener_e2e::{Provider, Release, Space, Stack, await_condition, base_spec, merge, uids_of};

use crate::undisturbed;

/// Default image of the cache in the other release. It is never run while it is held back.
const NEXT: &str = "localhost/shortenerstack/none:next";

/// The components of the stack that have pods.
const COMPONENTS: [&str; 4] = ["app", "gateway", "postgres", "cache"];

#[tokio::test]
async fn an_upgrade_restarts_no_pod_of_a_stack_until_it_is_let_go() -> Result<()> {
    // Other stacks with a cache would get the image at once.
    let _alone = undisturbed().await?;
    Space::with("held", async |space| {
        let stack = space.stack("demo");
        let mut spec = base_spec(space, Provider::IngressNginx);
        let careful = json!({"profiles": ["caching"], "upgradePolicy": "OnSpecChange"});
        merge(&mut spec, careful);
        stack.apply(&spec).await?;
        stack.ready().await?;
        let before = uids_of(&stack, &COMPONENTS).await?;
        let release = Release::installed().await?;
        let upgraded = release.upgrade_with(&format!("images.cache={NEXT}")).await;
        let seen = match upgraded {
            Ok(()) => held_then_let_go(&stack, &before).await,
            Err(error) => Err(error),
        };
        // The next tests need the operator as it was, whatever becomes of this one.
        release.put_back().await?;
        seen?;
        stack.edit(json!({"upgradePolicy": "Automatic"})).await?;
        stack.ready().await
    })
    .await
}

async fn held_then_let_go(stack: &Stack, before: &BTreeSet<String>) -> Result<()> {
    stack
        .until_reason("Progressing", "False", "ChangesPending")
        .await?;
    let waits = stack.get().await?.data["status"]["pendingChanges"].clone();
    let expected = json!([{
        "workload": "StatefulSet/demo-cache", "fields": ["spec.containers[valkey].image"],
    }]);
    ensure!(waits == expected, "status.pendingChanges is {waits}");
    let now = uids_of(stack, &COMPONENTS).await?;
    ensure!(now == *before, "the pods were {before:?} and are {now:?}");
    let wish = json!({"metadata": {"annotations": {"shortener.dev/release": "next"}}});
    let parameters = PatchParams::default();
    stack
        .api
        .patch(&stack.name, &parameters, &Patch::Merge(wish))
        .await?;
    let sets = Api::<StatefulSet>::namespaced(stack.client.clone(), &stack.namespace);
    await_condition("the cache is let go", async || {
        let pod = sets.get("demo-cache").await?.spec;
        let pod = pod.and_then(|spec| spec.template.spec);
        let image = pod.and_then(|pod| pod.containers.into_iter().next()?.image);
        let image = image.context("demo-cache has no image")?;
        ensure!(image == NEXT, "its image is {image}");
        Ok(())
    })
    .await
}
