//! The desired state of a stack.

use std::collections::BTreeSet;

use k8s_openapi::api::core::v1::LocalObjectReference;
use kube_derive::{CustomResource, KubeSchema};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    AppAutoscaling, CacheSpec, ConsoleSpec, DatabaseSpec, DrillsSpec, GatewaySpec, LinksSpec,
    LogsSpec, MonitoringSpec, ObservabilitySpec, PodSettings, Profile, PurgeSpec, QueueSpec,
    ShortenerStackStatus, VectorSpec, WorkersAutoscaling, names,
    rules::{
        DATABASE, QUEUE, VECTOR, backend_keeps_its_class, backend_never_shrinks,
        backup_never_shrinks, comes_and_goes_in_a_pause, console_annotations_have_a_place,
        console_host_is_another, console_needs_keys, gets_its_cluster_with_the_links,
        keeps_its_members, keeps_its_operator, restores_into_an_empty_database,
        scales_by_its_own_queue, vector_keeps, vector_never_shrinks, while_vector_is_on,
    },
};

/// A complete link-shortening service: a gateway, the app behind it, its database and the parts that `profiles`
/// lists.
///
/// `spec: {}` is valid and gives the base stack.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource, KubeSchema)]
#[kube(
    crates(kube = "::kube_derive", kube_core = "::kube_core"),
    // The derived `ShortenerStack` derives its schema from there as well.
    attr = r#"x_kube(crates(kube_core = "::kube_core"))"#,
    group = "shortener.dev",
    version = "v1alpha1",
    kind = "ShortenerStack",
    plural = "shortenerstacks",
    shortname = "sst",
    namespaced,
    derive = "PartialEq",
    status = "ShortenerStackStatus",
    doc = "A link-shortening service: a gateway, the app behind it, its database, and what `spec.profiles` adds to them, such as a cache, a job queue, traces and a vector store. An empty spec is valid.",
    scale(
        spec_replicas_path = ".spec.workers.replicas",
        status_replicas_path = ".status.workers.replicas",
        label_selector_path = ".status.workers.selector"
    ),
    printcolumn(name = "Ready", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].status"#),
    printcolumn(name = "Reason", type_ = "string", json_path = r#".status.conditions[?(@.type=="Ready")].reason"#),
    printcolumn(name = "Profiles", type_ = "string", json_path = ".status.profilesSummary"),
    printcolumn(name = "Workers", type_ = "integer", json_path = ".status.workers.replicas"),
    printcolumn(name = "URL", type_ = "string", json_path = ".status.url"),
    printcolumn(name = "Age", type_ = "date", json_path = ".metadata.creationTimestamp"),
    printcolumn(name = "App", type_ = "integer", json_path = ".status.app.readyReplicas", priority = 1),
    printcolumn(name = "Jobs", type_ = "integer", json_path = ".status.queue.total", priority = 1),
    printcolumn(name = "Plan", type_ = "string", json_path = ".status.plan.summary", priority = 1),
    validation = Rule::new("self.metadata.name.matches('^[a-z]([-a-z0-9]{0,38}[a-z0-9])?$')").message(
        "metadata.name begins with a letter, holds lower case letters, digits and '-' only and has at most 40 characters: choose a shorter name without dots"
    ),
    validation = DATABASE.never_shrinks("keep the size, or restore a backup into a new stack"),
    validation = QUEUE.never_shrinks("keep the size, or drain the queue into a new stack"),
    validation = backend_never_shrinks("keep the size, or remove observability.backend.managed, delete the volume claim, and set it again"),
    validation = vector_never_shrinks("keep the size, or switch the profile off and delete the volume first"),
    validation = backup_never_shrinks("keep the size, or remove database.backup, delete the volume claim, and set it again")
)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = keeps_its_operator(),
    validation = restores_into_an_empty_database(),
    validation = gets_its_cluster_with_the_links(),
    validation = comes_and_goes_in_a_pause("queue.rabbitmqCluster", "the jobs do not move by themselves: set paused to true, then change it, then set paused to false"),
    validation = keeps_its_members(),
    validation = DATABASE.keeps_its_class("restore a backup into a new stack"),
    validation = QUEUE.keeps_its_class("drain the queue into a new stack"),
    validation = scales_by_its_own_queue(),
    validation = console_needs_keys(),
    validation = console_host_is_another(),
    validation = console_annotations_have_a_place(),
    validation = backend_keeps_its_class("remove observability.backend.managed, delete the volume claim, and set it again"),
    validation = vector_keeps("collection", "'docs'", "change the name"),
    validation = vector_keeps("size", "4", "change it together with vector.collection"),
    validation = vector_keeps("distance", "'Cosine'", "change it together with vector.collection"),
    validation = while_vector_is_on(VECTOR.keeps_its_class("switch the profile off and delete the volume first"))
)]
#[serde(rename_all = "camelCase")]
pub struct ShortenerStackSpec {
    /// Base URL of the short links, without a path. The default is `http(s)://<first of gateway.hosts>`, or
    /// `http://localhost:8080` without a host.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 512))]
    #[x_kube(validation = Rule::new(
        r"self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?/?$')"
    ).message("publicUrl is not an http(s) address: write http:// or https://, a host and at most a port, such as https://go.example.com"))]
    pub public_url: Option<String>,
    /// Optional parts that are on. The settings of a part that is off are kept and have no effect.
    #[serde(default, skip_serializing_if = "BTreeSet::is_empty")]
    #[schemars(length(max = 16))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub profiles: BTreeSet<Profile>,
    #[serde(default)]
    pub gateway: GatewaySpec,
    #[serde(default)]
    pub rate_limits: RateLimits,
    #[serde(default)]
    pub links: LinksSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub console: Option<ConsoleSpec>,
    #[serde(default)]
    pub app: AppSpec,
    #[serde(default)]
    pub workers: WorkersSpec,
    #[serde(default)]
    pub database: DatabaseSpec,
    #[serde(default)]
    pub cache: CacheSpec,
    #[serde(default)]
    pub queue: QueueSpec,
    #[serde(default)]
    pub vector: VectorSpec,
    #[serde(default)]
    pub observability: ObservabilitySpec,
    #[serde(default)]
    pub monitoring: MonitoringSpec,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub logs: Option<LogsSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drills: Option<DrillsSpec>,
    /// Secrets for pulling the images of every component.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "names::references")]
    pub image_pull_secrets: Vec<LocalObjectReference>,
    /// Class of the operator that reconciles the stack, where several operators run side by side. If unset, the operator
    /// without a class. Can change only while the stack is paused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = names::NAMESPACE))]
    pub operator_class: Option<String>,
    /// Pauses every change to the stack's objects when true. The operator continues to update the status.
    #[serde(default)]
    pub paused: bool,
    /// Scales every component to zero when true and keeps the data.
    #[serde(default)]
    pub stopped: bool,
    #[serde(default)]
    pub deletion_policy: DeletionPolicy,
    #[serde(default)]
    pub upgrade_policy: UpgradePolicy,
}

impl ShortenerStackSpec {
    /// Returns the host that the console has for itself, if it has one.
    pub fn console_host(&self) -> Option<&str> {
        let console = self.console.as_ref().filter(|console| console.enabled)?;
        console.host.as_deref()
    }

    /// Returns true if the stack allows drills.
    pub fn allows_drills(&self) -> bool {
        self.drills.as_ref().is_some_and(|drills| drills.enabled)
    }
}

/// Rate limits by client address. Each replica of the app counts by itself; with the profile `caching`, all replicas
/// also share one count. 0 disables a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct RateLimits {
    /// Links that one address may create per minute.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub shorten_per_minute: i32,
    /// Burst: links that one address may create at once.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub shorten_burst: i32,
    /// Other requests per second from one address.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub requests_per_second: i32,
    /// Burst: other requests that one address may send at once.
    #[schemars(range(min = 0, max = 1_000_000))]
    pub requests_burst: i32,
}

impl Default for RateLimits {
    fn default() -> Self {
        Self {
            shorten_per_minute: 60,
            shorten_burst: 20,
            requests_per_second: 50,
            requests_burst: 200,
        }
    }
}

/// The app that shortens and redirects.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct AppSpec {
    /// Number of pods.
    #[schemars(range(min = 1, max = 1000))]
    pub replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<AppAutoscaling>,
    /// Settings of the pods.
    #[serde(flatten)]
    pub pod: PodSettings,
}

impl Default for AppSpec {
    fn default() -> Self {
        Self {
            replicas: 2,
            autoscaling: None,
            pod: PodSettings::default(),
        }
    }
}

/// The workers of the job queue (profile `queue`), and the purge of expired data, which needs no profile.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase", default)]
pub struct WorkersSpec {
    /// Number of pods, also changed by `kubectl scale`. It has no effect beside `autoscaling`.
    #[schemars(range(min = 0, max = 1000))]
    pub replicas: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub autoscaling: Option<WorkersAutoscaling>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub purge: Option<PurgeSpec>,
    /// Settings of the pods.
    #[serde(flatten)]
    pub pod: PodSettings,
}

impl Default for WorkersSpec {
    fn default() -> Self {
        Self {
            replicas: 1,
            autoscaling: None,
            purge: None,
            pod: PodSettings::default(),
        }
    }
}

/// Policy for volumes and credentials when the stack is deleted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum DeletionPolicy {
    /// They are kept, and a new stack of the same name uses them again.
    #[default]
    Retain,
    /// They are deleted with the stack.
    Delete,
}

/// Policy for pods that a new release of the operator, or other default images, would restart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum UpgradePolicy {
    /// They restart as soon as that operator runs.
    #[default]
    Automatic,
    /// They run on until the spec changes, other than in `workers.replicas`, or the annotation `shortener.dev/release`
    /// of the stack gets another value. `status.pendingChanges` lists what waits.
    OnSpecChange,
}
