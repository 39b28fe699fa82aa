//! The stable address of the managed database.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use super::{PORT, PORT_NAME};
use crate::{
    metadata::{Component, component_name, selector_labels},
    reconcile::stack::ValidatedStack,
};

/// The Service `<stack>-postgres`.
pub fn service(stack: &ValidatedStack) -> Service {
    let identity = &stack.identity;
    Service {
        metadata: identity.child(
            component_name(&identity.name, Component::Postgres),
            Component::Postgres,
        ),
        spec: Some(ServiceSpec {
            // An address of its own: a client that resolved the name once keeps a right address over restarts.
            type_: Some("ClusterIP".to_owned()),
            selector: Some(selector_labels(&identity.name, Component::Postgres)),
            // There is no second server to turn to, so waiting for a probe would only make an outage longer.
            publish_not_ready_addresses: Some(true),
            ports: Some(vec![ServicePort {
                name: Some(PORT_NAME.to_owned()),
                port: PORT,
                target_port: Some(IntOrString::String(PORT_NAME.to_owned())),
                protocol: Some("TCP".to_owned()),
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
    fn the_service_of_the_database() {
        golden("service-postgres", &service(&minimal_stack()));
    }
}
