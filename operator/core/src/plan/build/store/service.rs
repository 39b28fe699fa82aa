//! The stable address of a store.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::Port;
use crate::{
    model::{
        metadata::{Component, component_name, selector_labels},
        stack::ValidatedStack,
    },
    plan::build::ports,
};

/// Returns the Service `<stack>-<component>`.
pub fn service(stack: &ValidatedStack, component: Component) -> Service {
    let identity = &stack.identity;
    Service {
        metadata: identity.child(component_name(&identity.name, component), component),
        spec: Some(ServiceSpec {
            // A cluster IP stays the same over restarts, so a client that resolved the name once keeps a valid
            // address.
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector_labels(&identity.name, component)),
            // There is no second server, so waiting for a readiness probe would only prolong an outage.
            publish_not_ready_addresses: Some(true),
            ports: Some(ports(component).iter().map(service_port).collect()),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
}

fn service_port(port: &Port) -> ServicePort {
    ServicePort {
        name: Some(port.name.to_owned()),
        port: port.number,
        target_port: Some(IntOrString::String(port.name.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
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
