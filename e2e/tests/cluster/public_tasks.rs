//! Tasks that need a key, on a stack that names others as public: the app alone decides it.

use anyhow::{Result, ensure};
use reqwest::Method;
use serde_json::{Value, json};
use shortener_e2e::{await_condition, uids_of, with_queue};

const WORKERS: [&str; 1] = ["worker"];

#[tokio::test]
async fn a_task_that_is_not_public_is_refused() -> Result<()> {
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
        Ok(())
    })
    .await
}

#[tokio::test]
async fn an_accepted_job_is_done_while_the_list_changes() -> Result<()> {
    with_queue(async |shared| {
        let (stack, gateway) = (&shared.stack, &shared.gateway);
        let workers = uids_of(stack, &WORKERS).await?;
        let job = json!({"task": "purge_expired"});
        let public = |tasks: Value| json!({"queue": {"publicTasks": tasks}});
        stack.edit(public(json!(["purge_expired"]))).await?;
        let mut accepted = Vec::new();
        while accepted.len() < 20 {
            // A pod that ends may still refuse.
            let job = await_condition("the app accepts the task", async || {
                gateway.enqueue(&job).await
            });
            accepted.push(job.await?);
        }
        stack.edit(public(Value::Null)).await?;
        for job in accepted {
            gateway.wait_for_job_status(&job.id, "done").await?;
        }
        stack.ready().await?;
        let now = uids_of(stack, &WORKERS).await?;
        assert_eq!(now, workers, "the workers restarted");
        Ok(())
    })
    .await
}
