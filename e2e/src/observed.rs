//! The stack of the telemetry tests, and their common helpers.

use anyhow::{Result, ensure};
use k8s_openapi::api::core::v1::Pod;
use kube::{
    Api, ResourceExt,
    api::{ListParams, LogParams},
};
use reqwest::Method;
use serde_json::Value;

use crate::{
    Answer, Caller, GatewayClient, SharedStack, Sink, Stack, await_condition, observed_stack,
};

/// The stack with every profile, reserved for one test, and the sink that its collector exports to.
pub struct Observed {
    /// The stack.
    pub shared: SharedStack,
    /// The sink.
    pub sink: Sink,
}

/// Runs a test on the stack with every profile, which is reserved for it meanwhile.
pub async fn with_telemetry(test: impl AsyncFnOnce(Observed) -> Result<()>) -> Result<()> {
    let (shared, _reservation) = observed_stack().await?;
    let space = shared.space.clone();
    space
        .check(async |space| {
            let sink = Sink::start(space).await?;
            test(Observed { shared, sink }).await
        })
        .await
}

impl GatewayClient {
    /// Sends a `GET` request with the `traceparent` of a caller.
    pub async fn get_traced(&self, path: &str, caller: &Caller) -> Result<Answer> {
        let request = self.request(Method::GET, path);
        let header = caller.traceparent();
        self.send(request.header("traceparent", header)).await
    }
}

/// Waits until every pod of a stack has the newest template, and the older pods are gone.
pub async fn settled(stack: &Stack) -> Result<()> {
    stack.ready().await?;
    stack.until("Progressing", "False").await?;
    let pods = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let selected =
        ListParams::default().labels(&format!("app.kubernetes.io/instance={}", stack.name));
    await_condition("no pod is being deleted", async || {
        for pod in pods.list(&selected).await? {
            let ends = pod.metadata.deletion_timestamp.is_some();
            ensure!(!ends, "pod {} is being deleted", pod.name_any());
        }
        Ok(())
    })
    .await
}

/// Returns the log of a component's pods, one entry per line; a line that is not JSON becomes a string.
pub async fn log_lines(stack: &Stack, component: &str, since: &LogParams) -> Result<Vec<Value>> {
    let api = Api::<Pod>::namespaced(stack.client.clone(), &stack.namespace);
    let parameters = LogParams {
        container: Some(component.to_owned()),
        ..since.clone()
    };
    let mut lines = Vec::new();
    for pod in crate::pods_of(stack, component).await? {
        let log = api.logs(&pod.name_any(), &parameters).await?;
        let read = |line| serde_json::from_str(line).unwrap_or_else(|_| Value::from(line));
        lines.extend(log.lines().map(read));
    }
    Ok(lines)
}
