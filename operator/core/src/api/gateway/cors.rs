//! Scripts of other origins.

use std::collections::BTreeSet;

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

/// Origins whose scripts may create links, send jobs and use documents from a browser (CORS). If unset, browsers allow
/// none. Scripts need a key where other clients do. Management and metrics are never open to them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct GatewayCors {
    /// Origins as browsers write them, such as `https://app.example.com`, in lower case and without a default port; `*`
    /// stands for every origin.
    #[schemars(length(min = 1, max = 16), inner(length(max = 300)))]
    #[x_kube(
        merge_strategy = ListMerge::Set,
        validation = Rule::new(
            "self.all(origin, origin == '*' || origin.matches('^https?://[a-z0-9]([-a-z0-9.]*[a-z0-9])?(:[0-9]{1,5})?$'))"
        ).message(
            "gateway.cors.allowOrigins has an entry that is no origin: write '*', or http:// or https://, a host in lower case and at most a port, such as https://app.example.com"
        ),
        validation = Rule::new(
            "self.all(origin, !(origin.startsWith('https://') && origin.endsWith(':443')) && !(origin.startsWith('http://') && origin.endsWith(':80')))"
        ).message(
            "gateway.cors.allowOrigins has an origin with the default port, which browsers leave out: remove the port"
        )
    )]
    pub allow_origins: BTreeSet<String>,
}
