//! The implementations of the gateway.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Implementation of the gateway.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum GatewayProvider {
    /// Ingress objects for an ingress-nginx controller that the cluster runs.
    #[default]
    IngressNginx,
    /// A dedicated nginx. It depends on nothing else in the cluster.
    Standalone,
    /// An HTTPRoute on a Gateway of the Gateway API, in front of a dedicated nginx.
    #[serde(rename = "GatewayAPI")]
    GatewayApi,
}

/// Type of the Service of the gateway (`Standalone` only).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(transform = crate::api::schema::with_values)]
pub enum GatewayServiceType {
    /// An address that is reachable inside the cluster only.
    #[default]
    ClusterIP,
    /// A port on every node.
    NodePort,
    /// An address from the cluster's load balancer.
    LoadBalancer,
}

impl GatewayServiceType {
    /// Returns the value as the Service API spells it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::ClusterIP => "ClusterIP",
            Self::NodePort => "NodePort",
            Self::LoadBalancer => "LoadBalancer",
        }
    }
}
