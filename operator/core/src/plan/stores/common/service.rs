//! The stable address of a store.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use crate::{
    model::stack::ValidatedStack,
    plan::{objects::service, stores::Definition},
};

/// Returns the Service `<stack>-<component>`.
pub(in crate::plan) fn service(stack: &ValidatedStack, store: &Definition) -> Service {
    let component = store.component;
    let ports = store.ports.iter();
    let ports = ports.map(|port| service::port(port.name, port.number));
    // A cluster IP stays the same over restarts, so a client that resolved the name once keeps a valid address.
    let spec = ServiceSpec {
        // There is no second server, so waiting for a readiness probe would only prolong an outage.
        publish_not_ready_addresses: Some(true),
        ..service::cluster_ip(stack, component, ports.collect())
    };
    service::service(stack, component, spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::stores,
        testing::{golden, stack::every_profile},
    };

    #[test]
    fn the_service_of_each_store() {
        let stack = every_profile();
        for (store, _) in stores::managed(&stack) {
            let name = format!("service-{}", store.component.as_str());
            golden(&name, &service(&stack, store));
        }
    }
}
