//! Kinds of the Gateway API, with only the fields that stacks use. A cluster may lack these kinds.
//!
//! Every field has a default, because an object that does not parse would end the watch of its kind, and Gateways belong
//! to others.

use std::sync::Arc;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// API group of the kinds.
pub const GROUP: &str = "gateway.networking.k8s.io";
/// Name of the kind of Gateways in references.
pub const GATEWAY: &str = "Gateway";

/// Condition of a Gateway: its data plane takes requests.
pub const PROGRAMMED: &str = "Programmed";

/// Knowledge about a Gateway of the Gateway API.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum LiveGateway {
    /// The operator does not watch Gateways in its namespace, or may not read them.
    #[default]
    Unknown,
    Missing,
    Found(Arc<Gateway>),
}

/// Spec of an HTTPRoute, which attaches the routes of a host to Gateways.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "HTTPRoute",
    root = "HttpRoute",
    plural = "httproutes",
    namespaced,
    schema = "disabled",
    status = "HttpRouteStatus",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteSpec {
    /// Gateways that the route is attached to.
    pub parent_refs: Vec<ParentReference>,
    /// Hosts of the route; none for every host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub hostnames: Vec<String>,
    /// Rules, by which requests reach their backend.
    pub rules: Vec<HttpRouteRule>,
}

/// A reference from a route to a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ParentReference {
    /// API group; absent for that of the Gateway API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; absent for a Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace; absent for that of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
    /// Name of a listener; absent for every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub section_name: Option<String>,
    /// Port of a listener; absent for every one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub port: Option<i32>,
}

/// A rule of a route.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteRule {
    /// Requests that the rule is for.
    pub matches: Vec<HttpRouteMatch>,
    /// Changes of the requests, which no stack makes: somebody may add some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub filters: Vec<Value>,
    /// Services that the requests reach.
    pub backend_refs: Vec<BackendReference>,
}

/// Requests that a rule is for.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HttpRouteMatch {
    /// Paths of the requests.
    pub path: PathMatch,
    /// Headers of the requests, which no stack asks for: somebody may add some.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub headers: Vec<Value>,
    /// The same of parameters.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub query_params: Vec<Value>,
}

/// Paths of requests.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct PathMatch {
    /// Kind of the comparison, such as `PathPrefix`.
    #[serde(rename = "type")]
    pub type_: String,
    /// Path to compare with.
    pub value: String,
}

/// A reference from a route to a Service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackendReference {
    /// Namespace of the Service; absent for that of the route.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    /// Name of the Service.
    pub name: String,
    /// Port of the Service.
    pub port: i32,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HttpRouteStatus {
    /// State of the route on each Gateway. Controllers write it in any order, and can leave entries of earlier
    /// Gateways.
    pub parents: Vec<RouteParentStatus>,
}

/// State of a route on a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct RouteParentStatus {
    /// The Gateway, as the route refers to it.
    pub parent_ref: ParentReference,
    /// Conditions, such as `Accepted` and `ResolvedRefs`.
    pub conditions: Vec<Condition>,
}

/// Spec of a Gateway, which belongs to others.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "gateway.networking.k8s.io",
    version = "v1",
    kind = "Gateway",
    plural = "gateways",
    namespaced,
    schema = "disabled",
    status = "GatewayStatus",
    derive = "PartialEq"
)]
#[serde(default)]
pub struct ListenersSpec {
    /// Ports, hosts and certificates.
    pub listeners: Vec<Listener>,
}

/// A listener of a Gateway.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Listener {
    /// Name, by which routes refer to it.
    pub name: String,
    /// TLS, if the listener terminates it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<ListenerTls>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct ListenerTls {
    pub certificate_refs: Vec<CertificateReference>,
}

/// A reference from a listener to a certificate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct CertificateReference {
    /// API group; absent or empty for that of Secrets.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<String>,
    /// Kind; absent for a Secret.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub kind: Option<String>,
    /// Namespace; absent for that of the Gateway.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub namespace: Option<String>,
    pub name: String,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GatewayStatus {
    /// Conditions, such as [`PROGRAMMED`].
    pub conditions: Vec<Condition>,
}

/// Spec of a ReferenceGrant, by which objects of other namespaces may use those of its own.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "gateway.networking.k8s.io",
    // Every release of the Gateway API serves this version.
    version = "v1beta1",
    kind = "ReferenceGrant",
    plural = "referencegrants",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(default)]
pub struct ReferenceGrantSpec {
    /// Kinds and namespaces that may refer.
    pub from: Vec<GrantFrom>,
    /// Objects that they may refer to.
    pub to: Vec<GrantTo>,
}

/// A kind and a namespace that may refer to an object.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantFrom {
    pub group: String,
    pub kind: String,
    pub namespace: String,
}

/// An object that may be referred to.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct GrantTo {
    /// API group; empty for that of Secrets.
    pub group: String,
    pub kind: String,
    pub name: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn objects_of_others_parse_whatever_else_they_contain_or_lack() {
        let gateway: Gateway = serde_json::from_value(json!({
            "metadata": {"name": "public", "namespace": "infra"},
            "spec": {
                "gatewayClassName": "contour",
                "listeners": [
                    {"name": "http", "port": 80, "protocol": "HTTP"},
                    {"name": "https", "port": 443, "protocol": "HTTPS", "tls": {"mode": "Terminate"}},
                ],
            },
        }))
        .unwrap();
        assert_eq!(gateway.spec.listeners.len(), 2);
        assert_eq!(gateway.status, None);
        let route: HttpRoute = serde_json::from_value(json!({
            "metadata": {},
            "spec": {"rules": [{"filters": []}]},
            "status": {"parents": [{"controllerName": "x/y"}]},
        }))
        .unwrap();
        assert_eq!(route.spec.parent_refs, []);
        assert_eq!(route.status.unwrap().parents[0].conditions, []);
    }

    #[test]
    fn a_route_is_written_without_a_status_and_without_empty_fields() {
        let parent = ParentReference {
            name: "public".to_owned(),
            ..ParentReference::default()
        };
        let spec = HttpRouteSpec {
            parent_refs: vec![parent],
            ..HttpRouteSpec::default()
        };
        let written = serde_json::to_value(HttpRoute::new("acme", spec)).unwrap();
        assert_eq!(
            written["spec"],
            json!({"parentRefs": [{"name": "public"}], "rules": []})
        );
        assert!(written.get("status").is_none(), "{written}");
    }
}
