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

pub use auth::{AuthProxySpec, GatewayAuth, GroupScopes, KeyRateLimits, KeyScope, Protected};
pub use cors::GatewayCors;
pub use end_to_end::EndToEndProbe;
pub use parent_ref::ParentRef;
pub use provider::{GatewayProvider, GatewayServiceType};
pub use service::GatewayServiceSpec;
pub use tls::{GatewayTls, Hsts};

/// The public entry point: routing, host names, TLS, keys and access.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[x_kube(
    validation = Rule::new("self.provider == 'Standalone' || self.serviceType == 'ClusterIP'").message(
        "gateway.serviceType is for gateway.provider Standalone: remove it or change the provider"
    ),
    validation = Rule::new("!has(self.tls) || (has(self.hosts) && size(self.hosts) > 0)").message(
        "gateway.tls needs gateway.hosts: set the host names of the certificate"
    ),
    validation = Rule::new("self.provider != 'IngressNginx' || !has(self.tls) || !has(self.tls.hsts)").message(
        "gateway.tls.hsts is for gateway.provider Standalone and GatewayAPI: remove it and set hsts in the ConfigMap of the ingress controller"
    ),
    validation = Rule::new(
        "self.provider != 'Standalone' || !has(self.annotations) || size(self.annotations) == 0"
    ).message(
        "gateway.annotations is for gateway.provider IngressNginx and GatewayAPI: set gateway.service.annotations instead"
    ),
    validation = Rule::new("self.provider != 'GatewayAPI' || (has(self.parentRefs) && size(self.parentRefs) > 0)").message(
        "gateway.provider GatewayAPI needs gateway.parentRefs: set the name of a Gateway"
    ),
    validation = Rule::new("self.provider == 'GatewayAPI' || !(has(self.parentRefs) && size(self.parentRefs) > 0)").message(
        "gateway.parentRefs is for gateway.provider GatewayAPI: remove it or change the provider"
    ),
)]
#[serde(rename_all = "camelCase", default = "GatewaySpec::default")]
pub struct GatewaySpec {
    pub provider: GatewayProvider,
    /// Host names that the stack serves, all with the same links. The first is canonical: short links begin with it unless
    /// `publicUrl` or a request says otherwise. Empty: every host.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 16), inner(length(max = 253)))]
    #[x_kube(
        validation = Rule::new(
            r"self.all(host, host.matches('^[a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*$'))"
        ).message("gateway.hosts has an entry that is not a host name: write lower case letters, digits, '-' and '.', without scheme and port"),
        validation = Rule::new("self.all(host, self.exists_one(other, other == host))").message(
            "gateway.hosts names a host twice: remove one of the two"
        )
    )]
    pub hosts: Vec<String>,
    /// IngressClass of the controller (`IngressNginx` only).
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub ingress_class_name: String,
    /// Gateways that the stack is attached to (`GatewayAPI` only, which needs at least one).
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(length(max = 8))]
    pub parent_refs: Vec<ParentRef>,
    /// Peers that may open connections to the gateway or, with `IngressNginx`, to the app. The default with
    /// `IngressNginx` is the operator's setting (the ingress-nginx controller), with `Standalone` and `GatewayAPI` every
    /// peer.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<NetworkPolicyPeer>")]
    pub allow_from: Vec<NetworkPolicyPeer>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub tls: Option<GatewayTls>,
    /// Annotations added to the Ingresses or to the HTTPRoute, for cert-manager or external-dns (`IngressNginx` and
    /// `GatewayAPI` only). Those that change the routes are refused, and so are snippets.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations::map")]
    #[x_kube(
        validation = annotations::not_of_the_operator("gateway.annotations"),
        validation = annotations::not_of_the_routes("gateway.annotations"),
        validation = annotations::no_snippets("gateway.annotations")
    )]
    pub annotations: BTreeMap<String, String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub service: Option<GatewayServiceSpec>,
    pub service_type: GatewayServiceType,
    /// Serves `/metrics` through the gateway when true. The internal port always serves it.
    pub expose_metrics: bool,
    /// Number of proxies before the app that append to `X-Forwarded-For`. The client's address is the entry at this
    /// position from the end; 0 ignores the header.
    #[schemars(range(min = 0, max = 16))]
    pub trusted_hops: i32,
    /// Continues the trace that a request names in `traceparent`. When false, each request starts a new trace
    /// with a link to the caller's, so that no client can add to a trace of another one.
    pub trust_incoming_trace: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub auth: Option<GatewayAuth>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cors: Option<GatewayCors>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub end_to_end_probe: Option<EndToEndProbe>,
    /// Number of gateway pods.
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
            hosts: Vec::new(),
            ingress_class_name: "nginx".to_owned(),
            parent_refs: Vec::new(),
            allow_from: Vec::new(),
            tls: None,
            annotations: BTreeMap::new(),
            service: None,
            service_type: GatewayServiceType::default(),
            expose_metrics: true,
            trusted_hops: 1,
            trust_incoming_trace: true,
            auth: None,
            cors: None,
            end_to_end_probe: None,
            replicas: 2,
            pod: PodSettings::default(),
        }
    }
}
