//! The address of the gateway, inside the cluster or outside.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{PORT_NAME, SERVICE_PORT, TLS_PORT_NAME, TLS_SERVICE_PORT};
use crate::{
    api::GatewayServiceType,
    model::{
        metadata::Component,
        stack::{Routing, ValidatedStack},
    },
    plan::objects::service,
};

/// Returns the Service `<stack>-gateway`.
pub fn service(stack: &ValidatedStack) -> Service {
    let service_type = match stack.gateway.routing {
        Routing::IngressNginx { .. } | Routing::GatewayApi { .. } => GatewayServiceType::ClusterIP,
        Routing::Standalone { service_type, .. } => service_type,
    };
    let mut ports = vec![service::http_port(PORT_NAME, SERVICE_PORT)];
    if stack.gateway.own_tls().is_some() {
        ports.push(service::https_port(TLS_PORT_NAME, TLS_SERVICE_PORT));
    }
    let spec = ServiceSpec {
        type_: Some(service_type.as_str().to_owned()),
        // Otherwise the node replaces the client's address, and all clients share one rate limit.
        external_traffic_policy: (service_type != GatewayServiceType::ClusterIP)
            .then(|| "Local".to_owned()),
        // Clients use both address families if the cluster has them. Inside the stack, one is enough.
        ip_family_policy: Some("PreferDualStack".to_owned()),
        ..service::cluster_ip(stack, Component::Gateway, ports)
    };
    let mut service = service::service(stack, Component::Gateway, spec);
    let annotations = &stack.gateway.service_annotations;
    service.metadata.annotations = Some(annotations.clone()).filter(|all| !all.is_empty());
    service
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

    #[test]
    fn a_gateway_with_a_certificate_serves_both_ports() {
        let stack = minimal_stack()
            .standalone()
            .host("go.example.com")
            .tls("go-tls");
        golden("service-gateway-tls", &service(&stack));
    }

    #[test]
    fn annotations_of_the_user_reach_the_service_and_not_the_ingresses() {
        let key = "external-dns.alpha.kubernetes.io/hostname";
        let stack = minimal_stack().service_annotated(key, "go.example.com");
        let annotations = service(&stack).metadata.annotations.unwrap();
        assert_eq!(annotations[key], "go.example.com");
        assert_eq!(service(&minimal_stack()).metadata.annotations, None);
    }
}
