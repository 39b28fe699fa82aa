//! A counter of the operator's requests at the API server.
//!
//! The API server has no metric per client, but it has one per FlowSchema. So the operator's service account gets
//! FlowSchemas of its own: one for leases, and one each for writes, lists and other reads of everything else.

use anyhow::{Context, Result};
use k8s_openapi::api::flowcontrol::v1::FlowSchema;
use kube::{
    Api, Client,
    api::{Patch, PatchParams},
};
use serde_json::{Value, json};

use crate::harness::{OPERATOR_NAMESPACE, Operator, await_condition};

const LEASES: &str = "e2e-operator-leases";
const WRITES: &str = "e2e-operator-writes";
const LISTS: &str = "e2e-operator-lists";
const READS: &str = "e2e-operator-reads";

/// A counter of requests. The FlowSchemas stay installed.
pub struct Meter {
    client: Client,
}

/// Request counts since the start of the API server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Requests for leases.
    pub leases: u64,
    /// Requests that create, change or delete anything else.
    pub writes: u64,
    /// Lists of anything else.
    pub lists: u64,
    /// Gets and watches of anything else.
    pub reads: u64,
}

impl Meter {
    /// Installs the FlowSchemas and waits until the API server counts by them.
    pub async fn install(client: &Client, operator: &Operator) -> Result<Self> {
        let writing = ["create", "update", "patch", "delete", "deletecollection"];
        // The first match counts, so leases come before everything else.
        for (name, precedence, rule) in [
            (LEASES, 501, rule(&["*"], "coordination.k8s.io", "leases")),
            (WRITES, 502, rule(&writing, "*", "*")),
            (LISTS, 503, rule(&["list"], "*", "*")),
            (READS, 504, rule(&["get", "watch"], "*", "*")),
        ] {
            let schema = flow_schema(name, precedence, &operator.service_account, &rule);
            Api::<FlowSchema>::all(client.clone())
                .patch(
                    name,
                    &PatchParams::apply("e2e").force(),
                    &Patch::Apply(schema),
                )
                .await?;
        }
        let meter = Self {
            client: client.clone(),
        };
        let start = meter.read().await?.leases;
        await_condition(
            "the API server counts the operator's requests",
            async || {
                let now = meter.read().await?.leases;
                anyhow::ensure!(now > start, "still {now} lease requests");
                Ok(())
            },
        )
        .await?;
        Ok(meter)
    }

    pub async fn read(&self) -> Result<Reading> {
        let request = http::Request::get("/metrics").body(Vec::new())?;
        let metrics = self.client.request_text(request).await?;
        Ok(Reading {
            leases: dispatched(&metrics, LEASES)?,
            writes: dispatched(&metrics, WRITES)?,
            lists: dispatched(&metrics, LISTS)?,
            reads: dispatched(&metrics, READS)?,
        })
    }
}

fn rule(verbs: &[&str], group: &str, resource: &str) -> Value {
    json!({
        "verbs": verbs, "apiGroups": [group], "resources": [resource],
        "namespaces": ["*"], "clusterScope": true,
    })
}

fn flow_schema(name: &str, precedence: i32, account: &str, rule: &Value) -> Value {
    json!({
        "apiVersion": "flowcontrol.apiserver.k8s.io/v1", "kind": "FlowSchema",
        "metadata": {"name": name},
        "spec": {
            "matchingPrecedence": precedence,
            // The priority level of service accounts by default, so that measuring changes nothing.
            "priorityLevelConfiguration": {"name": "workload-low"},
            "distinguisherMethod": {"type": "ByUser"},
            "rules": [{
                "subjects": [{
                    "kind": "ServiceAccount",
                    "serviceAccount": {"name": account, "namespace": OPERATOR_NAMESPACE},
                }],
                "resourceRules": [rule],
            }],
        },
    })
}

/// Returns the sum of a FlowSchema's dispatched requests; a series without a sample counts as 0.
fn dispatched(metrics: &str, flow_schema: &str) -> Result<u64> {
    let label = format!("flow_schema=\"{flow_schema}\"");
    let mut sum = 0;
    for line in metrics.lines() {
        if line.starts_with("apiserver_flowcontrol_dispatched_requests_total{")
            && line.contains(&label)
        {
            let value = line
                .rsplit(' ')
                .next()
                .context("a sample of the metrics has no value")?;
            sum += value
                .parse::<f64>()
                .with_context(|| format!("the value of a sample is not a number: {line}"))?
                as u64;
        }
    }
    Ok(sum)
}
