//! A database that the real CloudNativePG runs, behind its pooler: the sessions of the servers, a server that dies, and a pooler
//! that a running stack gets and loses.

use std::{future::Future, pin::pin};

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{
    GatewayClient, Provider, Space, Stack, Writer, await_condition, kubectl, small,
};

use super::cloud_native_pg::{cluster, lose_the_primary};

/// Links with their destinations.
type Links = Vec<(String, String)>;

const PODS: &str = "--selector=cnpg.io/poolerName=acme-pg-pooler";

fn spec() -> Value {
    let cluster = json!({"storage": "256Mi", "template": {"resources": small()}});
    json!({
        "profiles": ["caching"],
        "database": {"managed": null, "cloudNativePG": cluster},
    })
}

#[tokio::test]
async fn a_pooler_comes_and_goes_while_links_are_created_and_loses_none_with_a_server() -> Result<()>
{
    Space::with("pooler", async |space| {
        let (stack, gateway) = space.serve(Provider::IngressNginx, spec()).await?;
        await_condition("the app has sessions of its own", async || {
            let [pooled, own] = sessions(&stack).await?;
            ensure!(pooled == 0 && own > 0, "{pooled} and {own}");
            Ok(())
        })
        .await?;
        let mut links = without_refusal(&gateway, "added", added(&stack)).await?;
        let writer = Writer::start(&gateway);
        lose_the_primary(&stack).await?;
        stack.ready().await?;
        let written = writer.stop().await?;
        ensure!(!written.is_empty(), "nothing was written");
        through_the_pooler(&stack).await?;
        links.extend(written);
        links.extend(without_refusal(&gateway, "removed", removed(&stack)).await?);
        println!("{} links were acknowledged", links.len());
        for (code, url) in &links {
            gateway.assert_stored(code, url).await?;
        }
        ends_with_the_stack(&stack).await
    })
    .await
}

/// Creates links one after the other until a change has been made. None may be refused.
async fn without_refusal(
    gateway: &GatewayClient,
    what: &str,
    change: impl Future<Output = Result<()>>,
) -> Result<Links> {
    let mut change = pin!(change);
    let mut links = Links::new();
    loop {
        let url = format!("https://example.com/{what}/{}", links.len());
        tokio::select! {
            made = &mut change => return made.map(|()| links),
            code = gateway.shorten(&url) => links.push((code?, url)),
        }
    }
}

/// Gives the stack a pooler, and waits until the app uses it.
async fn added(stack: &Stack) -> Result<()> {
    edit(stack, json!({"instances": 2})).await?;
    through_the_pooler(stack).await
}

/// Takes the pooler from the stack, and waits until it is gone.
async fn removed(stack: &Stack) -> Result<()> {
    edit(stack, json!(null)).await?;
    await_condition("the pooler is gone", async || {
        let kinds = "poolers.postgresql.cnpg.io,poddisruptionbudgets";
        let left = kubectl(stack, &["get", kinds, "--output=name"]).await?;
        ensure!(!left.contains("acme-pg-pooler"), "{left}");
        Ok(())
    })
    .await?;
    stack.ready().await?;
    let [_, own] = sessions(stack).await?;
    ensure!(own > 0, "the app has no session of its own");
    Ok(())
}

async fn edit(stack: &Stack, pooler: Value) -> Result<()> {
    let database = json!({"cloudNativePG": {"pooler": pooler}});
    stack.edit(json!({"database": database})).await
}

/// Waits until every session that the app has at the server comes from the pooler.
async fn through_the_pooler(stack: &Stack) -> Result<()> {
    await_condition("the app's sessions are those of the pooler", async || {
        let [pooled, own] = sessions(stack).await?;
        ensure!(pooled > 0 && own == 0, "{pooled} and {own}");
        Ok(())
    })
    .await?;
    let limits = "SELECT DISTINCT setting FROM pg_db_role_setting, unnest(setconfig) AS setting \
        WHERE setting LIKE 'statement_timeout=%'";
    let limit = primary(stack, limits).await?;
    ensure!(limit == "statement_timeout=5s", "{limit}");
    stack.ready().await
}

/// Returns the numbers of the app's sessions at the server that takes the writes: those from the pooler, and others.
async fn sessions(stack: &Stack) -> Result<[usize; 2]> {
    let addresses = "--output=jsonpath={.items[*].status.podIP}";
    let pooler = kubectl(stack, &["get", "pods", PODS, addresses]).await?;
    let from = "SELECT host(client_addr) FROM pg_stat_activity \
        WHERE application_name = 'shortener-app' AND backend_type = 'client backend'";
    let from = primary(stack, from).await?;
    let pooler: Vec<&str> = pooler.split_whitespace().collect();
    let (pooled, own): (Vec<&str>, Vec<&str>) =
        from.lines().partition(|address| pooler.contains(address));
    Ok([pooled.len(), own.len()])
}

/// Returns the bare output of a statement at the server that takes the writes.
async fn primary(stack: &Stack, statement: &str) -> Result<String> {
    let pod = cluster(stack, ".status.currentPrimary").await?;
    let psql = ["psql", "--no-psqlrc", "--tuples-only", "--no-align"];
    let command = ["exec", &pod, "--container=postgres", "--"];
    let statement = ["--dbname=shortener", "--command", statement];
    let output = kubectl(stack, &[&command[..], &psql, &statement].concat()).await?;
    Ok(output.trim().to_owned())
}

/// Gives the stack a pooler again and deletes both.
async fn ends_with_the_stack(stack: &Stack) -> Result<()> {
    added(stack).await?;
    stack.delete().await?;
    await_condition("the pooler and its pods are gone", async || {
        let kinds = "poolers.postgresql.cnpg.io,pods";
        let left = kubectl(stack, &["get", kinds, "--output=name"]).await?;
        ensure!(!left.contains("acme-pg-pooler"), "{left}");
        Ok(())
    })
    .await
}
