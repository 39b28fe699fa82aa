//! A headless Service that resolves to every pod of the app or the workers, for scrapers. The public Service resolves
//! to a single address and omits the internal port.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{INTERNAL_PORT, PORT_NAME};
use crate::model::{
    metadata::{Component, component_name, selector_labels},
    stack::ValidatedStack,
};

/// Returns the name of the Service with the metrics of a component.
pub fn service_name(stack: &str, component: Component) -> String {
    format!("{}-metrics", component_name(stack, component))
}

/// Returns the Service `<stack>-<component>-metrics` of the app or the workers, or `None` if nothing reads the
/// metrics.
pub fn service(stack: &ValidatedStack, component: Component) -> Option<Service> {
    if !stack.has_metrics_consumer() {
        return None;
    }
    let identity = &stack.identity;
    Some(Service {
        metadata: identity.child(service_name(&identity.name, component), component),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            cluster_ip: Some("None".to_owned()),
            selector: Some(selector_labels(&identity.name, component)),
            // Pods that are not ready are scraped too.
            publish_not_ready_addresses: Some(true),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: INTERNAL_PORT,
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                protocol: Some("TCP".to_owned()),
                ..ServicePort::default()
            }]),
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
    fn the_metrics_of_every_pod_are_found_by_a_name() {
        let stack = minimal_stack().observability();
        golden("service-app-metrics", &service(&stack, Component::App));
    }

    #[test]
    fn nobody_looks_for_the_metrics_of_a_stack_that_is_not_observed() {
        assert_eq!(service(&minimal_stack(), Component::App), None);
    }
}
