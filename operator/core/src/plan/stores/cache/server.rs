//! The server of the managed cache.

use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};

use super::{PORT, STORE, config_map::render};
use crate::{
    model::{
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

/// Returns the digest of the configuration.
pub(super) fn configuration(stack: &ValidatedStack) -> Option<String> {
    Some(pod::digest(&render(stack.cache.as_ref()?)))
}

pub(super) fn pod_spec(stack: &ValidatedStack, store: &ManagedStore) -> PodSpec {
    let name = component_name(&stack.identity.name, Component::Cache);
    PodSpec {
        containers: vec![server(&store.pod)],
        security_context: Some(pod::security_context(USER)),
        // The server saves no data, so it terminates at once on SIGTERM.
        termination_grace_period_seconds: Some(10),
        volumes: Some(vec![
            volume::config("config", name.clone()),
            volume::secret("credentials", name, None),
            volume::scratch("data", "16Mi"),
        ]),
        ..PodSpec::default()
    }
}

fn server(settings: &Pod) -> Container {
    Container {
        command: Some(pod::strings(&["sh", "-c", include_str!("start.sh")])),
        ports: Some(common::container_ports(&STORE)),
        startup_probe: Some(pod::with_timing(answers(), 1, 5, 60)),
        liveness_probe: Some(pod::with_timing(answers(), 30, 5, 2)),
        readiness_probe: Some(pod::with_timing(answers(), 10, 5, 2)),
        volume_mounts: Some(vec![
            volume::read_only("config", "/etc/shortener/config"),
            volume::read_only("credentials", "/etc/shortener/credentials"),
            volume::mount("data", "/data"),
        ]),
        ..pod::container("valkey", settings, Vec::new())
    }
}

/// Returns a probe that sends an unauthenticated PING. A server that requires a password answers with an error, a
/// server that hangs does not answer. The probe therefore needs no password.
fn answers() -> Probe {
    let ask = format!(
        "case $(valkey-cli -h 127.0.0.1 -p {PORT} ping 2>&1) in PONG*|*NOAUTH*) ;; *) exit 1 ;; esac"
    );
    pod::exec_probe(&["sh", "-c", &ask])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::stores::{config_checksum, stateful_set},
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_server_of_a_cache() {
        golden(
            "stateful-set-cache",
            &stateful_set(Component::Cache, &minimal_stack().caching()).unwrap(),
        );
    }

    #[test]
    fn only_a_managed_cache_has_a_server() {
        assert_eq!(stateful_set(Component::Cache, &minimal_stack()), None);
        assert_eq!(
            stateful_set(Component::Cache, &minimal_stack().external_cache()),
            None
        );
    }

    #[test]
    fn another_password_or_another_size_restarts_the_server() {
        let checksum = |stack: &ValidatedStack| config_checksum(Component::Cache, stack);
        let before = minimal_stack().caching();
        let (mut rotated, mut larger) = (before.clone(), before.clone());
        if let Some(cache) = &mut larger.cache {
            cache.max_memory *= 2;
        }
        if let Some(crate::model::stack::Store::Managed(server)) =
            rotated.cache.as_mut().map(|cache| &mut cache.store)
        {
            server.checksum = "checksum-of-another-password".to_owned();
        }
        assert_eq!(checksum(&before), checksum(&before.clone()));
        assert_ne!(checksum(&before), checksum(&rotated));
        assert_ne!(checksum(&before), checksum(&larger));
    }
}
