//! Facts about the surroundings of the gateway.

use super::Referenced;
use crate::{
    api::{GatewayProvider, ShortenerStack},
    model::{failure::StepFailure, gateway_api::LiveGateway, stack::HostConflict},
};

/// Facts about the surroundings of the gateway.
#[derive(Clone, Debug, Default)]
pub struct GatewayFacts {
    /// Cluster address of the app's Service.
    pub upstream: Option<String>,
    /// Another stack that serves a host of the spec on the same IngressClass or Gateway.
    pub host_conflict: Option<HostConflict>,
    /// Name of the Secret with the certificate, if the spec refers to one that does not exist.
    pub missing_certificate: Option<String>,
    /// True when the IngressClass of the spec does not exist and no Ingress of the stack has an address.
    pub missing_class: bool,
    /// True when the stack has an Ingress.
    pub has_ingress: bool,
    /// The key for the end-to-end probe through the gateway, if the spec refers to one, or the failure to read it.
    pub probe_key: Option<Result<Referenced, StepFailure>>,
    /// The Gateways that the spec names, in its order.
    pub parents: Vec<LiveGateway>,
}

/// Returns namespace and name of each Gateway that a stack is attached to; none with another gateway provider.
pub fn parents(stack: &ShortenerStack) -> impl Iterator<Item = (&str, &str)> {
    let gateway = &stack.spec.gateway;
    let is_used = gateway.provider == GatewayProvider::GatewayApi;
    let own = stack.metadata.namespace.as_deref().unwrap_or_default();
    let named = gateway.parent_refs.iter().filter(move |_| is_used);
    named.map(move |named| {
        (
            named.namespace.as_deref().unwrap_or(own),
            named.name.as_str(),
        )
    })
}
