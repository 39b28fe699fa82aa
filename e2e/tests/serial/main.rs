//! Tests that need the cluster for themselves: they measure, put the node under load, or change the operator.

mod drift;
mod leadership;
mod monitoring;
mod profiles;
mod rest;
mod rollout;
mod upgrade;

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, Client, ResourceExt, api::ListParams};
use shortener_e2e::{await_condition, give_up_profiled_stacks};
use tokio::sync::{Mutex, MutexGuard};

/// Waits for the tests before this one; the next test waits for the guard.
async fn alone() -> MutexGuard<'static, ()> {
    static ONE: Mutex<()> = Mutex::const_new(());
    ONE.lock().await
}

/// As [`alone`], and waits for the end of the namespaces of earlier tests: for tests that measure, or that allow nothing to
/// fail.
async fn undisturbed() -> Result<MutexGuard<'static, ()>> {
    let guard = alone().await;
    let client = Client::try_default().await?;
    give_up_profiled_stacks(&client).await?;
    let namespaces = Api::<Namespace>::all(client);
    let ours = ListParams::default().labels("shortener.dev/e2e=true");
    await_condition("the namespaces of earlier tests are gone", async || {
        for namespace in namespaces.list(&ours).await? {
            let ends = namespace.metadata.deletion_timestamp.is_some();
            ensure!(!ends, "{} is on its way out", namespace.name_any());
        }
        Ok(())
    })
    .await?;
    Ok(guard)
}
