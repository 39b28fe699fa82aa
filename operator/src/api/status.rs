//! What the operator reports of a stack.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The observed state of a stack, written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
// Until the operator has seen a stack, `kubectl` and GitOps tools read a generation that no stack has, and wait.
#[schemars(extend("default" = {"observedGeneration": -1}))]
#[serde(rename_all = "camelCase")]
pub struct ShortenerStackStatus {
    /// The `metadata.generation` that this status speaks of; -1 while the operator has not seen the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// The state in sentences, one entry per condition type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Base of the short links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// The optional parts that the stack's objects were last written for.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// Pods of the app.
    #[serde(default)]
    pub app: AppStatus,
    /// Pods of the workers, for the scale subresource.
    #[serde(default)]
    pub workers: WorkersStatus,
    /// The queue of the jobs; absent without a queue, and while nothing is known of it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueStatus>,
}

/// What the queue of the jobs held when it was last looked at, at most every 30 s.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Jobs that wait for a worker.
    #[serde(default)]
    pub ready: i64,
    /// Jobs that a worker has and has not acknowledged.
    #[serde(default)]
    pub unacked: i64,
    /// All of them.
    #[serde(default)]
    pub total: i64,
}

/// Pods of the app.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppStatus {
    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Pods that take requests.
    #[serde(default)]
    pub ready_replicas: i32,
}

/// Pods of the workers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkersStatus {
    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Label selector of the pods in its string form.
    #[serde(default)]
    pub selector: String,
}
