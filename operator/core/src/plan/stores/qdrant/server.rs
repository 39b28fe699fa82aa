//! The server of the managed vector store.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec};

use super::{HTTP_PORT_NAME, STORE};
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

/// The user in the unprivileged variant of the public image. The image itself sets none.
const USER: i64 = 1000;

pub(super) fn pod_spec(stack: &ValidatedStack, store: &ManagedStore) -> PodSpec {
    let secret = component_name(&stack.identity.name, Component::Qdrant);
    PodSpec {
        containers: vec![server(&store.pod, &secret)],
        security_context: Some(common::security_context(USER)),
        // The shutdown writes data to disk that the write-ahead log already holds.
        termination_grace_period_seconds: Some(30),
        volumes: Some(vec![
            common::data_volume(stack, Component::Qdrant),
            volume::scratch("snapshots", "1Gi"),
            volume::scratch("init", "16Mi"),
            volume::scratch("tmp", "64Mi"),
        ]),
        ..PodSpec::default()
    }
}

fn server(settings: &Pod, secret: &str) -> Container {
    let live = || pod::http_probe("/livez", HTTP_PORT_NAME);
    let ready = pod::http_probe("/readyz", HTTP_PORT_NAME);
    Container {
        command: Some(pod::strings(&["sh", "-c", include_str!("start.sh")])),
        ports: Some(common::container_ports(&STORE)),
        // Loading a large collection may take long. A restart would only begin it again.
        startup_probe: Some(pod::with_timing(live(), 2, 5, 300)),
        liveness_probe: Some(pod::with_timing(live(), 10, 5, 6)),
        readiness_probe: Some(pod::with_timing(ready, 5, 5, 2)),
        volume_mounts: Some(vec![
            volume::mount("data", "/qdrant/storage"),
            volume::mount("snapshots", "/qdrant/snapshots"),
            volume::mount("init", "/qdrant/init"),
            volume::mount("tmp", "/tmp"),
        ]),
        ..pod::container("qdrant", settings, env(secret))
    }
}

fn env(secret: &str) -> Vec<EnvVar> {
    vec![
        pod::secret_env("QDRANT__SERVICE__API_KEY", secret, credentials::API_KEY),
        // By default the image writes this file beside its program, in a directory that is read-only here.
        pod::env("QDRANT_INIT_FILE_PATH", "/qdrant/init/.qdrant-initialized"),
        pod::env("QDRANT__STORAGE__SNAPSHOTS_PATH", "/qdrant/snapshots"),
        // The network policy allows a store no outgoing connections.
        pod::env("QDRANT__TELEMETRY_DISABLED", "true"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::stores::stateful_set,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_server_of_a_vector_store() {
        golden(
            "stateful-set-qdrant",
            &stateful_set(Component::Qdrant, &minimal_stack().vector()).unwrap(),
        );
    }

    #[test]
    fn only_a_managed_vector_store_has_a_server() {
        assert_eq!(stateful_set(Component::Qdrant, &minimal_stack()), None);
        assert_eq!(
            stateful_set(Component::Qdrant, &minimal_stack().external_vector()),
            None
        );
    }
}
