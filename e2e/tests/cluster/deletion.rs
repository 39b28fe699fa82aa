//! Objects that stay when a stack is deleted, and those that the next stack of its name has.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;
use shortener_e2e::{
    GatewayClient, Provider, Space, Stack, await_condition, base_spec, children_of, holds_for,
    merge, stopped_with_every_profile,
};

/// The objects that outlive a stack under the policy `Retain`.
const DATA: [&str; 5] = [
    "Secret/acme-checksum",
    "Secret/acme-job-ids",
    "Secret/acme-management",
    "Secret/acme-postgres",
    "PersistentVolumeClaim/acme-postgres",
];

/// The same for a stack with every profile and the managed telemetry backend.
const DATA_OF_EVERY_PROFILE: [&str; 12] = [
    "Secret/acme-cache",
    "Secret/acme-checksum",
    "Secret/acme-job-ids",
    "Secret/acme-management",
    "Secret/acme-postgres",
    "Secret/acme-qdrant",
    "Secret/acme-rabbitmq",
    "Secret/acme-telemetry",
    "PersistentVolumeClaim/acme-postgres",
    "PersistentVolumeClaim/acme-qdrant",
    "PersistentVolumeClaim/acme-rabbitmq",
    "PersistentVolumeClaim/acme-telemetry",
];

/// A time in which a write that comes late would be seen.
const WATCHED: Duration = Duration::from_secs(3);

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
        holds_for(WATCHED, "the data stays", async || {
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

/// Two requests in a row, as scripts send them (F11).
#[tokio::test]
async fn a_stack_that_is_made_again_at_once_has_only_children_of_its_own() -> Result<()> {
    Space::with("again", async |space| {
        let stack = space.stack("acme");
        let spec = stopped_with_every_profile(space);
        stack.apply_undrained(&spec).await?;
        stack.until("Ready", "False").await?;
        let first = stack.get().await?.uid();
        let before = await_condition("every child is there", async || {
            children_owned_by(&stack, first.as_deref()).await
        })
        .await?;

        let begin = Instant::now();
        stack
            .api
            .delete(&stack.name, &DeleteParams::background())
            .await?;
        stack.apply_undrained(&spec).await?;
        println!("made again after {} ms", begin.elapsed().as_millis());
        let second = stack.get().await?.uid();
        ensure!(second != first, "the stack was not deleted");

        await_condition("every child is new", async || {
            all_new(&stack, second.as_deref(), &before).await
        })
        .await?;
        holds_for(WATCHED, "every child stays new", async || {
            all_new(&stack, second.as_deref(), &before).await
        })
        .await?;
        stack.until("Ready", "False").await?;
        stack.until("Degraded", "False").await?;
        Ok(())
    })
    .await
}

/// The uids of children by their titles.
type Uids = BTreeMap<String, Option<String>>;

/// Checks that every child of before is there again as another object, and that none belongs to another stack.
async fn all_new(stack: &Stack, owner: Option<&str>, before: &Uids) -> Result<()> {
    let after = children_owned_by(stack, owner).await?;
    for (title, uid) in before {
        let now = after.get(title);
        ensure!(now.is_some(), "{title} is missing");
        ensure!(now != Some(uid), "{title} is that of the first stack");
    }
    Ok(())
}

/// Returns the uids of the children, if each has the stack of this uid as its only owner and is not being deleted.
async fn children_owned_by(stack: &Stack, owner: Option<&str>) -> Result<Uids> {
    let children = children_of(stack).await?;
    ensure!(children.len() > 50, "only {} children", children.len());
    for child in &children {
        let owners = child.seen.owner_references().iter();
        let owners: Vec<&str> = owners.map(|owner| owner.uid.as_str()).collect();
        let title = child.title();
        ensure!(owners.iter().copied().eq(owner), "{title}: {owners:?}");
        let ends = child.seen.metadata.deletion_timestamp.is_some();
        ensure!(!ends, "{title} is being deleted");
    }
    let uids = children.iter();
    Ok(uids
        .map(|child| (child.title(), child.seen.uid()))
        .collect())
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
