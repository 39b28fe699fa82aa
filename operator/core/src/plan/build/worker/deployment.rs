//! The workers' Deployment. Its replicas are the stack's `spec.workers.replicas`, which `kubectl scale` and an
//! autoscaler change, or the number that `workers.autoscaling` leads to. As in the app, migrations run in an init container, so the app and the workers may start in any
//! order.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, EnvVar, PodSpec},
};

use crate::{
    model::{
        metadata::Component,
        stack::{Queue, ValidatedStack},
    },
    plan::{
        build::{app, otel, purge},
        monitoring::{INTERNAL_PORT, PORT_NAME as INTERNAL_PORT_NAME},
        objects::{deployment, memory, pod},
        stores::{certificates, clients},
    },
};

/// The user in the workers' image.
const USER: i64 = 65532;

/// Returns the Deployment `<stack>-worker`, or `None` without a queue, and for one that is about to be removed.
pub fn deployment(stack: &ValidatedStack) -> Option<Deployment> {
    let queue = stack.queue.as_ref()?;
    if queue.draining.is_some_and(|draining| !draining.workers) {
        return None;
    }
    let template = pod::template(
        stack,
        Component::Worker,
        clients::checksum(stack, Component::Worker),
        certificates::mounted(stack, Component::Worker, pod_spec(stack, queue)),
    );
    Some(deployment::rolling(
        stack,
        Component::Worker,
        queue.workers.replicas,
        template,
    ))
}

fn pod_spec(stack: &ValidatedStack, queue: &Queue) -> PodSpec {
    PodSpec {
        init_containers: Some(vec![app::migrate(stack, env(stack))]),
        containers: vec![work(stack, queue)],
        security_context: Some(pod::security_context(USER)),
        // Longer than the workers' own limit of 60 s for a job in progress. Jobs that are not finished by then are
        // redelivered.
        termination_grace_period_seconds: Some(75),
        topology_spread_constraints: Some(pod::spread(stack, Component::Worker)),
        ..PodSpec::default()
    }
}

fn work(stack: &ValidatedStack, queue: &Queue) -> Container {
    let live = || pod::http_probe("/livez", INTERNAL_PORT_NAME);
    let ready = pod::http_probe("/readyz", INTERNAL_PORT_NAME);
    Container {
        ports: Some(vec![pod::port(INTERNAL_PORT_NAME, INTERNAL_PORT)]),
        startup_probe: Some(pod::with_timing(live(), 1, 2, 60)),
        liveness_probe: Some(pod::with_timing(live(), 10, 5, 3)),
        readiness_probe: Some(pod::with_timing(ready, 2, 2, 2)),
        ..pod::container("worker", &queue.workers.pod, env(stack))
    }
}

fn env(stack: &ValidatedStack) -> Vec<EnvVar> {
    let mut env = clients::env(stack, Component::Worker);
    env.push(pod::name_env());
    env.extend(purge::extent(stack));
    env.extend(memory::env());
    env.extend(otel::env(stack, Component::Worker));
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_workers_of_a_queue() {
        let workers = deployment(&minimal_stack().queue()).unwrap();
        golden("deployment-worker", &workers);
    }

    #[test]
    fn an_external_broker_is_known_by_its_secret_only() {
        let workers = deployment(&minimal_stack().external_queue()).unwrap();
        golden("deployment-worker-external-queue", &workers);
    }

    #[test]
    fn a_stack_without_a_queue_has_no_workers() {
        assert_eq!(deployment(&minimal_stack()), None);
    }

    #[test]
    fn the_number_of_workers_is_the_specs() {
        let mut stack = minimal_stack().queue();
        if let Some(queue) = &mut stack.queue {
            queue.workers.replicas = 3;
        }
        let spec = deployment(&stack).unwrap().spec.unwrap();
        assert_eq!(spec.replicas, Some(3));
    }

    #[test]
    fn workers_that_are_gone_do_not_come_back_for_a_queue_that_is_empty() {
        let mut stack = minimal_stack().queue().draining();
        assert!(deployment(&stack).is_some());
        let queue = stack.queue.as_mut().unwrap();
        queue.draining.as_mut().unwrap().workers = false;
        assert_eq!(deployment(&stack), None);
    }

    #[test]
    fn a_queue_that_is_drained_has_workers_and_no_publisher() {
        let stack = minimal_stack().queue().draining();
        let knows_queue = |env: &[EnvVar]| env.iter().any(|variable| variable.name == "QUEUE_URL");
        assert!(knows_queue(&clients::env(&stack, Component::Worker)));
        assert!(!knows_queue(&clients::env(&stack, Component::App)));
    }
}
