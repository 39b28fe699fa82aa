//! The stable address of the app. It omits the internal port, because scrapers and probes connect to each pod.

use k8s_openapi::api::core::v1::Service;

use super::{PORT, PORT_NAME};
use crate::{
    model::{metadata::Component, stack::ValidatedStack},
    plan::objects::service,
};

/// Returns the Service `<stack>-app`.
pub fn service(stack: &ValidatedStack) -> Service {
    let ports = vec![service::http_port(PORT_NAME, PORT)];
    let spec = service::cluster_ip(stack, Component::App, ports);
    service::service(stack, Component::App, spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_service_publishes_the_public_port_only() {
        golden("service-app", &service(&minimal_stack()));
    }
}
