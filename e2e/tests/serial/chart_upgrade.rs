//! The chart is upgraded from its package with other values, and rolled back. The resource definition and a stack stay the
//! same objects, no pod of the stack restarts, and the operator works after each step.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::apps::v1::Deployment;
use kube::Api;
use serde_json::{Value, json};
use shortener_e2e::{Operator, Space, Stack, await_within};

use crate::{alone, appears, command, unready_stack};

const LABEL: &str = "upgraded=yes";
/// The kinds of the release that have the label after the upgrade.
const KINDS: [&str; 6] = [
    "clusterroles",
    "deployments",
    "services",
    "serviceaccounts",
    "networkpolicies",
    "poddisruptionbudgets",
];

#[tokio::test]
async fn an_upgrade_of_the_chart_and_its_rollback_keep_the_definition_and_the_stacks() -> Result<()>
{
    let _alone = alone().await?;
    Space::with("chart-upgrade", async |space| {
        let stack = unready_stack(space, "kept").await?;
        appears(&stack).await?;
        let operator = Operator::find(&space.client).await?;
        let replicas = i32::try_from(operator.running().await?.len())?;
        let (lasts, record) = (lasting(&stack).await?, record().await?);
        let status: Value = serde_json::from_str(&helm("status", "--output json").await?)?;
        let revision = status["version"].as_u64().context("no revision")?;
        let upgraded = upgraded(&stack, &operator, &lasts).await;
        // The next tests need the operator as it was, whatever becomes of this one.
        let back = format!("{revision} --force-conflicts --wait --timeout 3m");
        helm("rollback", &back).await?;
        upgraded?;
        operator.settled(replicas).await?;
        let now = lasting(&stack).await?;
        ensure!(now == lasts, "the rollback changed {lasts} to {now}");
        let now = self::record().await?;
        ensure!(now == record, "the rollback restored {now}, not {record}");
        for kind in KINDS
            .into_iter()
            .chain(["clusterrolebindings", "roles", "rolebindings"])
        {
            let left = labelled(kind).await?;
            ensure!(left.is_empty(), "the rollback left the label on {left}");
        }
        works(&stack, 1).await
    })
    .await
}

async fn upgraded(stack: &Stack, operator: &Operator, lasts: &str) -> Result<()> {
    let folder = std::env::temp_dir().join(&stack.namespace);
    let to = folder.display();
    command(
        &format!("helm package ../charts/shortener-operator --destination {to}"),
        "",
    )
    .await?;
    // Earlier tests scaled the Deployment by hand, so Helm is not the only field manager of its replicas: hence the force.
    let upgrade = format!(
        "{to}/shortener-operator-{}.tgz --reset-then-reuse-values --force-conflicts --wait --timeout 3m --set replicaCount=2 \
         --set updateStrategy.rollingUpdate.maxSurge=1 --set-string commonLabels.{LABEL} \
         --set-json extraArgs=[\"--max-concurrent-reconciles=4\"]",
        env!("CARGO_PKG_VERSION")
    );
    let outcome = helm("upgrade", &upgrade).await;
    std::fs::remove_dir_all(folder)?;
    outcome?;
    let now = lasting(stack).await?;
    ensure!(now == lasts, "the upgrade changed {lasts} to {now}");
    operator.settled(2).await?;
    for kind in KINDS {
        ensure!(!labelled(kind).await?.is_empty(), "{kind} lack {LABEL}");
    }
    helm("test", "--logs").await?;
    works(stack, 3).await
}

/// Runs a command of helm for the operator's release.
async fn helm(verb: &str, arguments: &str) -> Result<String> {
    let release = "shortener-operator --namespace shortener-system";
    command(&format!("helm {verb} {release} {arguments}"), "").await
}

/// Returns the state that an upgrade must not change: the objects, and the templates of the stack's pods.
async fn lasting(stack: &Stack) -> Result<String> {
    let fields = "jsonpath={range.items[*]}{.metadata.uid}{.spec.template}{end}";
    let objects =
        "crd/shortenerstacks.shortener.dev sst/kept deployment/kept-app deployment/kept-gateway";
    let namespace = &stack.namespace;
    command(
        &format!("kubectl get {objects} --namespace {namespace} --output {fields}"),
        "",
    )
    .await
}

/// Returns Helm's record of the release: its values and its objects.
async fn record() -> Result<String> {
    Ok(helm("get values", "--output json").await? + &helm("get manifest", "").await?)
}

/// Returns the names of the objects of a kind that have the label.
async fn labelled(kind: &str) -> Result<String> {
    let selected = format!("--namespace shortener-system --selector {LABEL} --output name");
    command(&format!("kubectl get {kind} {selected}"), "").await
}

/// Waits until the operator has acted on an edit of the stack.
async fn works(stack: &Stack, replicas: i32) -> Result<()> {
    stack.edit(json!({"app": {"replicas": replicas}})).await?;
    let deployments = Api::<Deployment>::namespaced(stack.client.clone(), &stack.namespace);
    let limit = Duration::from_secs(90);
    await_within(limit, "the operator applies the edit", async || {
        let spec = deployments.get("kept-app").await?.spec;
        let now = spec.and_then(|spec| spec.replicas);
        ensure!(now == Some(replicas), "the app has {now:?} replicas");
        Ok(())
    })
    .await
    .map(|_| ())
}
