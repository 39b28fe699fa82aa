//! The collector's Deployment: one pod, and two for a moment during a rollout.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, EnvVar, PodSpec},
};

use super::{
    GRPC_PORT, GRPC_PORT_NAME, HEALTH_PORT, HEALTH_PORT_NAME, HTTP_PORT, HTTP_PORT_NAME,
    config_map::{CONFIG, header_variable, render},
};
use crate::{
    model::{
        metadata::{Component, component_name},
        stack::{Backend, Headers, ResolvedCollector, ValidatedStack},
    },
    plan::{
        monitoring,
        objects::{deployment, pod, volume},
    },
};

/// The user in the public image.
const USER: i64 = 10001;
/// Directory of the collector's configuration.
const CONFIG_PATH: &str = "/etc/shortener/config";

/// Returns the Deployment `<stack>-otel`, or `None` if the operator does not run a collector.
pub fn deployment(stack: &ValidatedStack) -> Option<Deployment> {
    let collector = stack.own_collector()?;
    let config = pod::digest(&render(stack, collector));
    let checksum = match headers(collector) {
        Some(headers) => format!("{}.{config}", headers.checksum),
        None => config,
    };
    let template = pod::template(stack, Component::Otel, checksum, pod_spec(stack, collector));
    Some(deployment::rolling(
        stack,
        Component::Otel,
        collector.replicas,
        template,
    ))
}

fn pod_spec(stack: &ValidatedStack, collector: &ResolvedCollector) -> PodSpec {
    PodSpec {
        containers: vec![collect(collector)],
        security_context: Some(pod::security_context(USER)),
        // On SIGTERM, the collector exports the data in its queues.
        termination_grace_period_seconds: Some(30),
        volumes: Some(vec![volume::config(
            "config",
            component_name(&stack.identity.name, Component::Otel),
        )]),
        ..PodSpec::default()
    }
}

fn collect(collector: &ResolvedCollector) -> Container {
    let answers = || pod::http_probe("/", HEALTH_PORT_NAME);
    Container {
        args: Some(vec![format!("--config={CONFIG_PATH}/{CONFIG}")]),
        ports: Some(vec![
            pod::port(GRPC_PORT_NAME, GRPC_PORT),
            pod::port(HTTP_PORT_NAME, HTTP_PORT),
            pod::port(monitoring::PORT_NAME, monitoring::COLLECTOR_PORT),
            pod::port(HEALTH_PORT_NAME, HEALTH_PORT),
        ]),
        startup_probe: Some(pod::with_timing(answers(), 1, 2, 60)),
        liveness_probe: Some(pod::with_timing(answers(), 10, 5, 3)),
        readiness_probe: Some(pod::with_timing(answers(), 2, 2, 2)),
        volume_mounts: Some(vec![volume::read_only("config", CONFIG_PATH)]),
        ..pod::container("collector", &collector.pod, env(collector))
    }
}

fn env(collector: &ResolvedCollector) -> Vec<EnvVar> {
    let headers = headers(collector).into_iter();
    headers
        .flat_map(|headers| {
            let names = headers.names.iter().enumerate();
            names.map(|(place, name)| {
                pod::secret_env(&header_variable(place), &headers.secret, name)
            })
        })
        .collect()
}

fn headers(collector: &ResolvedCollector) -> Option<&Headers> {
    match &collector.backend {
        Backend::External(backend) => backend.headers.as_ref(),
        Backend::Managed(_) | Backend::Nowhere => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        api::OtlpProtocol,
        model::metadata::CONFIG_CHECKSUM,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_collector_of_a_stack() {
        let collector = deployment(&minimal_stack().observability()).unwrap();
        golden("deployment-otel", &collector);
    }

    #[test]
    fn headers_of_a_backend_come_from_their_secret() {
        let stack = minimal_stack().external_backend(OtlpProtocol::Grpc);
        let spec = deployment(&stack).unwrap().spec.unwrap();
        let env = spec.template.spec.unwrap().containers[0].env.clone();
        golden("env-otel-headers", &env);
    }

    #[test]
    fn only_a_managed_collector_has_a_pod() {
        assert_eq!(deployment(&minimal_stack()), None);
        assert_eq!(deployment(&minimal_stack().external_collector()), None);
    }

    #[test]
    fn another_backend_or_another_header_restarts_the_collector() {
        let checksum = |stack: &ValidatedStack| {
            let template = deployment(stack).unwrap().spec.unwrap().template;
            template.metadata.unwrap().annotations.unwrap()[CONFIG_CHECKSUM].clone()
        };
        let before = minimal_stack().external_backend(OtlpProtocol::Grpc);
        let mut rotated = before.clone();
        if let Some(crate::model::stack::Collector::Managed(collector)) = &mut rotated.collector
            && let Backend::External(backend) = &mut collector.backend
            && let Some(headers) = &mut backend.headers
        {
            headers.checksum = "checksum-of-another-token".to_owned();
        }
        let other = minimal_stack().external_backend(OtlpProtocol::Http);
        assert_eq!(checksum(&before), checksum(&before.clone()));
        assert_ne!(checksum(&before), checksum(&rotated));
        assert_ne!(checksum(&before), checksum(&other));
    }
}
