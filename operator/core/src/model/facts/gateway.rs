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
    /// Another stack that holds the host of the spec on the same IngressClass or Gateway.
    pub host_conflict: Option<HostConflict>,
    /// Name of the Secret with the certificate, if the spec refers to one that does not exist.
    pub missing_certificate: Option<String>,
    /// The key for the passage through the gateway, if the spec refers to one, or the failure to read it.
    pub probe_key: Option<Result<Referenced, StepFailure>>,
    /// The Gateway that the spec names.
    pub parent: LiveGateway,
}

/// Returns namespace and name of the Gateway that a stack is attached to; `None` with another gateway provider.
pub fn parent(stack: &ShortenerStack) -> Option<(&str, &str)> {
    let gateway = &stack.spec.gateway;
    let parent = gateway.parent_ref.as_ref()?;
    let own = stack.metadata.namespace.as_deref();
    let namespace = parent.namespace.as_deref().or(own)?;
    (gateway.provider == GatewayProvider::GatewayApi).then_some((namespace, parent.name.as_str()))
}
