//! The stable address of a store.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use crate::{
    model::{metadata::Component, stack::ValidatedStack},
    plan::build::{ports, service},
};

/// Returns the Service `<stack>-<component>`.
pub fn service(stack: &ValidatedStack, component: Component) -> Service {
    let ports = ports(component).iter();
    let ports = ports.map(|port| service::port(port.name, port.number));
    // A cluster IP stays the same over restarts, so a client that resolved the name once keeps a valid address.
    let spec = ServiceSpec {
        // There is no second server, so waiting for a readiness probe would only prolong an outage.
        publish_not_ready_addresses: Some(true),
        ..service::cluster_ip(stack, component, ports.collect())
    };
    service::service(stack, component, spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::every_profile};

    #[test]
    fn the_service_of_each_store() {
        let stack = every_profile();
        for (component, _) in stack.managed_stores() {
            let name = format!("service-{}", component.as_str());
            golden(&name, &service(&stack, component));
        }
    }
}
