//! The address of the gateway, inside the cluster or outside.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{PORT_NAME, SERVICE_PORT};
use crate::{
    api::GatewayServiceType,
    model::{
        metadata::{Component, component_name, selector_labels},
        stack::{Routing, ValidatedStack},
    },
};

/// Returns the Service `<stack>-gateway`.
pub fn service(stack: &ValidatedStack) -> Service {
    let identity = &stack.identity;
    let service_type = match stack.gateway.routing {
        Routing::IngressNginx { .. } => GatewayServiceType::ClusterIP,
        Routing::Standalone { service_type, .. } => service_type,
    };
    Service {
        metadata: identity.child(
            component_name(&identity.name, Component::Gateway),
            Component::Gateway,
        ),
        spec: Some(ServiceSpec {
            type_: Some(service_type.as_str().to_owned()),
            // Otherwise the node replaces the client's address, and all clients share one rate limit.
            external_traffic_policy: (service_type != GatewayServiceType::ClusterIP)
                .then(|| "Local".to_owned()),
            selector: Some(selector_labels(&identity.name, Component::Gateway)),
            // Clients use both address families if the cluster has them. Inside the stack, one is enough.
            ip_family_policy: Some("PreferDualStack".to_owned()),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: SERVICE_PORT,
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
    fn behind_a_controller_the_gateway_is_known_inside_the_cluster_only() {
        golden("service-gateway", &service(&minimal_stack()));
    }

    #[test]
    fn a_gateway_that_is_reached_from_outside_sees_the_address_of_its_client() {
        let stack = minimal_stack()
            .standalone()
            .service_type(GatewayServiceType::NodePort);
        golden("service-gateway-node-port", &service(&stack));
    }
}
