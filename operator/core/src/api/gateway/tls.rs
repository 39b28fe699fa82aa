//! TLS of the public entry point.

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::{defaults::number, names};

/// TLS of the hosts. If unset, the stack serves HTTP only. A renewed certificate takes effect without a restart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("self.redirect || !has(self.hsts)").message(
        "gateway.tls.hsts needs gateway.tls.redirect: remove redirect: false, because browsers would never use HTTP again"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct GatewayTls {
    /// Secret of type `kubernetes.io/tls`, in the stack's namespace, with the certificate of `gateway.hosts`. With
    /// `GatewayAPI`, the listener of the Gateway names it too.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub secret_name: String,
    /// Answers requests by HTTP with a redirect to HTTPS (308) when true, except `/gateway-health`. When false, both
    /// are served.
    #[serde(default = "default_redirect")]
    pub redirect: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hsts: Option<Hsts>,
}

/// Header `Strict-Transport-Security` (RFC 6797), which makes browsers use HTTPS only (`Standalone` and `GatewayAPI`
/// only). If unset, responses have no such header.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(
    crates(kube_core = "::kube_core"),
    validation = Rule::new("!self.preload || (self.includeSubDomains && self.maxAgeSeconds >= 31536000)").message(
        "gateway.tls.hsts.preload needs includeSubDomains and a maxAgeSeconds of at least 31536000: set both, as the preload lists of browsers require"
    )
)]
#[serde(rename_all = "camelCase")]
pub struct Hsts {
    /// Time for which browsers remember to use HTTPS only. 0 makes them forget it.
    #[serde(default = "number::<31_536_000>")]
    #[schemars(range(min = 0, max = 63_072_000))]
    pub max_age_seconds: i32,
    /// Applies to every subdomain of the host as well when true.
    #[serde(default)]
    pub include_sub_domains: bool,
    /// Allows browsers to ship the host in their preload lists when true.
    #[serde(default)]
    pub preload: bool,
}

fn default_redirect() -> bool {
    true
}
