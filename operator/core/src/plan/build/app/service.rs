//! The stable address of the app. It omits the internal port, because scrapers and probes connect to each pod.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{PORT, PORT_NAME};
use crate::model::{
    metadata::{Component, component_name, selector_labels},
    stack::ValidatedStack,
};

/// Returns the Service `<stack>-app`.
pub fn service(stack: &ValidatedStack) -> Service {
    let identity = &stack.identity;
    Service {
        metadata: identity.child(
            component_name(&identity.name, Component::App),
            Component::App,
        ),
        spec: Some(ServiceSpec {
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector_labels(&identity.name, Component::App)),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: PORT,
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                protocol: Some("TCP".to_owned()),
                app_protocol: Some("http".to_owned()),
                ..ServicePort::default()
            }]),
            ..ServiceSpec::default()
        }),
        ..Service::default()
    }
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
