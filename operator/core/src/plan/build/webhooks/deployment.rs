//! The Deployment that delivers webhooks. As in the app, migrations run in an init container, which also writes the
//! receivers to the database.

use k8s_openapi::api::{
    apps::v1::Deployment,
    core::v1::{Container, PodSecurityContext, PodSpec, Volume},
};

use super::env;
use crate::{
    model::{
        metadata::Component,
        stack::{ValidatedStack, Webhook},
    },
    plan::{
        build::app,
        monitoring::{INTERNAL_PORT, PORT_NAME as INTERNAL_PORT_NAME},
        objects::{deployment, pod, volume},
        stores::{certificates, clients},
    },
};

/// Folder with a folder for each receiver, which holds its secrets.
pub(super) const SECRETS: &str = "/etc/shortener/webhooks";
/// The entry with the secrets of a receiver.
const KEY: &str = "secret";
/// The time between SIGTERM and SIGKILL, in seconds: longer than the time limit of 15 s of a delivery in progress.
const TERMINATION: i64 = 30;

/// Returns the Deployment `<stack>-webhooks`, or `None` for a stack without receivers.
pub fn deployment(stack: &ValidatedStack) -> Option<Deployment> {
    if stack.webhooks.is_empty() {
        return None;
    }
    let component = Component::Webhooks;
    let pod = certificates::mounted(stack, component, pod_spec(stack));
    let checksum = clients::checksum(stack, component);
    // The policy of its pods denies a proxy the way to its control plane.
    let template = pod::without_sidecar(stack, component, checksum, pod);
    let template = pod::placed_as_the_app(stack, template);
    // Two would deliver no more: they share the limit of each receiver.
    let replicas = i32::from(!stack.stopped);
    Some(deployment::rolling(stack, component, replicas, template))
}

fn pod_spec(stack: &ValidatedStack) -> PodSpec {
    PodSpec {
        init_containers: Some(vec![app::migrate(stack, env::common(stack))]),
        containers: vec![deliver(stack)],
        security_context: Some(PodSecurityContext {
            fs_group: Some(app::USER),
            ..pod::security_context(app::USER)
        }),
        volumes: Some(stack.webhooks.iter().map(secret).collect()),
        termination_grace_period_seconds: Some(TERMINATION),
        ..PodSpec::default()
    }
}

/// Returns the volume with the secrets of a receiver. The kubelet updates the file, so new secrets restart nothing, and a
/// Secret that is missing concerns its receiver only.
fn secret(receiver: &Webhook) -> Volume {
    volume::optional_secret(&volume_name(receiver), receiver.secret.clone(), Some(KEY))
}

fn volume_name(receiver: &Webhook) -> String {
    format!("secret-{}", receiver.name)
}

fn deliver(stack: &ValidatedStack) -> Container {
    let live = || pod::http_probe("/livez", INTERNAL_PORT_NAME);
    let ready = pod::http_probe("/readyz", INTERNAL_PORT_NAME);
    let mounts = stack.webhooks.iter().map(|receiver| {
        let path = format!("{SECRETS}/{}", receiver.name);
        volume::read_only(&volume_name(receiver), &path)
    });
    Container {
        args: Some(vec!["webhooks".to_owned()]),
        ports: Some(vec![pod::port(INTERNAL_PORT_NAME, INTERNAL_PORT)]),
        startup_probe: Some(pod::with_timing(live(), 1, 2, 60)),
        liveness_probe: Some(pod::with_timing(live(), 10, 5, 3)),
        readiness_probe: Some(pod::with_timing(ready, 2, 2, 2)),
        resources: Some(pod::resources(["10m", "32Mi"], ["1", "128Mi"])),
        volume_mounts: Some(mounts.collect()),
        ..pod::container("webhooks", &stack.app.pod, env::deliver(stack))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{
        model::pod_patch::PodPatch,
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
    };

    #[test]
    fn the_delivery_of_webhooks() {
        let stack = minimal_stack().webhooks();
        golden("deployment-webhooks", &deployment(&stack));
    }

    #[test]
    fn an_external_database_and_the_collector_are_known_to_the_delivery() {
        let stack = every_profile().external_database_over_tls().webhooks();
        golden("deployment-webhooks-observed", &deployment(&stack));
    }

    #[test]
    fn a_stack_without_receivers_delivers_nothing_and_one_that_is_stopped_keeps_the_deployment() {
        assert_eq!(deployment(&minimal_stack()), None);
        let stopped = deployment(&minimal_stack().webhooks().stopped()).unwrap();
        assert_eq!(stopped.spec.unwrap().replicas, Some(0));
    }

    #[test]
    fn its_pod_runs_where_the_pods_of_the_app_run_and_has_none_of_their_containers() {
        let changes = json!({"spec": {
            "nodeSelector": {"disk": "ssd"},
            "containers": [{"name": "proxy", "image": "proxy:1"}],
        }});
        let mut stack = minimal_stack().webhooks();
        let changes = PodPatch::read(changes.as_object().unwrap()).unwrap();
        stack.pod_templates.insert(Component::App, changes);
        let template = deployment(&stack).unwrap().spec.unwrap().template;
        let pod = template.spec.unwrap();
        assert_eq!(pod.node_selector.unwrap()["disk"], "ssd");
        assert_eq!(pod.containers.len(), 1);
    }
}
