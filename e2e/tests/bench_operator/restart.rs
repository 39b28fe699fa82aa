//! A restart of the operator, and its own metrics.

use std::time::Duration;

use anyhow::{Context, Result, ensure};
use kube::api::DeleteParams;
use shortener_e2e::{Operator, await_within};
use tokio::time::Instant;

/// The time for each part of a restart.
const RESTARTED: Duration = Duration::from_secs(10 * 60);

/// The times of a restart, each from the deletion of the pod.
pub(crate) struct Restart {
    /// Until another pod has the lease.
    pub(crate) led: Duration,
    /// Until the first reconcile has ended.
    pub(crate) first: Duration,
    /// Until every stack has been reconciled and no reconcile runs or waits.
    pub(crate) all: Duration,
}

/// Numbers of the operator's own metrics.
#[derive(Debug)]
pub(crate) struct Metrics {
    /// Reconciles that have succeeded.
    pub(crate) succeeded: u64,
    /// Reconciles that have failed.
    pub(crate) failed: u64,
    /// Reconciles that run or wait.
    under_way: u64,
    /// Stacks that have been reconciled since the start.
    stacks: usize,
}

/// Deletes the operator's pod and waits until its replacement has reconciled every stack.
pub(crate) async fn restart(operator: &Operator, stacks: usize) -> Result<Restart> {
    let old = operator.leader().await?;
    let begin = Instant::now();
    operator.pods.delete(&old, &DeleteParams::default()).await?;
    let (new, _) = await_within(RESTARTED, "another pod leads", async || {
        let leader = operator.leader().await?;
        ensure!(leader != old, "{old} still leads");
        Ok(leader)
    })
    .await?;
    let led = begin.elapsed();
    await_within(RESTARTED, "a reconcile has ended", async || {
        let metrics = metrics(operator, &new).await?;
        ensure!(metrics.succeeded + metrics.failed > 0, "{metrics:?}");
        Ok(())
    })
    .await?;
    let first = begin.elapsed();
    await_within(RESTARTED, "every stack has been reconciled", async || {
        let metrics = metrics(operator, &new).await?;
        let done = metrics.stacks >= stacks && metrics.under_way == 0;
        ensure!(done, "{metrics:?}");
        Ok(())
    })
    .await?;
    let all = begin.elapsed();
    Ok(Restart { led, first, all })
}

/// Reads the metrics of a pod of the operator.
pub(crate) async fn metrics(operator: &Operator, pod: &str) -> Result<Metrics> {
    let page = operator.metrics_of(pod).await?;
    let ended = |result: &str| {
        let series = format!("shortener_operator_reconciles_total{{result=\"{result}\"}} ");
        value(&page, &series)
    };
    let running = value(&page, "shortener_operator_reconciles_running ")?;
    let waiting = value(&page, "shortener_operator_reconciles_waiting ")?;
    let stacks = page.lines();
    let stacks = stacks.filter(|line| line.starts_with("shortener_operator_stack_ready{"));
    Ok(Metrics {
        succeeded: ended("ok")?,
        failed: ended("error")?,
        under_way: running + waiting,
        stacks: stacks.count(),
    })
}

/// Returns the value of a series; one that is not there yet counts as 0.
fn value(page: &str, series: &str) -> Result<u64> {
    let Some(value) = page.lines().find_map(|line| line.strip_prefix(series)) else {
        return Ok(0);
    };
    let number = value.parse::<f64>();
    Ok(number.with_context(|| format!("the value of {series} is no number: {value}"))? as u64)
}
