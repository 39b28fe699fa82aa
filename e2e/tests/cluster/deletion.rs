//! Objects that stay when a stack is deleted.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::{Api, ResourceExt};
use serde_json::json;
use shortener_e2e::{
    GatewayClient, Provider, Space, await_condition, base_spec, children_of, holds_for, merge,
    stopped_with_every_profile,
};

/// The objects that outlive a stack under the policy `Retain`.
const DATA: [&str; 4] = [
    "Secret/acme-checksum",
    "Secret/acme-job-ids",
    "Secret/acme-postgres",
    "PersistentVolumeClaim/acme-postgres",
];

/// The same for a stack with every profile and the managed telemetry backend.
const DATA_OF_EVERY_PROFILE: [&str; 11] = [
    "Secret/acme-cache",
    "Secret/acme-checksum",
    "Secret/acme-job-ids",
    "Secret/acme-postgres",
    "Secret/acme-qdrant",
    "Secret/acme-rabbitmq",
    "Secret/acme-telemetry",
    "PersistentVolumeClaim/acme-postgres",
    "PersistentVolumeClaim/acme-qdrant",
    "PersistentVolumeClaim/acme-rabbitmq",
    "PersistentVolumeClaim/acme-telemetry",
];

#[tokio::test]
async fn a_retained_volume_serves_its_links_to_the_next_stack_of_the_name() -> Result<()> {
    Space::with("retain", async |space| {
        let stack = space.stack("acme");
        let mut spec = base_spec(space, Provider::IngressNginx);
        merge(&mut spec, json!({"deletionPolicy": "Retain"}));
        stack.apply(&spec).await?;
        stack.ready().await?;
        let gateway =
            GatewayClient::open(space, &stack, Provider::IngressNginx, &space.host()).await?;
        let code = gateway.shorten("https://example.com/retained").await?;
        let (claim, secret) = data_of(space).await?;

        stack.delete().await?;
        only_left(space, &DATA).await?;

        stack.apply(&spec).await?;
        stack.ready().await?;
        assert_eq!(
            data_of(space).await?,
            (claim, secret),
            "the data was replaced"
        );
        GatewayClient::open(space, &stack, Provider::IngressNginx, &space.host())
            .await?
            .assert_redirects(&code, "https://example.com/retained")
            .await
    })
    .await
}

#[tokio::test]
async fn the_policy_delete_takes_the_data_along() -> Result<()> {
    Space::with("delete", async |space| {
        let (stack, _gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        stack.delete().await?;
        only_left(space, &[]).await
    })
    .await
}

#[tokio::test]
async fn the_policy_can_change_while_the_stack_lives() -> Result<()> {
    Space::with("policy", async |space| {
        let stack = space.stack("acme");
        let spec = stopped_with_every_profile(space);
        stack.apply(&spec).await?;
        owned(space, true).await?;
        stack.edit(json!({"deletionPolicy": "Retain"})).await?;
        owned(space, false).await?;
        stack.delete().await?;
        only_left(space, &DATA_OF_EVERY_PROFILE).await?;
        let time = std::time::Duration::from_secs(3);
        holds_for(time, "the data stays", async || {
            let left = titles(space).await?;
            let mut data = DATA_OF_EVERY_PROFILE.iter();
            ensure!(
                data.all(|title| left.iter().any(|left| left == title)),
                "only {left:?}"
            );
            Ok(())
        })
        .await?;
        // A write that was under way may have created something more; it goes as well.
        only_left(space, &DATA_OF_EVERY_PROFILE).await?;

        stack.apply(&spec).await?;
        owned(space, true).await?;
        stack.delete().await?;
        only_left(space, &[]).await
    })
    .await
}

/// Waits until only `data` is left of the stack.
async fn only_left(space: &Space, data: &[&str]) -> Result<()> {
    await_condition("everything but the data is gone", async || {
        let left = titles(space).await?;
        ensure!(left == data, "{left:?} is left");
        Ok(())
    })
    .await
}

/// Waits until the volume claims and Secrets of every profile have an owner reference, or have none.
async fn owned(space: &Space, expected: bool) -> Result<()> {
    let what = format!("the data is owned by the stack: {expected}");
    await_condition(&what, async || {
        let mut children = children_of(&space.stack("acme")).await?;
        children.retain(|child| DATA_OF_EVERY_PROFILE.contains(&child.title().as_str()));
        ensure!(
            children.len() == DATA_OF_EVERY_PROFILE.len(),
            "only {} of {DATA_OF_EVERY_PROFILE:?}",
            children.len()
        );
        for child in &children {
            let owners = child.seen.owner_references().len();
            ensure!(
                (owners == 1) == expected,
                "{} has {owners} owners",
                child.title()
            );
        }
        Ok(())
    })
    .await
}

async fn titles(space: &Space) -> Result<Vec<String>> {
    let children = children_of(&space.stack("acme")).await?;
    Ok(children.iter().map(shortener_e2e::Child::title).collect())
}

/// Returns the uids of the database's volume claim and Secret.
async fn data_of(space: &Space) -> Result<(Option<String>, Option<String>)> {
    let claims = Api::<PersistentVolumeClaim>::namespaced(space.client.clone(), &space.name);
    let secrets = Api::<Secret>::namespaced(space.client.clone(), &space.name);
    let claim = claims.get("acme-postgres").await?.uid();
    Ok((claim, secrets.get("acme-postgres").await?.uid()))
}
