//! Numbers of workers that follow the queue of a real broker.

use anyhow::{Result, ensure};
use serde_json::{Value, json};
use shortener_e2e::{Stack, await_condition, pods_of, settled, wait_job, with_queue};

#[tokio::test]
async fn the_first_job_starts_a_worker_and_idle_workers_are_removed_before_a_busy_one() -> Result<()>
{
    with_queue(async |shared| {
        let stack = &shared.stack;
        let autoscaling = json!({
            "minReplicas": 0, "maxReplicas": 3, "jobsPerWorker": 1, "stabilizationWindowSeconds": 0,
        });
        stack
            .edit(json!({"workers": {"autoscaling": autoscaling}}))
            .await?;
        // The number of pods alone may be that of a test before.
        await_condition("no worker is desired", async || {
            let desired = desired(stack).await?;
            ensure!(desired == 0, "{desired} workers are desired");
            Ok(())
        })
        .await?;
        workers_are(stack, 0).await?;
        // A worker that is being deleted may still take the job.
        settled(stack).await?;

        let long = shared.gateway.enqueue(&wait_job(60_000)).await?;
        await_condition("the first job has a worker", async || {
            let desired = desired(stack).await?;
            ensure!(desired == 1, "{desired} workers are desired");
            Ok(())
        })
        .await?;
        shared
            .gateway
            .wait_for_job_status(&long.id, "running")
            .await?;
        let worker = names(stack).await?;
        for _ in 0..2 {
            shared.gateway.enqueue(&wait_job(1000)).await?;
        }
        workers_are(stack, 3).await?;
        workers_are(stack, 1).await?;
        let left = names(stack).await?;
        // On a machine that needs a minute for all this, the job is done, and any worker may be left.
        let is_busy = shared
            .gateway
            .job(&long.id)
            .await?
            .is_some_and(|job| job["status"] == "running");
        ensure!(
            !is_busy || left == worker,
            "{left:?} are left of {worker:?}"
        );
        let entry = shared.gateway.wait_for_job_status(&long.id, "done").await?;
        assert_eq!(entry["attempts"], 1, "it was never given back");
        workers_are(stack, 0).await?;
        stack
            .edit(json!({"workers": {"autoscaling": Value::Null}}))
            .await
    })
    .await
}

async fn desired(stack: &Stack) -> Result<Value> {
    let workers = stack.get().await?.data["status"]["workers"].clone();
    Ok(workers["desiredReplicas"].clone())
}

/// Returns the names of the pods of the workers.
async fn names(stack: &Stack) -> Result<Vec<Option<String>>> {
    let pods = pods_of(stack, "worker").await?.into_iter();
    Ok(pods.map(|pod| pod.metadata.name).collect())
}

/// Waits until this many workers exist.
async fn workers_are(stack: &Stack, count: usize) -> Result<()> {
    await_condition(&format!("{count} workers exist"), async || {
        let pods = pods_of(stack, "worker").await?.len();
        ensure!(pods == count, "{pods} pods exist");
        Ok(())
    })
    .await
}
