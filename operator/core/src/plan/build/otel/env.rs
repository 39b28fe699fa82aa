//! Environment variables of the stack's own programs for the collector: those that every OpenTelemetry SDK reads.

use k8s_openapi::api::core::v1::EnvVar;

use super::GRPC_PORT;
use crate::{
    model::{
        metadata::{Component, component_name},
        stack::{Collector, ValidatedStack},
    },
    plan::objects::pod,
};

/// Returns the variables of a component, or none without a collector. They must follow the pod's name
/// ([`pod::name_env`]), to which they refer.
pub(in crate::plan::build) fn env(stack: &ValidatedStack, component: Component) -> Vec<EnvVar> {
    let Some(collector) = &stack.collector else {
        return Vec::new();
    };
    let identity = &stack.identity;
    let endpoint = match collector {
        Collector::Managed(_) | Collector::Held { .. } => {
            let host = component_name(&identity.name, Component::Otel);
            format!("http://{host}:{GRPC_PORT}")
        }
        Collector::External { endpoint } => endpoint.clone(),
    };
    let workload = match component {
        Component::Purge => "k8s.cronjob.name",
        _ => "k8s.deployment.name",
    };
    let attributes = [
        ("k8s.namespace.name", identity.namespace.as_str()),
        (workload, &component_name(&identity.name, component)),
        ("k8s.pod.name", "$(HOSTNAME)"),
        ("shortener.stack", identity.name.as_str()),
    ];
    let attributes = attributes.map(|(name, value)| format!("{name}={value}"));
    vec![
        pod::env("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint),
        pod::referring_env("OTEL_RESOURCE_ATTRIBUTES", attributes.join(",")),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::build::{app, webhooks, worker},
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    #[test]
    fn app_and_workers_know_the_collector_and_who_they_are() {
        let stack = minimal_stack().observability();
        golden("env-telemetry", &env(&stack, Component::App));
    }

    #[test]
    fn an_external_collector_is_known_by_its_address() {
        let env = env(&minimal_stack().external_collector(), Component::Worker);
        assert_eq!(env[0].name, "OTEL_EXPORTER_OTLP_ENDPOINT");
        let endpoint = env[0].value.as_deref();
        assert_eq!(endpoint, Some("https://collector.test:4317"));
    }

    #[test]
    fn a_stack_that_is_not_observed_exports_nothing() {
        assert_eq!(env(&minimal_stack(), Component::App), []);
    }

    #[test]
    fn the_name_of_the_pod_stands_before_what_refers_to_it() {
        let stack = every_profile().webhooks();
        for deployment in [
            app::deployment(&stack),
            worker::deployment(&stack).unwrap(),
            webhooks::deployment(&stack).unwrap(),
        ] {
            let pod = deployment.spec.unwrap().template.spec.unwrap();
            let env = pod.containers[0].env.clone().unwrap();
            let place = |name: &str| env.iter().position(|variable| variable.name == name);
            assert!(place("HOSTNAME").is_some());
            assert!(place("HOSTNAME") < place("OTEL_RESOURCE_ATTRIBUTES"));
        }
    }
}
