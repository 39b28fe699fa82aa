//! The server of the managed vector store.

use k8s_openapi::api::{
    apps::v1::StatefulSet,
    core::v1::{Container, EnvVar, PodSpec},
};

use super::{HTTP_PORT_NAME, PORTS};
use crate::{
    metadata::{Component, component_name},
    reconcile::{
        build::{pod, secret, store},
        stack::{Pod, ValidatedStack},
    },
};

/// The user of the public image's unprivileged variant. The image itself asks for none.
const USER: i64 = 1000;

/// The StatefulSet `<stack>-qdrant`; none without a vector store of the operator's.
pub fn stateful_set(stack: &ValidatedStack) -> Option<StatefulSet> {
    let server = stack.vector.as_ref()?.store.managed()?;
    let checksum = server.checksum.clone();
    let pod_spec = pod_spec(stack, &server.pod);
    Some(store::stateful_set(
        stack,
        Component::Qdrant,
        server,
        checksum,
        pod_spec,
    ))
}

fn pod_spec(stack: &ValidatedStack, settings: &Pod) -> PodSpec {
    let secret = component_name(&stack.identity.name, Component::Qdrant);
    PodSpec {
        containers: vec![server(settings, &secret)],
        security_context: Some(store::security_context(USER)),
        // What takes time is writing out what the log of changes already holds.
        termination_grace_period_seconds: Some(30),
        volumes: Some(vec![
            store::data_volume(stack, Component::Qdrant),
            pod::scratch("snapshots", "1Gi"),
            pod::scratch("init", "16Mi"),
            pod::scratch("tmp", "64Mi"),
        ]),
        ..PodSpec::default()
    }
}

fn server(settings: &Pod, secret: &str) -> Container {
    let live = || pod::http_probe("/livez", HTTP_PORT_NAME);
    let ready = pod::http_probe("/readyz", HTTP_PORT_NAME);
    Container {
        command: Some(pod::strings(&["sh", "-c", include_str!("start.sh")])),
        ports: Some(
            PORTS
                .iter()
                .map(|port| pod::port(port.name, port.number))
                .collect(),
        ),
        // Reading a large collection may take long; killing the server would only start it again.
        startup_probe: Some(pod::paced(live(), 2, 5, 300)),
        liveness_probe: Some(pod::paced(live(), 10, 5, 6)),
        readiness_probe: Some(pod::paced(ready, 5, 5, 2)),
        volume_mounts: Some(vec![
            pod::mount("data", "/qdrant/storage"),
            pod::mount("snapshots", "/qdrant/snapshots"),
            pod::mount("init", "/qdrant/init"),
            pod::mount("tmp", "/tmp"),
        ]),
        ..pod::container("qdrant", settings, env(secret))
    }
}

fn env(secret: &str) -> Vec<EnvVar> {
    vec![
        pod::secret_env("QDRANT__SERVICE__API_KEY", secret, secret::API_KEY),
        // The image writes a file beside its program, which may not be changed, unless told where.
        pod::env("QDRANT_INIT_FILE_PATH", "/qdrant/init/.qdrant-initialized"),
        pod::env("QDRANT__STORAGE__SNAPSHOTS_PATH", "/qdrant/snapshots"),
        // A store may call nobody.
        pod::env("QDRANT__TELEMETRY_DISABLED", "true"),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_server_of_a_vector_store() {
        golden(
            "stateful-set-qdrant",
            &stateful_set(&minimal_stack().vector()).unwrap(),
        );
    }

    #[test]
    fn only_a_managed_vector_store_has_a_server() {
        assert_eq!(stateful_set(&minimal_stack()), None);
        assert_eq!(stateful_set(&minimal_stack().external_vector()), None);
    }
}
