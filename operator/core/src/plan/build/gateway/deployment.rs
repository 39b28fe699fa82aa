//! The gateway's nginx.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, Lifecycle, LifecycleHandler, PodSpec, SleepAction},
};

use super::{PORT, PORT_NAME, TLS_PORT, TLS_PORT_NAME, nginx, tls};
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
    let config = nginx::render(stack)?;
    let template = pod::template(
        stack,
        Component::Gateway,
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
    let certificate = stack.gateway.own_tls().map(tls::certificate);
    let mut volumes = vec![
        volume::config("config", config_map),
        volume::scratch("tmp", "64Mi"),
    ];
    let mut security_context = pod::security_context(USER);
    if let Some(certificate) = certificate {
        volumes.push(certificate);
        security_context.fs_group = Some(USER);
    }
    PodSpec {
        containers: vec![nginx_container(stack)],
        security_context: Some(security_context),
        // The delay before the stop signal (5 s) plus nginx's limit for the shutdown of its workers (20 s).
        termination_grace_period_seconds: Some(30),
        topology_spread_constraints: Some(pod::spread(stack, Component::Gateway)),
        volumes: Some(volumes),
        ..PodSpec::default()
    }
}

fn nginx_container(stack: &ValidatedStack) -> Container {
    let health = || pod::http_probe("/gateway-health", PORT_NAME);
    let mut script = include_str!("nginx/start.sh").to_owned();
    let mut ports = vec![pod::port(PORT_NAME, PORT)];
    let mut mounts = vec![
        volume::mount("config", CONFIG_DIRECTORY),
        volume::mount("tmp", "/tmp"),
    ];
    if stack.gateway.own_tls().is_some() {
        script.insert_str(0, include_str!("nginx/reload.sh"));
        ports.push(pod::port(TLS_PORT_NAME, TLS_PORT));
        mounts.push(tls::mount());
    }
    Container {
        command: Some(pod::strings(&["sh", "-c", &script])),
        ports: Some(ports),
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
        volume_mounts: Some(mounts),
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
    fn the_deployment_of_a_stack_with_a_certificate() {
        let stack = minimal_stack()
            .standalone()
            .host("go.example.com")
            .tls("go-tls");
        golden("deployment-gateway-tls", &deployment(&stack));
    }

    #[test]
    fn nginx_reads_no_certificate_behind_a_gateway() {
        let stack = minimal_stack().gateway_api().host("go.test").tls("go-tls");
        let pod = deployment(&stack).unwrap().spec.unwrap().template.spec;
        let volumes = pod.unwrap().volumes.unwrap().into_iter();
        let names: Vec<_> = volumes.map(|volume| volume.name).collect();
        assert_eq!(names, ["config", "tmp"]);
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
