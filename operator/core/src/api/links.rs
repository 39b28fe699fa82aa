//! Answers to visitors without a live link, the destinations that links may have, who may have ShortLinks, the clicks on
//! links, and who is told of changes.

use kube_core::Rule;
use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{AllowedNamespace, ClicksSpec, DestinationsSpec, WebhookSpec};

/// Answers to visitors without a live link, the query of a request, the destinations that links may have, who may have
/// ShortLinks, clicks, and webhooks.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct LinksSpec {
    /// Address to which `GET /` redirects, such as a home page. If unset, the answer is 404.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = is_address("links.rootTarget"))]
    pub root_target: Option<String>,
    /// Address to which a code redirects that was never given out. If unset, the answer is 404.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = is_address("links.unknownTarget"))]
    pub unknown_target: Option<String>,
    /// Address to which a link redirects that has expired. If unset, the answer is 410.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 2048))]
    #[x_kube(validation = is_address("links.expiredTarget"))]
    pub expired_target: Option<String>,
    /// Adds the query of a request to the destination of the link when true. A destination that would be longer than
    /// 8 KiB is answered with 414.
    #[serde(default)]
    pub forward_query: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub destinations: Option<DestinationsSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub clicks: Option<ClicksSpec>,
    /// Namespaces that may have ShortLinks of the stack, beside its own, whose ShortLinks may have every code.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 64))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub allowed_namespaces: Vec<AllowedNamespace>,
    /// Receivers of webhooks: services that the stack tells of links that are created, disabled, expired or deleted.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    #[x_kube(merge_strategy = ListMerge::Map(vec!["name".into()]))]
    pub webhooks: Vec<WebhookSpec>,
}

impl LinksSpec {
    /// Returns the targets with the names of their fields.
    pub fn targets(&self) -> [(&'static str, Option<&str>); 3] {
        [
            ("links.rootTarget", self.root_target.as_deref()),
            ("links.unknownTarget", self.unknown_target.as_deref()),
            ("links.expiredTarget", self.expired_target.as_deref()),
        ]
    }
}

/// Returns the rule that a target is an address without credentials, in characters that need no encoding in a header.
fn is_address(field: &str) -> Rule {
    Rule::new(
        "self.matches('^https?://[A-Za-z0-9]([-A-Za-z0-9.]*[A-Za-z0-9])?(:[0-9]{1,5})?([/?#][-A-Za-z0-9._~:/?#@!$&()*+,;=%]*)?$')",
    )
    .message(
        format!(
            "{field} is not an http(s) address: write http:// or https:// and a host, without credentials, and encode other characters than letters, digits and signs of addresses, such as https://www.example.com/404"
        )
        .as_str(),
    )
}
