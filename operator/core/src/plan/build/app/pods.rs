//! A headless Service that resolves to every pod of the app that is ready. By it the gateway knows which pod does not
//! answer, and asks another one.

use k8s_openapi::api::core::v1::{Service, ServiceSpec};

use super::{PORT, PORT_NAME};
use crate::{
    model::{
        metadata::{Component, component_name},
        stack::ValidatedStack,
    },
    plan::objects::service,
};

fn name(stack: &ValidatedStack) -> String {
    format!(
        "{}-pods",
        component_name(&stack.identity.name, Component::App)
    )
}

/// Returns the name of the pods in the DNS of the cluster, without the domain of the cluster.
pub fn host_name(stack: &ValidatedStack) -> String {
    format!("{}.{}.svc", name(stack), stack.identity.namespace)
}

/// Returns the Service `<stack>-app-pods`, or `None` if the stack's own nginx does not route requests.
pub fn service(stack: &ValidatedStack) -> Option<Service> {
    stack.gateway.routing.is_by_nginx().then(|| Service {
        metadata: stack.identity.child(name(stack), Component::App),
        spec: Some(ServiceSpec {
            cluster_ip: Some("None".to_owned()),
            publish_not_ready_addresses: Some(false),
            ..service::cluster_ip(
                stack,
                Component::App,
                vec![service::http_port(PORT_NAME, PORT)],
            )
        }),
        ..Service::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn only_the_stacks_own_nginx_looks_for_the_pods_of_the_app() {
        golden("service-app-pods", &service(&minimal_stack().standalone()));
        assert!(service(&minimal_stack().gateway_api()).is_some());
        assert_eq!(service(&minimal_stack()), None);
    }
}
