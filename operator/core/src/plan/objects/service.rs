//! Services of the components.

use k8s_openapi::{
    api::core::v1::{Service, ServicePort, ServiceSpec},
    apimachinery::pkg::util::intstr::IntOrString,
};

use crate::model::{
    metadata::{Component, component_name, selector_labels},
    stack::ValidatedStack,
};

/// Returns the Service `<stack>-<component>`.
pub(in crate::plan) fn service(
    stack: &ValidatedStack,
    component: Component,
    spec: ServiceSpec,
) -> Service {
    let identity = &stack.identity;
    Service {
        metadata: identity.child(component_name(&identity.name, component), component),
        spec: Some(spec),
        ..Service::default()
    }
}

/// Returns the spec of a Service with a cluster IP for the pods of a component.
pub(in crate::plan) fn cluster_ip(
    stack: &ValidatedStack,
    component: Component,
    ports: Vec<ServicePort>,
) -> ServiceSpec {
    ServiceSpec {
        type_: Some("ClusterIP".to_owned()),
        selector: Some(selector_labels(&stack.identity.name, component)),
        ports: Some(ports),
        external_ips: Some(Vec::new()),
        ..ServiceSpec::default()
    }
}

/// Returns a port that leads to the pods' port of the same name.
pub(in crate::plan) fn port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        name: Some(name.to_owned()),
        port: number,
        target_port: Some(IntOrString::String(name.to_owned())),
        protocol: Some("TCP".to_owned()),
        ..ServicePort::default()
    }
}

/// Returns a port like [`port`] that serves HTTP.
pub(in crate::plan) fn http_port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        app_protocol: Some("http".to_owned()),
        ..port(name, number)
    }
}

/// Returns a port like [`port`] that serves HTTP over TLS.
pub(in crate::plan) fn https_port(name: &str, number: i32) -> ServicePort {
    ServicePort {
        app_protocol: Some("https".to_owned()),
        ..port(name, number)
    }
}
