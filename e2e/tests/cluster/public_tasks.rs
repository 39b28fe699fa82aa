//! Tasks that need a key, on a stack that names others as public: the app refuses them, and so do the workers.

use anyhow::{Context, Result, ensure};
use reqwest::Method;
use serde_json::json;
use shortener_e2e::{Broker, await_condition, publication, with_queue};

use crate::dead_letters::dlq;

#[tokio::test]
async fn a_task_that_is_not_public_is_refused_and_no_worker_sees_it() -> Result<()> {
    with_queue(async |shared| {
        for job in [
            r#"{"task":"purge_expired"}"#,
            r#"{"task":"email","t\u0061sk":"purge_expired"}"#,
        ] {
            let request = shared.gateway.request(Method::POST, "/api/jobs");
            let request = request.header("content-type", "application/json");
            let answer = shared.gateway.send(request.body(job)).await?;
            assert_eq!(answer.status, 403, "{answer:?}");
            ensure!(answer.body.contains("task-not-public"), "{answer:?}");
        }
        // A worker checks it as well: this job looks as if the settings had changed after it was accepted.
        let broker = Broker::open(&shared.stack).await?;
        let letters = "queues/%2f/jobs.dlq/contents";
        broker.ask(Method::DELETE, letters, None).await?;
        let id = "01920000-0000-7000-8000-00000000c0de";
        let mut message = publication("jobs", id, r#"{"task":"purge_expired"}"#);
        message["properties"]["headers"] = json!({"shortener-origin": "anonymous"});
        let path = "exchanges/%2f/amq.default/publish";
        broker.ask(Method::POST, path, Some(&message)).await?;
        let entry = shared.gateway.wait_for_job_status(id, "failed").await?;
        let why = entry["error"].as_str().unwrap_or_default();
        ensure!(why.contains("needs a key"), "{entry}");
        await_condition("the job is a dead letter", async || {
            let letter = broker.first("jobs.dlq").await?;
            let letter = letter.context("the queue jobs.dlq has no message")?;
            ensure!(letter["properties"]["message_id"] == id, "{letter}");
            Ok(())
        })
        .await?;
        // An administrator answers for the job.
        dlq(shared, "replay", &[id]).await?;
        let entry = shared.gateway.wait_for_job_status(id, "done").await?;
        assert_eq!(entry["attempts"], 2, "{entry}");
        Ok(())
    })
    .await
}
