//! The stable address of the collector.

use k8s_openapi::api::core::v1::Service;

use super::{GRPC_PORT, GRPC_PORT_NAME, HTTP_PORT, HTTP_PORT_NAME};
use crate::{
    model::{metadata::Component, stack::ValidatedStack},
    plan::{monitoring, objects::service},
};

/// Returns the Service `<stack>-otel`, or `None` if the operator does not run a collector.
pub fn service(stack: &ValidatedStack) -> Option<Service> {
    stack.own_collector()?;
    let ports = vec![
        service::port(GRPC_PORT_NAME, GRPC_PORT),
        service::port(HTTP_PORT_NAME, HTTP_PORT),
        service::port(monitoring::PORT_NAME, monitoring::COLLECTOR_PORT),
    ];
    let spec = service::cluster_ip(stack, Component::Otel, ports);
    Some(service::service(stack, Component::Otel, spec))
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
