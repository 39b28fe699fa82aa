//! Keys of clients: what needs one, and how many requests each may send; and a proxy that signs people in.

mod proxy;

use std::collections::BTreeSet;

use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::SecretRef;

pub use proxy::{AuthProxySpec, GroupScopes, KeyScope};

/// Keys of clients. If unset, no request needs a key, and management is refused. The app checks the keys, so they hold
/// behind every gateway. A changed Secret takes effect without a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(validation = Rule::new("!has(self.protect) || size(self.protect) > 0").message(
    "gateway.auth.protect is empty: name at least one of shorten, jobs, docs and metrics, or remove gateway.auth"
))]
#[x_kube(validation = Rule::new("!has(self.proxy) || self.proxy.secretRef.name != self.secretRef.name").message(
    "gateway.auth.proxy.secretRef is the Secret with the keys of clients, each of which could then pass for the proxy: set another one"
))]
#[serde(rename_all = "camelCase")]
pub struct GatewayAuth {
    /// The Secret, in the stack's namespace, that holds the keys: an entry `<client>` with one key a line (32 to 256
    /// visible ASCII characters, or `sha256:` and 64 hexadecimal digits), and an entry `<client>.scopes` with words out
    /// of shorten, jobs, docs, metrics, links:own, links:all and admin. Without that entry, the client has all of them. Until
    /// the Secret exists, every request that needs a key is refused.
    pub secret_ref: SecretRef,
    /// Groups of requests that need a key; all of them by default. Management always needs one. Redirects never do.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 4))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub protect: Option<BTreeSet<Protected>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_limits: Option<KeyRateLimits>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub proxy: Option<AuthProxySpec>,
}

/// Groups of requests that can need a key.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(transform = crate::api::schema::with_values)]
#[serde(rename_all = "lowercase")]
pub enum Protected {
    /// Creating links.
    Shorten,
    /// Sending jobs, and asking what became of them.
    Jobs,
    /// Reading, writing and finding documents.
    Docs,
    /// Metrics by the gateway. The internal port always serves them.
    Metrics,
}

impl Protected {
    /// Every group.
    pub const ALL: [Self; 4] = [Self::Shorten, Self::Jobs, Self::Docs, Self::Metrics];

    /// Returns the value as the resource and the app spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Shorten => "shorten",
            Self::Jobs => "jobs",
            Self::Docs => "docs",
            Self::Metrics => "metrics",
        }
    }
}

/// Rate limits of each client with a key. Its requests do not count against its address. Each limit defaults to the one
/// in `spec.rateLimits`. 0 disables a limit.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeyRateLimits {
    /// Links that one client may create per minute.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub shorten_per_minute: Option<i32>,
    /// Burst: links that one client may create at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub shorten_burst: Option<i32>,
    /// Other requests per second from one client.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub requests_per_second: Option<i32>,
    /// Burst: other requests that one client may send at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 0, max = 1_000_000))]
    pub requests_burst: Option<i32>,
}
