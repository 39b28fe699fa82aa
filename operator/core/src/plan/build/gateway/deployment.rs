//! The gateway's nginx.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Lifecycle, LifecycleHandler, PodSpec, SleepAction},
};

use super::{PORT, PORT_NAME, nginx};
use crate::{
    model::{
        metadata::{Component, component_name},
        stack::ValidatedStack,
    },
    plan::objects::{deployment, pod, volume},
};

/// The user `nginx` in the public image.
const USER: i64 = 101;
const CONFIG_DIRECTORY: &str = "/etc/shortener";

/// Returns the Deployment `<stack>-gateway`, or `None` while the address of the app is unknown.
pub fn deployment(stack: &ValidatedStack) -> Option<Deployment> {
    let name = component_name(&stack.identity.name, Component::Gateway);
    let config = nginx::render(&stack.gateway.routing)?;
    let template = pod::template(
        stack,
        Component::Gateway,
        &stack.gateway.pod,
        pod::digest(&config),
        pod_spec(stack, name),
    );
    Some(deployment::serving(
        stack,
        Component::Gateway,
        stack.gateway.replicas,
        template,
    ))
}

fn pod_spec(stack: &ValidatedStack, config_map: String) -> PodSpec {
    PodSpec {
        containers: vec![nginx_container(stack)],
        security_context: Some(pod::security_context(USER)),
        // The delay before the stop signal (5 s) plus nginx's limit for the shutdown of its workers (20 s).
        termination_grace_period_seconds: Some(30),
        topology_spread_constraints: Some(vec![pod::spread(stack, Component::Gateway)]),
        volumes: Some(vec![
            volume::config("config", config_map),
            volume::scratch("tmp", "64Mi"),
        ]),
        ..PodSpec::default()
    }
}

fn nginx_container(stack: &ValidatedStack) -> Container {
    let health = || pod::http_probe("/gateway-health", PORT_NAME);
    Container {
        command: Some(pod::strings(&["sh", "-c", include_str!("nginx/start.sh")])),
        ports: Some(vec![pod::port(PORT_NAME, PORT)]),
        lifecycle: Some(Lifecycle {
            // nginx stops accepting connections as soon as it receives its stop signal. The delay lets every node
            // stop sending new connections first.
            pre_stop: Some(LifecycleHandler {
                sleep: Some(SleepAction { seconds: 5 }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        startup_probe: Some(pod::with_timing(health(), 1, 2, 30)),
        liveness_probe: Some(pod::with_timing(health(), 10, 5, 3)),
        readiness_probe: Some(pod::with_timing(health(), 2, 2, 2)),
        volume_mounts: Some(vec![
            volume::mount("config", CONFIG_DIRECTORY),
            volume::mount("tmp", "/tmp"),
        ]),
        ..pod::container("nginx", &stack.gateway.pod, Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::metadata::CONFIG_CHECKSUM,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_deployment_of_a_minimal_stack() {
        golden("deployment-gateway", &deployment(&minimal_stack()));
    }

    #[test]
    fn nothing_is_deployed_before_the_address_of_the_app_is_known() {
        assert_eq!(
            deployment(&minimal_stack().standalone().upstream(None)),
            None
        );
    }

    #[test]
    fn a_changed_configuration_restarts_the_pods() {
        let checksum = |stack: &ValidatedStack| {
            let template = deployment(stack).unwrap().spec.unwrap().template;
            template.metadata.unwrap().annotations.unwrap()[CONFIG_CHECKSUM].clone()
        };
        let before = minimal_stack().standalone();
        let after = before.clone().upstream(Some("10.96.7.8"));
        assert_eq!(checksum(&before), checksum(&before.clone()));
        assert_ne!(checksum(&before), checksum(&after));
    }
}
