//! A proxy that signs people in, such as oauth2-proxy: how it names them, and what they may do.

use std::collections::BTreeSet;

use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::SecretRef;

/// A proxy before the gateway that signs people in and names them in headers. They count only in requests that come from a
/// trusted peer and have the secret of the proxy in the header `X-Auth-Proxy-Secret`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(validation = Rule::new("self.userHeader.lowerAscii() != self.groupsHeader.lowerAscii()").message(
    "gateway.auth.proxy.groupsHeader is the same as userHeader: name the header that has the groups"
))]
#[serde(rename_all = "camelCase")]
pub struct AuthProxySpec {
    /// Header with the name of the person: 1 to 128 visible ASCII characters without a comma. Links and the audit log name
    /// the person as `user/<name>`.
    #[serde(default = "default_user_header")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = is_free_header("userHeader"))]
    pub user_header: String,
    /// Header with the groups of the person, between commas.
    #[serde(default = "default_groups_header")]
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(validation = is_free_header("groupsHeader"))]
    pub groups_header: String,
    /// The Secret, in the stack's namespace, whose entry `secret` holds what the proxy sends in `X-Auth-Proxy-Secret`: 32 to
    /// 256 visible ASCII characters. While the value is replaced, the entry has two, one a line.
    pub secret_ref: SecretRef,
    /// Addresses of the peers from which such requests come, as CIDRs: of the ingress controller (`IngressNginx`), the proxy
    /// itself (`Standalone`), or the data plane of the Gateway (`GatewayAPI`).
    #[schemars(length(min = 1, max = 16), inner(length(max = 64)))]
    #[x_kube(validation = Rule::new("self.all(peer, isCIDR(peer))").message(
        "gateway.auth.proxy.trustedPeers has an entry that is no CIDR: write a network such as 10.0.0.0/8, or one address as 10.1.2.3/32"
    ))]
    pub trusted_peers: Vec<String>,
    /// What the people of each group may do. Who is in no group of the list may do nothing.
    #[schemars(length(min = 1, max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["group".into()]))]
    pub scopes: Vec<GroupScopes>,
}

/// The scopes of a group.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct GroupScopes {
    /// Name of the group as the proxy sends it; `*` stands for everybody who is signed in.
    #[schemars(length(min = 1, max = 128))]
    #[x_kube(validation = Rule::new("self == self.trim() && !self.contains(',')").message(
        "gateway.auth.proxy.scopes[].group has a comma, or a space at an end: commas separate groups in the header"
    ))]
    pub group: String,
    /// The scopes, as keys have them.
    #[schemars(length(min = 1, max = 7))]
    #[x_kube(merge_strategy = ListMerge::Set)]
    pub scopes: BTreeSet<KeyScope>,
}

/// What a key or a group gives.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum KeyScope {
    /// Creating links.
    #[serde(rename = "shorten")]
    Shorten,
    /// Jobs.
    #[serde(rename = "jobs")]
    Jobs,
    /// Documents.
    #[serde(rename = "docs")]
    Docs,
    /// Metrics by the gateway.
    #[serde(rename = "metrics")]
    Metrics,
    /// Management of the links that the client created.
    #[serde(rename = "links:own")]
    LinksOwn,
    /// Management of all links.
    #[serde(rename = "links:all")]
    LinksAll,
    /// Management.
    #[serde(rename = "admin")]
    Admin,
}

fn default_user_header() -> String {
    "X-Auth-Request-User".to_owned()
}

fn default_groups_header() -> String {
    "X-Auth-Request-Groups".to_owned()
}

/// Returns the rule that a field is the name of a header that nothing else uses.
fn is_free_header(field: &str) -> Rule {
    Rule::new(
        "self.matches('^[A-Za-z][A-Za-z0-9-]*$') && !self.lowerAscii().matches('^(accept|content|sec|access-control|if|proxy)-.*$|^(accept|authorization|connection|cookie|expect|forwarded|host|idempotency-key|origin|referer|te|traceparent|tracestate|trailer|transfer-encoding|upgrade|user-agent|via|x-api-key|x-auth-proxy-secret|x-forwarded-(for|host|port|proto)|x-real-ip)$')",
    )
    .message(
        format!(
            "gateway.auth.proxy.{field} is no header of a proxy: write letters, digits and '-', such as X-Auth-Request-User, and no header that has another meaning"
        )
        .as_str(),
    )
}
