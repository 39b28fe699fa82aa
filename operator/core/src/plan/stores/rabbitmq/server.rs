//! The server of the managed broker.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, Probe};

use super::{
    PORT_NAME, STORE,
    config_map::{CONFIG, PLUGINS, PLUGINS_TEXT, RESOLVER, render},
};
use crate::{
    model::{
        credentials::DEFINITIONS_KEY,
        metadata::{Component, component_name},
        stack::{ManagedStore, Pod, ValidatedStack},
    },
    plan::{
        objects::{pod, volume},
        stores::common,
    },
};

/// The user in the public image.
const USER: i64 = 999;
/// Directory of the server's configuration.
const CONFIG_PATH: &str = "/etc/shortener/config";
/// Directory of the server's definitions.
const DEFINITIONS_PATH: &str = "/etc/shortener/definitions";
/// Directory of files that need not outlive the pod.
const SCRATCH_PATH: &str = "/run/rabbitmq";
/// Variable with the arguments of the Erlang VM.
const ARGUMENTS: &str = "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS";
/// Busy-waiting schedulers would use a whole core while idle.
const IDLE_SCHEDULERS: &str = "+sbwt none +sbwtdcpu none +sbwtdio none";
/// Erlang's distribution port is needed only inside the pod.
const INSIDE_ONLY: &str = "-kernel inet_dist_use_interface {127,0,0,1}";
/// Variables with which the Erlang VM uses no more memory than it needs.
const SPARING: [(&str, &str); 2] = [
    // A dump of the whole memory would not fit.
    ("ERL_CRASH_DUMP_SECONDS", "0"),
    // Otherwise the port tables take the size of the node's limit of open files, up to gigabytes.
    ("ERL_MAX_PORTS", "4096"),
];

/// Returns the checksum of the operator's user and the digest of the configuration. The definitions are not part of it: a
/// new password changes the checksum of its user, and new limits reach the running server.
pub(super) fn configuration(stack: &ValidatedStack) -> Option<String> {
    let queue = stack.queue.as_ref()?;
    let config = format!("{}{PLUGINS_TEXT}", render(queue));
    let operator = &queue.operator.as_ref()?.checksum;
    Some(format!("{operator}.{}", pod::digest(&config)))
}

pub(super) fn pod_spec(stack: &ValidatedStack, store: &ManagedStore) -> PodSpec {
    let name = component_name(&stack.identity.name, Component::Rabbitmq);
    PodSpec {
        containers: vec![server(&store.pod)],
        security_context: Some(common::security_context(USER)),
        // On SIGTERM, the server closes connections and writes its data to disk before it terminates.
        termination_grace_period_seconds: Some(60),
        volumes: Some(vec![
            common::data_volume(stack, Component::Rabbitmq),
            volume::config("config", name.clone()),
            volume::secret("definitions", name, Some(DEFINITIONS_KEY)),
            volume::scratch("scratch", "64Mi"),
            volume::scratch("tmp", "64Mi"),
        ]),
        ..PodSpec::default()
    }
}

fn server(settings: &Pod) -> Container {
    Container {
        args: Some(pod::strings(&["sh", "-c", include_str!("start.sh")])),
        ports: Some(common::container_ports(&STORE)),
        // Recovery after a crash may take long. A restart would only begin it again.
        startup_probe: Some(pod::with_timing(accepts_connections(), 2, 5, 300)),
        liveness_probe: Some(pod::with_timing(accepts_connections(), 10, 5, 6)),
        readiness_probe: Some(pod::with_timing(accepts_connections(), 5, 5, 2)),
        volume_mounts: Some(vec![
            volume::mount("data", "/var/lib/rabbitmq"),
            volume::read_only("config", CONFIG_PATH),
            volume::read_only("definitions", DEFINITIONS_PATH),
            volume::mount("scratch", SCRATCH_PATH),
            volume::mount("tmp", "/tmp"),
        ]),
        ..pod::container("rabbitmq", settings, env())
    }
}

fn env() -> Vec<EnvVar> {
    let arguments = format!("{IDLE_SCHEDULERS} {INSIDE_ONLY}");
    let first = [
        // The node name is part of the path of its data. The pod's name would be stable enough, but only this name
        // resolves without a DNS server, which the network policy blocks.
        ("RABBITMQ_NODENAME", "rabbit@localhost"),
        // Erlang requires that only its owner can read the cookie, but the volume's group can read everything on the
        // volume.
        ("HOME", SCRATCH_PATH),
        ("RABBITMQ_CONFIG_FILE", &format!("{CONFIG_PATH}/{CONFIG}")),
        (
            "RABBITMQ_ENABLED_PLUGINS_FILE",
            &format!("{CONFIG_PATH}/{PLUGINS}"),
        ),
        ("ERL_INETRC", &format!("{CONFIG_PATH}/{RESOLVER}")),
        ("RABBITMQ_LOGS", "-"),
        // The server opens an empty log file in this directory anyway.
        ("RABBITMQ_LOG_BASE", SCRATCH_PATH),
    ];
    let last = [("ERL_EPMD_ADDRESS", "127.0.0.1"), (ARGUMENTS, &arguments)];
    let all = first.into_iter().chain(SPARING).chain(last);
    all.map(|(name, value)| pod::env(name, value)).collect()
}

/// Returns the variables for a member of a broker that RabbitMQ's operator runs, which has its own for the rest.
pub(super) fn of_member() -> Vec<EnvVar> {
    let all = SPARING.into_iter().chain([(ARGUMENTS, IDLE_SCHEDULERS)]);
    all.map(|(name, value)| pod::env(name, value)).collect()
}

/// Returns a probe that opens a TCP connection. `rabbitmq-diagnostics` would start an Erlang VM for each probe, which
/// takes a second of CPU time and more memory than the limit leaves.
fn accepts_connections() -> Probe {
    pod::tcp_probe(PORT_NAME)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::stores::{config_checksum, stateful_set},
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_server_of_a_queue() {
        let set = stateful_set(Component::Rabbitmq, &minimal_stack().queue()).unwrap();
        golden("stateful-set-rabbitmq", &set);
    }

    #[test]
    fn only_a_managed_broker_has_a_server() {
        assert_eq!(stateful_set(Component::Rabbitmq, &minimal_stack()), None);
        assert_eq!(
            stateful_set(Component::Rabbitmq, &minimal_stack().external_queue()),
            None
        );
    }

    #[test]
    fn another_limit_reaches_a_running_server_and_another_password_a_restarted_one() {
        let checksum = |stack: &ValidatedStack| config_checksum(Component::Rabbitmq, stack);
        let before = minimal_stack().queue();
        let (mut limited, mut larger) = (before.clone(), before.clone());
        let mut rotated = before.clone();
        if let Some(operator) = rotated.queue.as_mut().unwrap().operator.as_mut() {
            operator.checksum = "checksum-of-another-password".to_owned();
        }
        if let Some(queue) = &mut limited.queue {
            queue.limits.deliveries = 9;
        }
        if let Some(queue) = &mut larger.queue {
            queue.broker_memory *= 2;
        }
        assert_eq!(checksum(&before), checksum(&limited));
        assert_ne!(checksum(&before), checksum(&larger));
        assert_ne!(checksum(&before), checksum(&rotated));
    }
}
