//! Tests that must run alone on the cluster: they measure, load the node, or change the operator.

mod app_by_load;
mod before;
mod chaos;
mod chart_upgrade;
mod drain;
mod drift;
mod drills;
mod examples;
mod held;
mod leadership;
mod lent_certificate;
mod monitoring;
mod namespace;
mod profiles;
mod rest;
mod rights;
mod rollout;
mod rotation;
mod scope;
mod starvation;
mod upgrade;

use anyhow::{Result, ensure};
use k8s_openapi::api::{apps::v1::Deployment, core::v1::Namespace};
use kube::{Api, ResourceExt, api::ListParams};
use serde_json::json;
use shortener_e2e::{Space, Stack, await_condition, cluster_client, give_up_profiled_stacks, run};
use tokio::{
    process::Command,
    sync::{Mutex, MutexGuard},
};

/// Waits until no other test of this kind runs; the next one waits until the guard is dropped. Refuses a cluster of others,
/// because some tests use it by kubectl alone.
async fn alone() -> Result<MutexGuard<'static, ()>> {
    static ONE: Mutex<()> = Mutex::const_new(());
    cluster_client().await?;
    Ok(ONE.lock().await)
}

/// Waits like [`alone`], then deletes the stacks with profiles and waits until the namespaces of earlier tests are
/// gone. It is for tests that measure, or that tolerate no failed request.
async fn undisturbed() -> Result<MutexGuard<'static, ()>> {
    let guard = alone().await?;
    let client = cluster_client().await?;
    give_up_profiled_stacks(&client).await?;
    let namespaces = Api::<Namespace>::all(client);
    let ours = ListParams::default().labels("shortener.dev/e2e=true");
    await_condition("the namespaces of earlier tests are gone", async || {
        for namespace in namespaces.list(&ours).await? {
            let ends = namespace.metadata.deletion_timestamp.is_some();
            ensure!(!ends, "namespace {} is being deleted", namespace.name_any());
        }
        Ok(())
    })
    .await?;
    Ok(guard)
}

/// Creates a stack whose database never answers, because its address is reserved for documentation. Its children appear,
/// and a test need not wait until it is ready.
async fn unready_stack(space: &Space, name: &str) -> Result<Stack> {
    let url = "postgres://nobody:none@192.0.2.1:5432/links";
    space.secret("elsewhere", &json!({"url": url})).await?;
    let stack = space.stack(name);
    let database = json!({"external": {"secretRef": {"name": "elsewhere"}}});
    let spec = json!({"gateway": {"provider": "Standalone"}, "database": database});
    stack.apply(&spec).await?;
    Ok(stack)
}

/// Waits until the operator has created the Deployments of such a stack and reports that it is not ready.
async fn appears(stack: &Stack) -> Result<()> {
    stack.until("Ready", "False").await?;
    let deployments = Api::<Deployment>::namespaced(stack.client.clone(), &stack.namespace);
    await_condition("the Deployments exist", async || {
        for component in ["app", "gateway"] {
            deployments
                .get(&format!("{}-{component}", stack.name))
                .await?;
        }
        Ok(())
    })
    .await
}

/// Runs a command, whose words have no spaces, in the folder of this crate, and returns its output.
async fn command(line: &str, input: &str) -> Result<String> {
    let mut words = line.split_whitespace();
    let mut command = Command::new(words.next().unwrap_or_default());
    run(command.args(words), input).await
}
