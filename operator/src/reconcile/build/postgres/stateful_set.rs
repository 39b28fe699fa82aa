//! The server of the managed database.

use k8s_openapi::api::{
    apps::v1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy},
    core::v1::{
        Container, EmptyDirVolumeSource, EnvVar, ExecAction, Lifecycle, LifecycleHandler,
        PersistentVolumeClaimVolumeSource, PodSecurityContext, PodSpec, Probe, Volume,
    },
};

use super::{DATABASE, PORT, PORT_NAME};
use crate::{
    metadata::{Component, component_name, selector},
    reconcile::{
        build::{pod, secret},
        stack::{ManagedDatabase, ValidatedStack},
    },
};

/// The user `postgres` of the public image.
const USER: i64 = 999;
/// Settings in which the server's own defaults do not fit a small volume and a container.
const SETTINGS: [&str; 8] = [
    // Ten connections for each pod of the app, those of a rolling update included.
    "max_connections=200",
    // A page size of the node that the container may not use would kill the server.
    "huge_pages=off",
    // The write-ahead log has to fit a volume of 1Gi beside the data.
    "max_wal_size=256MB",
    "min_wal_size=64MB",
    // A client that vanished must not hold locks or connections.
    "idle_in_transaction_session_timeout=60s",
    "tcp_keepalives_idle=30",
    "tcp_keepalives_interval=10",
    "tcp_keepalives_count=3",
];

/// The StatefulSet `<stack>-postgres`.
pub fn stateful_set(stack: &ValidatedStack, database: &ManagedDatabase) -> StatefulSet {
    let identity = &stack.identity;
    let name = component_name(&identity.name, Component::Postgres);
    StatefulSet {
        metadata: identity.child(&name, Component::Postgres),
        spec: Some(StatefulSetSpec {
            replicas: Some(database.replicas),
            selector: selector(&identity.name, Component::Postgres),
            service_name: Some(name.clone()),
            revision_history_limit: Some(pod::REVISION_HISTORY),
            // With the ordered policy a pod that cannot start is never replaced by the repaired template.
            pod_management_policy: Some("Parallel".to_owned()),
            update_strategy: Some(StatefulSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                ..StatefulSetUpdateStrategy::default()
            }),
            template: pod::template(
                stack,
                Component::Postgres,
                &database.pod,
                database.checksum.clone(),
                pod_spec(database, &name),
            ),
            ..StatefulSetSpec::default()
        }),
        ..StatefulSet::default()
    }
}

fn pod_spec(database: &ManagedDatabase, name: &str) -> PodSpec {
    PodSpec {
        containers: vec![server(database, name)],
        security_context: Some(PodSecurityContext {
            fs_group: Some(USER),
            fs_group_change_policy: Some("OnRootMismatch".to_owned()),
            ..pod::security_context(USER)
        }),
        // The image's stop signal ends sessions at once; what takes time is the checkpoint.
        termination_grace_period_seconds: Some(60),
        volumes: Some(vec![
            Volume {
                name: "data".to_owned(),
                persistent_volume_claim: Some(PersistentVolumeClaimVolumeSource {
                    claim_name: name.to_owned(),
                    ..PersistentVolumeClaimVolumeSource::default()
                }),
                ..Volume::default()
            },
            pod::scratch("run", "16Mi"),
            pod::scratch("tmp", "64Mi"),
            shared_memory(),
        ]),
        ..PodSpec::default()
    }
}

fn server(database: &ManagedDatabase, secret: &str) -> Container {
    Container {
        args: Some(arguments()),
        ports: Some(vec![pod::port(PORT_NAME, PORT)]),
        lifecycle: Some(Lifecycle {
            post_start: Some(LifecycleHandler {
                exec: Some(ExecAction {
                    command: Some(pod::strings(&["sh", "-c", include_str!("set-password.sh")])),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        // Recovery after a crash may take long; killing it would only start it again.
        startup_probe: Some(pod::paced(accepts_connections(), 2, 5, 300)),
        liveness_probe: Some(pod::paced(accepts_connections(), 10, 5, 6)),
        readiness_probe: Some(pod::paced(accepts_connections(), 5, 5, 2)),
        volume_mounts: Some(vec![
            pod::mount("data", "/var/lib/postgresql/data"),
            pod::mount("run", "/var/run/postgresql"),
            pod::mount("tmp", "/tmp"),
            pod::mount("shm", "/dev/shm"),
        ]),
        ..pod::container("postgres", &database.pod, env(secret))
    }
}

fn arguments() -> Vec<String> {
    let settings = SETTINGS.iter().flat_map(|&setting| ["-c", setting]);
    std::iter::once("postgres")
        .chain(settings)
        .map(str::to_owned)
        .collect()
}

fn env(secret: &str) -> Vec<EnvVar> {
    vec![
        pod::secret_env("POSTGRES_USER", secret, secret::USERNAME_KEY),
        pod::secret_env("POSTGRES_PASSWORD", secret, secret::PASSWORD_KEY),
        pod::env("POSTGRES_DB", DATABASE),
        // One level below the mount: the root of a volume may hold lost+found and another owner.
        pod::env("PGDATA", "/var/lib/postgresql/data/pgdata"),
    ]
}

/// Asks over TCP, where the server that initialises an empty volume does not listen, and as a user that exists, or
/// every probe would be an error in the server's log.
fn accepts_connections() -> Probe {
    let ask = "exec pg_isready --quiet --host 127.0.0.1 --username \"$POSTGRES_USER\" --dbname \"$POSTGRES_DB\"";
    pod::exec_probe(&["sh", "-c", ask])
}

/// Parallel queries share memory there, and the runtime's default may be smaller. It counts as the container's memory.
fn shared_memory() -> Volume {
    let volume = pod::scratch("shm", "64Mi");
    Volume {
        empty_dir: volume.empty_dir.map(|directory| EmptyDirVolumeSource {
            medium: Some("Memory".to_owned()),
            ..directory
        }),
        ..volume
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_server_of_a_minimal_stack() {
        let stack = minimal_stack();
        let set = stateful_set(&stack, stack.database.managed().unwrap());
        golden("stateful-set-postgres", &set);
    }

    #[test]
    fn the_server_of_a_stopped_stack_has_no_pod() {
        let stack = minimal_stack().stopped();
        let set = stateful_set(&stack, stack.database.managed().unwrap());
        assert_eq!(set.spec.unwrap().replicas, Some(0));
    }
}
