//! The public entry point of a stack.

mod auth;
mod cors;
mod end_to_end;
mod parent_ref;
mod provider;
mod service;
mod tls;

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;
use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use super::{PodSettings, annotations, names, schema};

pub use auth::{GatewayAuth, KeyLimits, Protected};
pub use cors::GatewayCors;
pub use end_to_end::GatewayEndToEnd;
pub use parent_ref::ParentRef;
pub use provider::{GatewayProvider, GatewayServiceType};
pub use service::GatewayServiceSpec;
pub use tls::{GatewayTls, Hsts};

/// The public entry point: routing, host name, TLS and access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(
    validation = Rule::new("self.provider == 'Standalone' || self.serviceType == 'ClusterIP'").message(
        "gateway.serviceType is for gateway.provider Standalone: remove it or change the provider"
    ),
    validation = Rule::new("!has(self.tls) || self.host != ''").message(
        "gateway.tls needs gateway.host: set the host name of the certificate"
    ),
    validation = Rule::new("self.provider != 'IngressNginx' || !has(self.tls) || !has(self.tls.hsts)").message(
        "gateway.tls.hsts is for gateway.provider Standalone and GatewayApi: remove it and set hsts in the ConfigMap of the ingress controller"
    ),
    validation = Rule::new(
        "self.provider != 'Standalone' || !has(self.annotations) || size(self.annotations) == 0"
    ).message(
        "gateway.annotations is for gateway.provider IngressNginx and GatewayApi: set gateway.service.annotations instead"
    ),
    validation = Rule::new("self.provider != 'GatewayApi' || has(self.parentRef)").message(
        "gateway.provider GatewayApi needs gateway.parentRef: set the name of a Gateway"
    ),
    validation = Rule::new("self.provider == 'GatewayApi' || !has(self.parentRef)").message(
        "gateway.parentRef is for gateway.provider GatewayApi: remove it or change the provider"
    ),
)]
#[serde(rename_all = "camelCase")]
pub struct GatewaySpec {
    /// Implementation: an ingress-nginx controller of the cluster, an nginx of the stack's own, or a Gateway of the
    /// Gateway API.
    #[serde(default)]
    pub provider: GatewayProvider,
    /// Host name that the stack serves; if empty, it serves every host.
    #[serde(default)]
    #[schemars(length(max = 253))]
    #[x_kube(validation = Rule::new(
        r"self == '' || self.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$')"
    ).message("gateway.host is not a host name: write lower case letters, digits, '-' and '.', without scheme and port"))]
    pub host: String,
    /// IngressClass of the controller (`IngressNginx` only).
    #[serde(default = "default_class")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub ingress_class_name: String,
    /// The Gateway that the stack is attached to (`GatewayApi` only, which needs it).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub parent_ref: Option<ParentRef>,
    /// Peers that may open connections to the gateway or, with `IngressNginx`, to the app. The default with
    /// `IngressNginx` is the operator's setting (the ingress-nginx controller), with `Standalone` and `GatewayApi` every
    /// peer.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<NetworkPolicyPeer>")]
    pub allow_from: Vec<NetworkPolicyPeer>,
    /// TLS of the host. Absent: HTTP only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
    /// Annotations added to the Ingresses or to the HTTPRoute, for cert-manager or external-dns (`IngressNginx` and
    /// `GatewayApi` only). Those that change the routes are refused, and so are snippets.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations::map")]
    #[x_kube(
        validation = annotations::not_of_the_operator("gateway.annotations"),
        validation = annotations::not_of_the_routes(),
        validation = annotations::no_snippets()
    )]
    pub annotations: BTreeMap<String, String>,
    /// The gateway's Service.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub service: Option<GatewayServiceSpec>,
    /// Type of the gateway's Service (`Standalone` only).
    #[serde(default)]
    pub service_type: GatewayServiceType,
    /// Serves `/metrics` through the gateway when true. The internal port always serves it.
    #[serde(default = "default_true")]
    pub expose_metrics: bool,
    /// Number of proxies before the app that append to `X-Forwarded-For`. The client's address is the entry at this
    /// position from the end; 0 ignores the header.
    #[serde(default = "default_hops")]
    #[schemars(range(min = 0, max = 16))]
    pub trusted_hops: i32,
    /// Continues the trace that a request names in `traceparent`. When false, each request starts a trace of its own
    /// with a link to the caller's, so that no client can add to a trace of another one.
    #[serde(default = "default_true")]
    pub trust_incoming_trace: bool,
    /// Keys of clients. Absent: no request needs a key, and management is refused.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub auth: Option<GatewayAuth>,
    /// Scripts of other origins. Absent: browsers let none of them use the API.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cors: Option<GatewayCors>,
    /// A passage through the gateway that the operator tries again and again. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub end_to_end: Option<GatewayEndToEnd>,
    /// Number of gateway pods.
    #[serde(default = "default_replicas")]
    #[schemars(range(min = 1, max = 100))]
    pub replicas: i32,
    /// Settings of the gateway's pods.
    #[serde(flatten)]
    pub pod: PodSettings,
}

impl Default for GatewaySpec {
    fn default() -> Self {
        Self {
            provider: GatewayProvider::default(),
            host: String::new(),
            ingress_class_name: default_class(),
            parent_ref: None,
            allow_from: Vec::new(),
            tls: None,
            annotations: BTreeMap::new(),
            service: None,
            service_type: GatewayServiceType::default(),
            expose_metrics: default_true(),
            trusted_hops: default_hops(),
            trust_incoming_trace: default_true(),
            auth: None,
            cors: None,
            end_to_end: None,
            replicas: default_replicas(),
            pod: PodSettings::default(),
        }
    }
}

fn default_class() -> String {
    "nginx".to_owned()
}

fn default_true() -> bool {
    true
}

fn default_hops() -> i32 {
    1
}

fn default_replicas() -> i32 {
    2
}
