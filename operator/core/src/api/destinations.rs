//! The hosts to which links may lead.

use std::collections::BTreeSet;

use kube_core::Rule;
use kube_derive::KubeSchema;
use schemars::{Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// Hosts that new links may point to; every host if unset. A pattern is a host such as `example.com`, or
/// `*.example.com` for all names below it. Existing links do not change. No link may point to the stack itself.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct DestinationsSpec {
    /// Hosts to which links may lead; every host if unset or empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "patterns")]
    #[x_kube(validation = are_hosts("links.destinations.allowHosts"))]
    pub allow_hosts: Option<BTreeSet<String>>,
    /// Hosts to which links do not lead, also if they are allowed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "patterns")]
    #[x_kube(validation = are_hosts("links.destinations.denyHosts"))]
    pub deny_hosts: Option<BTreeSet<String>>,
    /// Refuses links to private addresses (loopback, link-local, those of private networks) and to names such as
    /// `localhost` and `app.links.svc` when true. Other names are not resolved.
    #[serde(default)]
    pub deny_private_addresses: bool,
}

/// Returns the schema of a set of patterns.
fn patterns(_: &mut SchemaGenerator) -> Schema {
    json_schema!({
        "type": "array",
        "maxItems": 128,
        "x-kubernetes-list-type": "set",
        "items": {"type": "string", "maxLength": 253},
    })
}

/// Returns the rule that each entry of a field is a pattern.
fn are_hosts(field: &str) -> Rule {
    Rule::new(
        "self.all(host, host.matches('^([*][.])?[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))",
    )
    .message(
        format!(
            "{field} has an entry that is no host: write a host in lower case and in ASCII without a port, such as example.com, or *.example.com for all names below it"
        )
        .as_str(),
    )
}
