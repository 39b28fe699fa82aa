//! The observed state of a stack.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, Time};
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The observed state of a stack, written by the operator only.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
// Until the operator has seen a stack, `kubectl` and GitOps tools read a generation that no stack has, and wait.
#[schemars(extend("default" = {"observedGeneration": -1}))]
#[serde(rename_all = "camelCase")]
pub struct ShortenerStackStatus {
    /// The `metadata.generation` that this status describes; -1 until the operator has seen the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
    /// Conditions of the stack, one entry per type.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["type".into()]))]
    pub conditions: Vec<Condition>,
    /// Base URL of the short links.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Optional parts for which the operator last wrote the stack's objects.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub profiles: Vec<String>,
    /// `profiles` as text, for the column of `kubectl get`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub profiles_summary: String,
    /// Fields of the spec that are set and have no effect, because their profile is off.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ignored_settings: Vec<String>,
    #[serde(default)]
    pub app: AppStatus,
    #[serde(default)]
    pub workers: WorkersStatus,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub queue: Option<QueueStatus>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub plan: Option<Box<PlanStatus>>,
    /// Changes of pods that `upgradePolicy: OnSpecChange` holds back, one entry per workload.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub pending_changes: Vec<PendingChange>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub volumes: Option<VolumesStatus>,
    /// The last backups of the database, the newest first: five, and the last of each result of a verification.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub backups: Vec<BackupStatus>,
}

/// A backup of the database.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct BackupStatus {
    /// Name of the backup: the time in UTC at which it began.
    #[serde(default)]
    pub name: String,
    /// Time at which it was complete.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub completed_at: Option<Time>,
    /// Size of the dump in bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bytes: Option<i64>,
    /// Time of its last verification.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub verified_at: Option<Time>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub result: Option<BackupResult>,
    /// Why the last verification failed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
}

/// Result of the last verification of a backup; unset before the first one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum BackupResult {
    /// It was restored, and every table was as it had been.
    Verified,
    /// It could not be restored, or differed from what its manifest says.
    Failed,
}

/// Sizes of the existing volumes; unset if there are none. A growth that was refused or failed has not changed them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct VolumesStatus {
    /// Volume of the database.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub database: Option<String>,
    /// Volume of the broker.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub queue: Option<String>,
    /// Volume of the vector store.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub vector: Option<String>,
    /// Volume of the backend of traces, logs and metrics.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub backend: Option<String>,
    /// Volume of the backups.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 32))]
    pub backup: Option<String>,
}

/// Changes that the operator would make, present only with the annotation `shortener.dev/plan-only`. Objects are given
/// as kind and name.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PlanStatus {
    /// Number of objects to create, to change and to delete, of workloads that restart and of risks.
    #[serde(default)]
    pub summary: String,
    /// Objects to create.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub created: Vec<String>,
    /// Objects to change.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changed: Vec<String>,
    /// Objects to delete.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub deleted: Vec<String>,
    /// Objects of others that are in the way.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocked: Vec<String>,
    /// Workloads whose pods restart or end.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub restarts: Vec<String>,
    /// Data at risk: reason, object and what happens.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub risks: Vec<String>,
}

/// A change of a workload's pods that waits.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PendingChange {
    /// Kind and name of the workload, as in `Deployment/demo-app`.
    #[serde(default)]
    pub workload: String,
    /// Fields of the pod template that would change, and the entries of the ConfigMap that the pods mount.
    #[serde(default)]
    pub fields: Vec<String>,
}

/// Size of the job queue, updated at most every 30 s. Unset without a managed broker, and while the size is unknown.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct QueueStatus {
    /// Jobs that wait for a worker.
    #[serde(default)]
    pub ready: i64,
    /// Jobs that were delivered to a worker and are not acknowledged yet.
    #[serde(default)]
    pub unacked: i64,
    /// Sum of both.
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
    /// Pods that are ready to serve requests.
    #[serde(default)]
    pub ready_replicas: i32,
}

/// Pods of the workers, for the scale subresource.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct WorkersStatus {
    /// Pods that exist.
    #[serde(default)]
    pub replicas: i32,
    /// Label selector of the pods in its string form.
    #[serde(default)]
    pub selector: String,
    /// Pods that `workers.autoscaling` has decided on; unset without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub desired_replicas: Option<i32>,
}
