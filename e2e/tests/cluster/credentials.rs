//! Passwords: never generated over existing data, and rotated by an edit of the Secret.
//! Also names that are already taken.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};
use kube::{
    Api, ResourceExt,
    api::{DeleteParams, ListParams, Patch, PatchParams, PostParams},
};
use serde_json::json;
use shortener_e2e::{Provider, Space, await_condition, condition_of, holds_for};

/// Long enough for several reconciles, any of which could do the wrong thing.
const WATCHED: Duration = Duration::from_secs(5);

#[tokio::test]
async fn a_lost_password_is_reported_and_never_replaced_while_the_volume_exists() -> Result<()> {
    Space::with("lost-password", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        let code = gateway.shorten("https://example.com/kept").await?;

        let secrets = Api::<Secret>::namespaced(space.client.clone(), &space.name);
        let mut lost = secrets.get("acme-postgres").await?;
        secrets
            .delete("acme-postgres", &DeleteParams::default())
            .await?;
        let degraded = stack
            .until_reason("Degraded", "True", "CredentialsMissing")
            .await?;
        ensure!(
            degraded.message.contains("acme-postgres"),
            "{}",
            degraded.message
        );
        holds_for(WATCHED, "no password is generated", async || {
            let minted = secrets.get_opt("acme-postgres").await?;
            ensure!(minted.is_none(), "a new Secret appeared");
            Ok(())
        })
        .await?;
        gateway
            .assert_redirects(&code, "https://example.com/kept")
            .await?;

        lost.metadata.resource_version = None;
        lost.metadata.uid = None;
        lost.metadata.managed_fields = None;
        secrets.create(&PostParams::default(), &lost).await?;
        stack.until("Degraded", "False").await?;
        stack.ready().await?;
        gateway
            .wait_until_redirects(&code, "https://example.com/kept")
            .await
    })
    .await
}

#[tokio::test]
async fn a_password_edited_in_the_secret_reaches_database_and_app() -> Result<()> {
    Space::with("rotation", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, json!({})).await?;
        let code = gateway.shorten("https://example.com/before").await?;
        let before = pods_using_the_password(space).await?;

        let edit = Patch::Merge(json!({"stringData": {"password": "chosen-by-a-person"}}));
        Api::<Secret>::namespaced(space.client.clone(), &space.name)
            .patch("acme-postgres", &PatchParams::default(), &edit)
            .await?;
        await_condition("database and app were replaced", async || {
            let now = pods_using_the_password(space).await?;
            ensure!(
                now.len() == 2 && now.iter().all(|uid| !before.contains(uid)),
                "{now:?}"
            );
            Ok(())
        })
        .await?;
        stack.ready().await?;
        await_condition("links are created with the new password", async || {
            gateway.shorten("https://example.com/after").await
        })
        .await?;
        // The old pod of the app still answers for a moment, with the old password.
        gateway
            .wait_until_redirects(&code, "https://example.com/before")
            .await
    })
    .await
}

#[tokio::test]
async fn an_object_of_somebody_else_with_the_name_of_a_child_is_never_touched() -> Result<()> {
    Space::with("name-taken", async |space| {
        let config_maps = Api::<ConfigMap>::namespaced(space.client.clone(), &space.name);
        // As Helm labels what a release with the name of the stack installs.
        let foreign = serde_json::from_value(json!({
            "metadata": {"name": "acme-gateway", "labels": {
                "app.kubernetes.io/instance": "acme", "app.kubernetes.io/managed-by": "Helm",
            }},
            "data": {"mine": "yes"},
        }))?;
        let foreign = config_maps.create(&PostParams::default(), &foreign).await?;
        let stack = space.apply_echo(json!({})).await?;
        let degraded = stack.until_reason("Degraded", "True", "NameTaken").await?;
        ensure!(
            degraded.message.contains("acme-gateway"),
            "{}",
            degraded.message
        );
        holds_for(WATCHED, "the foreign object stays as it is", async || {
            let now = config_maps.get("acme-gateway").await?;
            ensure!(now == foreign, "{now:?}");
            let degraded = condition_of(&stack.get().await?, "Degraded")?;
            ensure!(
                degraded.status == "True",
                "nothing is told although the name acme-gateway is taken"
            );
            Ok(())
        })
        .await?;
        config_maps
            .delete("acme-gateway", &DeleteParams::default())
            .await?;
        stack.until("Degraded", "False").await?;
        stack.ready().await
    })
    .await
}

/// Returns the uids of the pods of the app and the database that are not being deleted.
async fn pods_using_the_password(space: &Space) -> Result<Vec<String>> {
    let pods = Api::<Pod>::namespaced(space.client.clone(), &space.name);
    let selector = "app.kubernetes.io/component in (app,postgres)";
    let pods = pods.list(&ListParams::default().labels(selector)).await?;
    pods.items
        .into_iter()
        .filter(|pod| pod.metadata.deletion_timestamp.is_none())
        .map(|pod| pod.uid().context("a pod has no uid"))
        .collect()
}
