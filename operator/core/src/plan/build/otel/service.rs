//! The stable address of the collector.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{GRPC_PORT, GRPC_PORT_NAME, HTTP_PORT, HTTP_PORT_NAME};
use crate::{
    model::{
        metadata::{Component, component_name, selector_labels},
        stack::ValidatedStack,
    },
    plan::build::monitoring,
};

/// Returns the Service `<stack>-otel`, or `None` if the operator does not run a collector.
pub fn service(stack: &ValidatedStack) -> Option<Service> {
    stack.own_collector()?;
    let identity = &stack.identity;
    let ports = [
        (GRPC_PORT_NAME, GRPC_PORT),
        (HTTP_PORT_NAME, HTTP_PORT),
        (monitoring::PORT_NAME, monitoring::COLLECTOR_PORT),
    ];
    Some(Service {
        metadata: identity.child(
            component_name(&identity.name, Component::Otel),
            Component::Otel,
        ),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector_labels(&identity.name, Component::Otel)),
            ports: Some(
                ports
                    .into_iter()
                    .map(|(name, port)| ServicePort {
                        name: Some(name.to_owned()),
                        port,
                        target_port: Some(IntOrString::String(name.to_owned())),
                        protocol: Some("TCP".to_owned()),
                        ..ServicePort::default()
                    })
                    .collect(),
            ),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_service_of_a_collector() {
        golden("service-otel", &service(&minimal_stack().observability()));
    }

    #[test]
    fn only_a_managed_collector_has_an_address() {
        assert_eq!(service(&minimal_stack()), None);
        assert_eq!(service(&minimal_stack().external_collector()), None);
    }
}
