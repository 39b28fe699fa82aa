//! A headless Service that resolves to every pod of the app, the workers or the delivery of webhooks, for scrapers. The public Service resolves
//! to a single address and omits the internal port.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{INTERNAL_PORT, PORT_NAME};
use crate::{
    model::{
        metadata::{Component, component_name},
        stack::ValidatedStack,
    },
    plan::objects::service,
};

/// Returns the name of the Service with the metrics of a component.
pub fn service_name(stack: &str, component: Component) -> String {
    format!("{}-metrics", component_name(stack, component))
}

/// Returns the Service `<stack>-<component>-metrics` of one of the stack's own programs, or `None` if nothing
/// reads the metrics.
pub fn service(stack: &ValidatedStack, component: Component) -> Option<Service> {
    if !stack.has_metrics_consumer() {
        return None;
    }
    let identity = &stack.identity;
    let ports = vec![service::port(PORT_NAME, INTERNAL_PORT)];
    Some(Service {
        metadata: identity.child(service_name(&identity.name, component), component),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            // Pods that are not ready are scraped too.
            publish_not_ready_addresses: Some(true),
            ..service::cluster_ip(stack, component, ports)
        }),
        ..Service::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_metrics_of_every_pod_are_found_by_a_name() {
        let stack = minimal_stack().observability();
        golden("service-app-metrics", &service(&stack, Component::App));
    }

    #[test]
    fn nobody_looks_for_the_metrics_of_a_stack_that_is_not_observed() {
        assert_eq!(service(&minimal_stack(), Component::App), None);
    }
}
