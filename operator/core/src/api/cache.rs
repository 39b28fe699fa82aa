//! The cache of a stack: a server that the operator runs, or an external one.

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{ClientTls, PodSettings, SecretKeyRef, rules::managed_or_external};

/// The cache for copies of links (profile `caching`). Without `managed` and `external`, `managed` applies with its
/// defaults.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"), validation = managed_or_external("cache"))]
#[serde(rename_all = "camelCase", default = "CacheSpec::default")]
pub struct CacheSpec {
    /// Lifetime of a copy in seconds, varied by up to a tenth.
    #[schemars(range(min = 1, max = 31_536_000))]
    pub ttl_seconds: i32,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub managed: Option<Box<ManagedCache>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub external: Option<Box<ExternalCache>>,
}

impl Default for CacheSpec {
    fn default() -> Self {
        Self {
            ttl_seconds: 3600,
            managed: None,
            external: None,
        }
    }
}

/// A cache server of one replica that the operator runs. It has no volume and keeps all data in memory.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ManagedCache {
    /// Memory for the copies, a quantity such as `128Mi` (the default). The least frequently used copies are evicted
    /// when it is full. The container's memory limit is derived from it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 32))]
    #[x_kube(validation = Rule::new("isQuantity(self) && quantity(self).compareTo(quantity('8Mi')) >= 0").message(
        "cache.managed.maxMemory is not a size of at least 8Mi: write a quantity such as 128Mi"
    ))]
    pub max_memory: Option<String>,
    /// Settings of the pod.
    #[serde(flatten)]
    pub pod: PodSettings,
}

/// A cache server or cluster that the operator does not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(validation = Rule::new("!has(self.sentinelMaster) || self.mode == 'Sentinel'").message(
    "cache.external.sentinelMaster is for cache.external.mode Sentinel: remove it or change the mode"
))]
#[serde(rename_all = "camelCase")]
pub struct ExternalCache {
    /// The Secret, in the stack's namespace, that holds the connection URL
    /// (`redis[s]://user:password@host:port/database`; several, separated by commas, for Sentinel and Cluster) or its
    /// parts.
    pub secret_ref: SecretKeyRef,
    /// TLS to the servers. If unset, the connection URL decides (`rediss`), and only public authorities are trusted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<ClientTls>,
    #[serde(default)]
    pub mode: CacheMode,
    /// Name of the master that the sentinels monitor (`Sentinel` only, defaults to `mymaster`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253))]
    pub sentinel_master: Option<String>,
}

/// Topology of the servers in the URL.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum CacheMode {
    /// One server.
    #[default]
    Single,
    /// Sentinels that report the address of the current master.
    Sentinel,
    /// Nodes of a cluster that partition the keys.
    Cluster,
}
