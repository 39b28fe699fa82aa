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
    /// The same for the Ingresses of an earlier provider, which stay while the gateway is held; `None` without any.
    pub kept_ingresses: Option<Vec<NetworkPolicyPeer>>,
    pub service_annotations: BTreeMap<String, String>,
    /// Hosts of the routes, the canonical one first: those of the spec or, in a conflict about one of them, those that are
    /// kept. Empty for every host.
    pub hosts: Vec<String>,
    /// The host that the console has for itself.
    pub console: Option<ConsoleRoute>,
    /// TLS of the hosts, which the stack's own nginx, the controller or the Gateway terminates.
    pub tls: Option<GatewayTls>,
    /// Another stack that serves a host of the spec on the same IngressClass or Gateway.
    pub conflict: Option<HostConflict>,
    /// Name of the Secret with the certificate, if it does not exist.
    pub missing_certificate: Option<String>,
    /// True when the IngressClass does not exist, so that no controller can serve the Ingresses.
    pub missing_class: bool,
    /// The end-to-end probe that the operator tries, if the spec asks for one.
    pub end_to_end: Option<EndToEnd>,
    pub routing: Routing,
}

/// The public route to the console, on a host of its own.
#[derive(Clone, Debug, PartialEq)]
pub struct ConsoleRoute {
    pub host: String,
    /// Annotations of its Ingress or HTTPRoute.
    pub annotations: BTreeMap<String, String>,
}

/// Implementations of the routing of public requests.
#[derive(Clone, Debug, PartialEq)]
pub enum Routing {
    /// An ingress-nginx controller, configured by Ingress objects.
    IngressNginx {
        /// IngressClass.
        class: String,
        /// Annotations of the Ingresses, beside those of the operator.
        annotations: BTreeMap<String, String>,
    },
    /// The stack's own nginx.
    Standalone {
        service_type: GatewayServiceType,
        /// Cluster IP of the app's Service; `None` until that exists, and no nginx is created before.
        upstream: Option<String>,
    },
    /// The stack's own nginx behind Gateways of the Gateway API.
    GatewayApi {
        parents: Vec<Parent>,
        /// Annotations of the HTTPRoute.
        annotations: BTreeMap<String, String>,
        /// Cluster IP of the app's Service, as with `Standalone`.
        upstream: Option<String>,
    },
}

impl Gateway {
    /// Returns the canonical host; empty for every host.
    pub fn host(&self) -> &str {
        self.hosts.first().map_or("", String::as_str)
    }

    /// Returns every host by name: those of links, and that of the console.
    pub fn named_hosts(&self) -> Vec<String> {
        let console = self.console.as_ref().map(|console| &console.host);
        self.hosts.iter().chain(console).cloned().collect()
    }

    /// Returns TLS that the stack's own nginx terminates.
    pub fn own_tls(&self) -> Option<&GatewayTls> {
        let is_own = matches!(self.routing, Routing::Standalone { .. });
        self.tls.as_ref().filter(|_| is_own)
    }

    /// Returns true when another stack serves a host of this one, which has no hosts to keep. Then nothing is routed to
    /// the stack.
    pub fn is_shut_out(&self) -> bool {
        let conflict = self.conflict.as_ref();
        conflict.is_some_and(|conflict| conflict.kept.is_none())
    }
}

impl Routing {
    /// Returns the address of the app, if the stack's own nginx routes requests and it is known.
    pub fn upstream(&self) -> Option<&str> {
        match self {
            Self::Standalone { upstream, .. } | Self::GatewayApi { upstream, .. } => {
                upstream.as_deref()
            }
            Self::IngressNginx { .. } => None,
        }
    }

    /// Returns true when the stack's own nginx routes requests.
    pub fn is_by_nginx(&self) -> bool {
        !matches!(self, Self::IngressNginx { .. })
    }

    /// Returns true when the stack's own nginx routes requests and the address of the app is unknown.
    pub fn lacks_upstream(&self) -> bool {
        self.is_by_nginx() && self.upstream().is_none()
    }
}
