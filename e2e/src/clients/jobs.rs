//! Background jobs: enqueueing through the gateway, their ledger entries, and the workers' log lines about them.

use anyhow::{Context, Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, ResourceExt, api::LogParams};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    clients::{Answer, GatewayClient},
    harness::{Stack, await_condition, pods_of},
};

/// An accepted job.
#[derive(Clone, Debug)]
pub struct Job {
    pub id: String,
    /// The trace of the request that enqueued it.
    pub trace_id: String,
}

impl Job {
    /// Reads the answer to an accepted request.
    pub fn accepted(answer: &Answer) -> Result<Self> {
        ensure!(answer.status == 202, "expected status 202, got {answer:?}");
        let body = answer.json()?;
        ensure!(body["status"] == "enqueued", "not enqueued: {answer:?}");
        let text = |field: &str| {
            let value = body[field].as_str().map(str::to_owned);
            value.with_context(|| format!("the answer has no {field}: {answer:?}"))
        };
        Ok(Self {
            id: text("id")?,
            trace_id: text("trace_id")?,
        })
    }
}

/// Returns a job that keeps its worker busy for `ms` milliseconds. Only a stack that names the task takes it without a
/// key.
pub fn wait_job(ms: u32) -> Value {
    json!({"task": "wait", "id": 1, "ms": ms})
}

impl GatewayClient {
    pub async fn enqueue(&self, job: &Value) -> Result<Job> {
        Job::accepted(&self.post("/api/jobs", job).await?)
    }

    /// Returns the state of a job; `None` if the app neither gave the id out nor has an entry of a worker.
    pub async fn job(&self, id: &str) -> Result<Option<Value>> {
        let answer = self
            .send(self.request(Method::GET, &format!("/jobs/{id}")))
            .await?;
        match answer.status {
            404 => Ok(None),
            200 => answer.json().map(Some),
            _ => anyhow::bail!("expected status 200 or 404, got {answer:?}"),
        }
    }

    /// Waits until a job has `status`, and returns its state.
    pub async fn wait_for_job_status(&self, id: &str, status: &str) -> Result<Value> {
        await_condition(&format!("job {id} is {status}"), async || {
            let entry = self.job(id).await?;
            let entry = entry.context("the app does not know the job")?;
            ensure!(entry["status"] == status, "{entry}");
            Ok(entry)
        })
        .await
    }
}

/// Returns the log lines of an event about a job, from all workers of a stack.
pub async fn log_of_job(stack: &Stack, event: &str, id: &str) -> Result<Vec<Value>> {
    let api = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let mut found = Vec::new();
    for pod in pods_of(stack, "worker").await? {
        let parameters = LogParams {
            container: Some("worker".to_owned()),
            ..LogParams::default()
        };
        // A starting pod has no log yet.
        let log = api
            .logs(&pod.name_any(), &parameters)
            .await
            .unwrap_or_default();
        let lines = log
            .lines()
            .filter_map(|line| serde_json::from_str::<Value>(line).ok());
        found.extend(lines.filter(|line| line["body"] == event && line["job.id"] == id));
    }
    Ok(found)
}
