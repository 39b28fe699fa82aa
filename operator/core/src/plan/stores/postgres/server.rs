//! The server of the managed database.

use k8s_openapi::api::core::v1::{
    Container, EmptyDirVolumeSource, EnvVar, ExecAction, Lifecycle, LifecycleHandler, PodSpec,
    Probe, Volume,
};

use super::{DATABASE, STORE, USER, connections, restore};
use crate::{
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{ManagedStore, Pod, ValidatedStack},
    },
    plan::{
        objects::{pod, volume},
        stores::common,
    },
};

/// Volume of the data.
pub(super) const DATA: &str = "data";
/// Folder of the data in the containers.
pub(super) const DATA_FOLDER: &str = "/var/lib/postgresql/data";
/// Settings whose defaults do not suit a small volume and a container.
const SETTINGS: [&str; 7] = [
    // The server would be killed if the node offers huge pages that the container may not use.
    "huge_pages=off",
    // The write-ahead log must fit a volume of 1Gi together with the data.
    "max_wal_size=256MB",
    "min_wal_size=64MB",
    // A client that vanished must not hold locks or connections.
    "idle_in_transaction_session_timeout=60s",
    "tcp_keepalives_idle=30",
    "tcp_keepalives_interval=10",
    "tcp_keepalives_count=3",
];

/// The space of the write-ahead log in bytes: it may exceed `max_wal_size` while a checkpoint is written.
const WAL: u64 = 2 * (256 << 20);

/// Returns the number of bytes on the volume that the data may take, at least half of them; `None` if the operator does not
/// run the database.
pub(in crate::plan) fn capacity(stack: &ValidatedStack) -> Option<u64> {
    let store = stack.database.as_ref()?.managed()?;
    let size = store.volume.as_ref()?.usable_bytes()?;
    Some(size.saturating_sub(WAL).max(size / 2))
}

pub(super) fn pod_spec(stack: &ValidatedStack, store: &ManagedStore) -> PodSpec {
    let secret = component_name(&stack.identity.name, Component::Postgres);
    let server = server(&store.pod, &secret);
    let pod = PodSpec {
        containers: vec![server],
        security_context: Some(common::security_context(USER)),
        // The image's stop signal ends sessions at once. The checkpoint takes the rest of the time.
        termination_grace_period_seconds: Some(60),
        volumes: Some(vec![
            common::data_volume(stack, Component::Postgres),
            volume::scratch("run", "16Mi"),
            volume::scratch("tmp", "64Mi"),
            shared_memory(),
        ]),
        ..PodSpec::default()
    };
    restore::before(stack, pod)
}

fn server(settings: &Pod, secret: &str) -> Container {
    Container {
        args: Some(arguments()),
        ports: Some(common::container_ports(&STORE)),
        lifecycle: Some(Lifecycle {
            post_start: Some(LifecycleHandler {
                exec: Some(ExecAction {
                    command: Some(pod::strings(&["sh", "-c", include_str!("set-password.sh")])),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        // Recovery after a crash may take long. A restart would only begin it again.
        startup_probe: Some(pod::with_timing(accepts_connections(), 2, 5, 300)),
        liveness_probe: Some(pod::with_timing(accepts_connections(), 30, 5, 2)),
        readiness_probe: Some(pod::with_timing(accepts_connections(), 10, 5, 2)),
        volume_mounts: Some(vec![
            volume::mount(DATA, DATA_FOLDER),
            volume::mount("run", "/var/run/postgresql"),
            volume::mount("tmp", "/tmp"),
            volume::mount("shm", "/dev/shm"),
        ]),
        ..pod::container("postgres", settings, env(secret))
    }
}

fn arguments() -> Vec<String> {
    let connections = format!("max_connections={}", connections::MAX);
    let settings = std::iter::once(connections).chain(SETTINGS.map(str::to_owned));
    std::iter::once("postgres".to_owned())
        .chain(settings.flat_map(|setting| ["-c".to_owned(), setting]))
        .collect()
}

fn env(secret: &str) -> Vec<EnvVar> {
    vec![
        pod::secret_env("POSTGRES_USER", secret, credentials::USERNAME_KEY),
        pod::secret_env("POSTGRES_PASSWORD", secret, credentials::PASSWORD_KEY),
        pod::env("POSTGRES_DB", DATABASE),
        // A directory below the mount point, because the root of a volume may contain lost+found and have another
        // owner.
        pod::env("PGDATA", "/var/lib/postgresql/data/pgdata"),
    ]
}

/// Returns a probe that connects over TCP, because the server that initialises an empty volume does not listen there.
/// It connects as a user that exists, because otherwise each probe would log an error.
fn accepts_connections() -> Probe {
    let ask = "exec pg_isready --quiet --host 127.0.0.1 --username \"$POSTGRES_USER\" --dbname \"$POSTGRES_DB\"";
    pod::exec_probe(&["sh", "-c", ask])
}

/// Returns the volume for shared memory. Parallel queries use it, and the container runtime's default may be too
/// small. It counts towards the container's memory limit.
fn shared_memory() -> Volume {
    let volume = volume::scratch("shm", "64Mi");
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
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;
    use crate::{
        model::{facts::ClaimFact, stack::Store},
        plan::stores::stateful_set,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_data_may_take_what_the_write_ahead_log_leaves_of_the_volume() {
        const GI: u64 = 1 << 30;
        // Sizes in the spec, in the request of the claim and of the volume.
        for (size, request, volume, expected) in [
            ("10Gi", None, None, 10 * GI - WAL),
            ("1Gi", None, None, WAL),
            ("100Mi", None, None, 50 << 20),
            // A claim that is larger than the spec keeps its size, before and after it has a volume.
            ("1Gi", Some("20Gi"), Some("20Gi"), 20 * GI - WAL),
            ("1Gi", Some("20Gi"), None, 20 * GI - WAL),
            // A volume that has not grown, or cannot grow.
            ("50Gi", Some("50Gi"), Some("10Gi"), 10 * GI - WAL),
            ("50Gi", Some("10Gi"), Some("10Gi"), 10 * GI - WAL),
            // The pods of a new stack stay as they are when its class rounds the size up.
            ("2Gi", Some("2Gi"), None, 2 * GI - WAL),
            ("2Gi", Some("2Gi"), Some("10Gi"), 2 * GI - WAL),
        ] {
            let mut stack = minimal_stack();
            let Some(Store::Managed(store)) = &mut stack.database else {
                panic!("the database is managed");
            };
            let quantity = |size: &str| Quantity(size.to_owned());
            let disk = store.volume.as_mut().unwrap();
            disk.size = quantity(size);
            disk.existing = request.map(|request| ClaimFact {
                request: Some(quantity(request)),
                capacity: volume.map(quantity),
                ..ClaimFact::default()
            });
            let found = capacity(&stack);
            assert_eq!(found, Some(expected), "{size} {request:?} {volume:?}");
        }
        assert_eq!(capacity(&minimal_stack().external_database()), None);
        assert!(SETTINGS.contains(&"max_wal_size=256MB"));
    }

    #[test]
    fn the_server_of_a_minimal_stack() {
        golden(
            "stateful-set-postgres",
            &stateful_set(Component::Postgres, &minimal_stack()).unwrap(),
        );
    }
}
