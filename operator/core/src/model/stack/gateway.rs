//! The gateway of a stack, and how public requests are routed.

use std::collections::BTreeMap;

use k8s_openapi::api::networking::v1::NetworkPolicyPeer;

use super::{EndToEnd, HostConflict, Parent, Pod};
use crate::api::{GatewayServiceType, GatewayTls};

/// The gateway of a stack.
#[derive(Clone, Debug, PartialEq)]
pub struct Gateway {
    /// Number of pods (0 when stopped).
    pub replicas: i32,
    pub pod: Pod,
    /// Peers that may connect; empty allows every peer.
    pub allow_from: Vec<NetworkPolicyPeer>,
    pub service_annotations: BTreeMap<String, String>,
    /// Name of the Secret with the certificate, if it does not exist.
    pub missing_certificate: Option<String>,
    /// The passage that the operator tries, if the spec asks for one.
    pub end_to_end: Option<EndToEnd>,
    pub routing: Routing,
}

/// Implementations of the routing of public requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// An ingress-nginx controller, configured by Ingress objects.
    IngressNginx {
        /// Host of the rules: that of the spec or, in a conflict about that, the one that is kept. Empty for every host.
        host: String,
        /// IngressClass.
        class: String,
        tls: Option<GatewayTls>,
        /// Annotations of the Ingresses, beside those of the operator.
        annotations: BTreeMap<String, String>,
        /// Another stack that holds the host of the spec on the class.
        conflict: Option<HostConflict>,
    },
    /// The stack's own nginx.
    Standalone {
        /// Host that nginx serves; empty for every host.
        host: String,
        service_type: GatewayServiceType,
        tls: Option<GatewayTls>,
        /// Cluster IP of the app's Service; `None` until that exists, and no nginx is created before.
        upstream: Option<String>,
    },
    /// The stack's own nginx behind a Gateway of the Gateway API.
    GatewayApi {
        /// Host of the route, as with `IngressNginx`.
        host: String,
        parent: Parent,
        /// TLS of the host, which the Gateway terminates.
        tls: Option<GatewayTls>,
        annotations: BTreeMap<String, String>,
        /// Another stack that holds the host of the spec on the Gateway.
        conflict: Option<HostConflict>,
        /// Cluster IP of the app's Service, as with `Standalone`.
        upstream: Option<String>,
    },
}

impl Routing {
    /// Returns TLS that the stack's own nginx terminates.
    pub fn own_tls(&self) -> Option<&GatewayTls> {
        match self {
            Self::Standalone { tls, .. } => tls.as_ref(),
            Self::IngressNginx { .. } | Self::GatewayApi { .. } => None,
        }
    }

    /// Returns true when another stack holds the host, and there is none that is kept meanwhile. Then nothing is routed to
    /// the stack.
    pub fn is_shut_out(&self) -> bool {
        match self {
            Self::IngressNginx { conflict, .. } | Self::GatewayApi { conflict, .. } => {
                let conflict = conflict.as_ref();
                conflict.is_some_and(|conflict| conflict.kept.is_none())
            }
            Self::Standalone { .. } => false,
        }
    }

    /// Returns the address of the app, if the stack's own nginx routes requests and it is known.
    pub fn upstream(&self) -> Option<&str> {
        match self {
            Self::Standalone { upstream, .. } | Self::GatewayApi { upstream, .. } => {
                upstream.as_deref()
            }
            Self::IngressNginx { .. } => None,
        }
    }

    /// Returns true when the stack's own nginx routes requests and the address of the app is unknown.
    pub fn lacks_upstream(&self) -> bool {
        match self {
            Self::Standalone { upstream, .. } | Self::GatewayApi { upstream, .. } => {
                upstream.is_none()
            }
            Self::IngressNginx { .. } => false,
        }
    }
}
