//! Jobs that are delivered more than once: because the acknowledgement was lost (A6), or because they fail
//! each time (A7). The test of a worker that is killed during its job is in `queue`, that of jobs that can
//! never succeed in `dead_letters`.
//!
//! Specification: 3.2, 2.3.

use anyhow::{Context, Result, ensure};
use serde_json::json;
use shortener_e2e::{
    Broker, Provider, Space, await_condition, log_of_job, wait_job, with_env, with_queue,
};

/// Deliveries that `spec.queue.deliveryLimit` allows by default.
const DELIVERIES: usize = 5;

/// The state after a worker died between the effect and the acknowledgement: the ledger says that the job is done,
/// and the broker delivers it again.
#[tokio::test]
async fn a_job_that_is_done_and_comes_again_is_not_done_again() -> Result<()> {
    with_queue(async |shared| {
        let gateway = &shared.gateway;
        let job = gateway.enqueue(&wait_job(0)).await?;
        let entry = gateway.wait_for_job_status(&job.id, "done").await?;
        let broker = Broker::open(&shared.stack).await?;
        broker
            .publish("jobs", &job.id, &wait_job(0).to_string())
            .await?;
        // There is only one worker, so this job is processed after the redelivered one.
        let next = gateway.enqueue(&wait_job(0)).await?;
        gateway.wait_for_job_status(&next.id, "done").await?;
        assert_eq!(gateway.job(&job.id).await?, Some(entry));
        await_condition("the queue jobs is empty", async || {
            let left = broker.depth("jobs").await?;
            ensure!(left.total == 0, "{left:?}");
            Ok(())
        })
        .await
    })
    .await
}

#[tokio::test]
async fn a_job_that_takes_too_long_each_time_ends_as_a_dead_letter_and_holds_up_nobody()
-> Result<()> {
    Space::with("poison", async |space| {
        let patience = json!([{"name": "JOB_TIMEOUT_SECONDS", "value": "1"}]);
        let mut workers = with_env("worker", &patience);
        workers["replicas"] = json!(1);
        let changes = json!({"profiles": ["queue"], "workers": workers});
        let (stack, gateway) = space.serve(Provider::IngressNginx, changes).await?;
        let poison = gateway.enqueue(&wait_job(60_000)).await?;
        let good = gateway.enqueue(&wait_job(0)).await?;
        gateway.wait_for_job_status(&good.id, "done").await?;

        let broker = Broker::open(&stack).await?;
        await_condition("the job is a dead letter", async || {
            let letters = broker.depth("jobs.dlq").await?;
            ensure!(letters.total == 1, "{letters:?}");
            Ok(())
        })
        .await?;
        let entry = gateway.wait_for_job_status(&poison.id, "failed").await?;
        // The ledger may count more attempts: when the database interrupts one, the worker
        // repeats it within the same delivery.
        let deliveries = log_of_job(&stack, "job_start", &poison.id).await?;
        assert_eq!(deliveries.len(), DELIVERIES, "{entry}");
        let why = entry["error"].as_str().unwrap_or_default();
        ensure!(why.contains("took longer than 1 s"), "{entry}");
        let letter = broker.first("jobs.dlq").await?;
        let letter = letter.context("the queue jobs.dlq has no message")?;
        let properties = &letter["properties"];
        assert_eq!(properties["message_id"], poison.id, "{letter}");
        let reason = &properties["headers"]["x-death"][0]["reason"];
        assert_eq!(reason, "delivery_limit", "{letter}");
        let next = gateway.enqueue(&wait_job(0)).await?;
        gateway
            .wait_for_job_status(&next.id, "done")
            .await
            .map(|_| ())
    })
    .await
}
