//! A namespace that is deleted with its stacks (F11): nothing of the operator's holds it up, and the operator is done with
//! the stacks.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Namespace;
use kube::{Api, ResourceExt, api::DeleteParams};
use serde_json::json;
use shortener_e2e::{
    Operator, Provider, Space, Stack, await_condition, await_within, children_of, holds_for, merge,
    stopped_with_every_profile,
};

use crate::undisturbed;

/// The time limit for the namespace. Its pods take up to 75 s to end.
const GONE: Duration = Duration::from_secs(300);
/// A time in which a reconcile that is tried again and again would fail.
const WATCHED: Duration = Duration::from_secs(10);

#[tokio::test]
async fn a_namespace_goes_with_its_stacks_and_the_operator_is_done_with_them() -> Result<()> {
    // Of the counters of the operator, none is about one namespace alone.
    let _alone = undisturbed().await?;
    Space::with("going", async |space| {
        let (served, _gateway) = space.serve(Provider::Standalone, json!({})).await?;
        let full = space.stack("full");
        let mut spec = stopped_with_every_profile(space);
        let host = format!("full.{}", space.host());
        merge(&mut spec, json!({"gateway": {"hosts": [host]}}));
        full.apply_undrained(&spec).await?;
        full.until("Ready", "False").await?;
        for stack in [&served, &full] {
            has_no_finalizer(stack).await?;
        }
        let namespaces = Api::<Namespace>::all(space.client.clone());
        namespaces
            .delete(&space.name, &DeleteParams::background())
            .await?;
        let ((), time) = await_within(GONE, "the namespace is gone", async || {
            let left = namespaces.get_opt(&space.name).await?;
            let left = left.map(|left| left.status);
            ensure!(left.is_none(), "its status is {left:?}");
            Ok(())
        })
        .await?;
        println!("the namespace was gone after {} s", time.as_secs());
        the_operator_is_done_with(space).await
    })
    .await
}

/// Checks that the operator adds no finalizer: only those of Kubernetes hold up objects.
async fn has_no_finalizer(stack: &Stack) -> Result<()> {
    let live = stack.get().await?;
    let children = children_of(stack).await?;
    ensure!(children.len() > 15, "only {} children", children.len());
    let seen = children.iter().map(|child| &child.seen);
    for object in seen.chain([&live]) {
        let mut finalizers = object.finalizers().iter();
        let ours = finalizers.find(|finalizer| !finalizer.starts_with("kubernetes.io/"));
        ensure!(ours.is_none(), "{} has {ours:?}", object.name_any());
    }
    Ok(())
}

async fn the_operator_is_done_with(space: &Space) -> Result<()> {
    let operator = Operator::find(&space.client).await?;
    let leader = operator.leader().await?;
    let failed = await_condition("the operator has forgotten the stacks", async || {
        let page = operator.metrics_of(&leader).await?;
        let series = page.lines().find(|line| line.contains(&space.name));
        ensure!(series.is_none(), "it still exports {series:?}");
        let under_way = sum(&page, "shortener_operator_reconciles_running")?
            + sum(&page, "shortener_operator_reconciles_waiting")?;
        ensure!(under_way == 0, "{under_way} reconciles run or wait");
        failures(&page)
    })
    .await?;
    holds_for(WATCHED, "no reconcile fails any more", async || {
        let now = failures(&operator.metrics_of(&leader).await?)?;
        ensure!(now == failed, "{} have failed", now - failed);
        Ok(())
    })
    .await
}

fn failures(page: &str) -> Result<u64> {
    sum(page, "shortener_operator_reconcile_errors_total")
}

/// Returns the sum of the series of a metric; 0 without any.
fn sum(page: &str, metric: &str) -> Result<u64> {
    let series = page.lines().filter(|line| {
        let rest = line.strip_prefix(metric);
        rest.is_some_and(|rest| rest.starts_with(['{', ' ']))
    });
    let values = series.map(|line| {
        let value = line.rsplit(' ').next().unwrap_or_default().parse::<f64>();
        let value = value.map(|value| value as u64);
        value.with_context(|| format!("the value is no number: {line}"))
    });
    values.sum()
}
