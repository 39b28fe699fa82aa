//! The console of a stack.

use std::collections::BTreeMap;

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use super::annotations;

/// The console: pages at `/console` for links, jobs and the state of the service. They need a key with a scope of management,
/// or a person whom a proxy has signed in.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ConsoleSpec {
    /// Serves the console when true. It needs `gateway.auth`.
    #[serde(default)]
    pub enabled: bool,
    /// Host name on which alone the console is served, and nothing else. If unset, the console is on every host of the
    /// links. A certificate of `gateway.tls` has to be for this host, too.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(
        r"self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')"
    ).message("console.host is not a host name: write lower case letters, digits, '-' and '.', without scheme and port"))]
    pub host: Option<String>,
    /// Annotations added to the Ingress or the HTTPRoute of `host`, such as those that let ingress-nginx ask a proxy who
    /// signs people in (`IngressNginx` and `GatewayAPI` only). Those that change the routes are refused, and so are snippets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations::map")]
    #[x_kube(
        validation = annotations::not_of_the_operator("console.annotations"),
        validation = annotations::not_of_the_routes("console.annotations"),
        validation = annotations::no_snippets("console.annotations")
    )]
    pub annotations: BTreeMap<String, String>,
}
