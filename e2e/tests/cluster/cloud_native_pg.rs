//! A database that the real CloudNativePG runs: servers that die, a stack that stops, and the end of it.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{Provider, Space, Stack, Writer, await_condition, kubectl, small};

/// Number of servers that die, one after the other.
const DEATHS: usize = 2;

fn spec() -> Value {
    let cluster = json!({"storage": "256Mi", "template": {"resources": small()}});
    json!({
        "profiles": ["caching"],
        "database": {"managed": null, "cloudNativePG": cluster},
    })
}

/// Returns a field of the stack's Cluster.
pub(super) async fn cluster(stack: &Stack, path: &str) -> Result<String> {
    let path = format!("--output=jsonpath={{{path}}}");
    kubectl(
        stack,
        &["get", "clusters.postgresql.cnpg.io/acme-pg", &path],
    )
    .await
}

/// Kills the server that takes the writes, and waits until another one does and every server is ready.
pub(super) async fn lose_the_primary(stack: &Stack) -> Result<()> {
    let primary = cluster(stack, ".status.currentPrimary").await?;
    let pod = format!("pod/{primary}");
    kubectl(stack, &["delete", &pod, "--grace-period=0", "--force"]).await?;
    await_condition("another server takes the writes", async || {
        let now = cluster(stack, ".status.currentPrimary").await?;
        ensure!(now != primary, "it is still {now}");
        Ok(())
    })
    .await?;
    stack
        .until_reason("DatabaseReady", "True", "ClusterReady")
        .await?;
    Ok(())
}

#[tokio::test]
async fn servers_that_die_take_no_acknowledged_link_along() -> Result<()> {
    Space::with("cluster-database", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec()).await?;
        stack
            .until_reason("DatabaseReady", "True", "ClusterReady")
            .await?;
        let writer = Writer::start(&gateway);
        for _ in 0..DEATHS {
            lose_the_primary(&stack).await?;
        }
        let links = writer.stop().await?;
        ensure!(!links.is_empty(), "nothing was written");
        stops_and_starts(&stack).await?;
        for (code, url) in &links {
            gateway.wait_until_redirects(code, url).await?;
        }
        ends(&stack).await
    })
    .await
}

/// Stops the stack, whose Cluster then has no servers, and starts it again.
async fn stops_and_starts(stack: &Stack) -> Result<()> {
    stack.edit(json!({"stopped": true})).await?;
    await_condition("the Cluster hibernates", async || {
        let servers = "--selector=cnpg.io/cluster=acme-pg,cnpg.io/podRole=instance";
        let pods = kubectl(stack, &["get", "pods", servers, "--output=name"]).await?;
        ensure!(pods.is_empty(), "{pods}");
        Ok(())
    })
    .await?;
    stack.edit(json!({"stopped": false})).await?;
    stack.ready().await
}

/// Deletes the stack, whose policy deletes the data with it.
async fn ends(stack: &Stack) -> Result<()> {
    stack.delete().await?;
    await_condition("the Cluster and its volumes are gone", async || {
        let kinds = "clusters.postgresql.cnpg.io,persistentvolumeclaims";
        let left = kubectl(stack, &["get", kinds, "--output=name"]).await?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })
    .await
}
