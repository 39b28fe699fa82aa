//! The pod of the managed backend. The public image writes to the volume, or to directories that are deleted with the
//! pod.

use k8s_openapi::api::core::v1::{Container, EnvVar, PodSpec, VolumeMount};

use super::{
    GRAFANA_PORT_NAME, OTLP_PORT_NAME, STORE,
    config_map::{DASHBOARDS_PATH, DATA_SOURCES, PROVIDER, files},
};
use crate::{
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{ManagedStore, ValidatedStack},
    },
    plan::{
        monitoring,
        objects::{pod, volume},
        stores::common,
    },
};

/// An arbitrary user: the image sets none.
const USER: i64 = 10001;
/// Working directory of the programs, also named in `prepare.sh`.
const WORK: &str = "/work";
/// Directory of Grafana's provisioning files.
const PROVISIONING: &str = "/otel-lgtm/grafana/conf/provisioning";
/// Arguments that bound the age of Loki's logs, which have no limit by default. Tempo has its own limit by age.
const LOKI_ARGUMENTS: &str = "-compactor.retention-enabled=true -compactor.delete-request-store=filesystem -store.retention=168h";

/// Returns the digest of the configuration and of the dashboard.
pub(super) fn configuration(stack: &ValidatedStack) -> String {
    let files = files(stack).into_values();
    let config: Vec<String> = files.chain([monitoring::dashboard(stack)]).collect();
    pod::digest(&config.concat())
}

pub(super) fn pod_spec(stack: &ValidatedStack, server: &ManagedStore) -> PodSpec {
    let name = component_name(&stack.identity.name, Component::Telemetry);
    let dashboards = monitoring::config_map_name(&stack.identity.name);
    PodSpec {
        init_containers: Some(vec![prepare(stack, server)]),
        containers: vec![serve(stack, server)],
        security_context: Some(common::security_context(USER)),
        termination_grace_period_seconds: Some(30),
        volumes: Some(vec![
            common::data_volume(stack, Component::Telemetry),
            volume::config("config", name),
            volume::config("dashboards", dashboards),
            volume::scratch("work", "256Mi"),
            volume::scratch("tmp", "256Mi"),
        ]),
        ..PodSpec::default()
    }
}

/// Returns the init container that prepares the programs' working directory and sets the administrator's password
/// from the Secret.
fn prepare(stack: &ValidatedStack, server: &ManagedStore) -> Container {
    Container {
        command: Some(pod::strings(&["sh", "-c", include_str!("prepare.sh")])),
        volume_mounts: Some(mounts()),
        ..pod::container("prepare", &server.pod, env(stack, server))
    }
}

fn serve(stack: &ValidatedStack, server: &ManagedStore) -> Container {
    let answers = || pod::http_probe("/api/health", GRAFANA_PORT_NAME);
    // Readiness depends on the port that the collector uses. Grafana may be ready before this port, and may be busy
    // while traces and logs are still accepted.
    let takes = pod::tcp_probe(OTLP_PORT_NAME);
    Container {
        command: Some(vec![format!("{WORK}/run-all.sh")]),
        working_dir: Some(WORK.to_owned()),
        ports: Some(common::container_ports(&STORE)),
        startup_probe: Some(pod::with_timing(answers(), 2, 5, 150)),
        liveness_probe: Some(pod::with_timing(answers(), 10, 5, 6)),
        readiness_probe: Some(pod::with_timing(takes, 5, 5, 2)),
        volume_mounts: Some(mounts()),
        ..pod::container("lgtm", &server.pod, env(stack, server))
    }
}

fn mounts() -> Vec<VolumeMount> {
    let provisioned = |file: &str, path: &str| VolumeMount {
        sub_path: Some(file.to_owned()),
        ..volume::read_only("config", &format!("{PROVISIONING}/{path}"))
    };
    vec![
        volume::mount("data", "/data"),
        // Tempo keeps data that is not yet part of a block in a directory of its own.
        VolumeMount {
            sub_path: Some("tempo-live".to_owned()),
            ..volume::mount("data", "/var/tempo")
        },
        volume::mount("work", WORK),
        volume::mount("tmp", "/tmp"),
        volume::read_only("config", "/etc/shortener/config"),
        volume::read_only("dashboards", DASHBOARDS_PATH),
        // These files replace the image's own files of the same names.
        provisioned(DATA_SOURCES, "datasources/grafana-datasources.yaml"),
        provisioned(PROVIDER, "dashboards/grafana-dashboards.yaml"),
    ]
}

/// Returns the arguments that bound Prometheus's data by age, with Prometheus's own default, and to a third of the
/// volume, so that metrics leave space for traces and logs.
fn prometheus_arguments(server: &ManagedStore) -> Option<String> {
    let volume = server.volume.as_ref()?.usable_bytes()?;
    Some(format!(
        "--storage.tsdb.retention.time=15d --storage.tsdb.retention.size={}MB",
        volume / 3 / (1 << 20)
    ))
}

fn env(stack: &ValidatedStack, server: &ManagedStore) -> Vec<EnvVar> {
    let secret = component_name(&stack.identity.name, Component::Telemetry);
    let home = format!("{DASHBOARDS_PATH}/{}", monitoring::dashboard_file(stack));
    let mut env = vec![
        pod::secret_env("GF_SECURITY_ADMIN_USER", &secret, credentials::USERNAME_KEY),
        pod::secret_env(
            "GF_SECURITY_ADMIN_PASSWORD",
            &secret,
            credentials::PASSWORD_KEY,
        ),
    ];
    let settings = [
        ("GF_AUTH_ANONYMOUS_ENABLED", "true"),
        ("GF_AUTH_ANONYMOUS_ORG_ROLE", "Viewer"),
        // The links between metrics, traces and logs open in Explore. Viewers cannot save changes there.
        ("GF_USERS_VIEWERS_CAN_EDIT", "true"),
        ("GF_DASHBOARDS_DEFAULT_HOME_DASHBOARD_PATH", home.as_str()),
        ("GF_ANALYTICS_REPORTING_ENABLED", "false"),
        ("GF_ANALYTICS_CHECK_FOR_UPDATES", "false"),
        // Otherwise Grafana 13.2 and later would update its plugins at every start, on a root file system that is
        // read-only.
        ("GF_PLUGINS_PREINSTALL_AUTO_UPDATE", "false"),
        ("GF_LOG_MODE", "console"),
        ("GF_PATHS_LOGS", "/tmp/grafana"),
        ("LGTM_CONFIG_DIR", "/tmp/lgtm"),
        ("LOKI_EXTRA_ARGS", LOKI_ARGUMENTS),
        ("HOME", "/tmp"),
    ];
    env.extend(settings.map(|(name, value)| pod::env(name, value)));
    let prometheus = prometheus_arguments(server);
    env.extend(prometheus.map(|arguments| pod::env("PROMETHEUS_EXTRA_ARGS", arguments)));
    env
}

#[cfg(test)]
mod tests {
    use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

    use super::*;
    use crate::{
        model::{
            facts::ClaimFact,
            stack::{Backend, Collector, Store},
        },
        plan::stores::{config_checksum, stateful_set},
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_server_of_a_backend() {
        let set = stateful_set(Component::Telemetry, &minimal_stack().telemetry()).unwrap();
        golden("stateful-set-telemetry", &set);
    }

    #[test]
    fn only_a_managed_backend_has_a_server() {
        assert_eq!(stateful_set(Component::Telemetry, &minimal_stack()), None);
        assert_eq!(
            stateful_set(Component::Telemetry, &minimal_stack().observability()),
            None
        );
    }

    #[test]
    fn metrics_take_a_third_of_the_volume_whatever_its_size() {
        let stack = minimal_stack().telemetry();
        let mut server = stack.own_backend().unwrap().managed().unwrap().clone();
        // Sizes in the spec, and of a volume whose claim requests as much.
        let table = [
            ("512Mi", None, Some("170MB")),
            ("3Gi", None, Some("1024MB")),
            ("2T", None, Some("635782MB")),
            ("lots", None, None),
            // A volume that has not grown, or cannot grow.
            ("50Gi", Some("3Gi"), Some("1024MB")),
        ];
        for (size, volume, share) in table {
            let quantity = |size: &str| Quantity(size.to_owned());
            let disk = server.volume.as_mut().unwrap();
            disk.size = quantity(size);
            disk.existing = volume.map(|volume| ClaimFact {
                request: Some(quantity(size)),
                capacity: Some(quantity(volume)),
                ..ClaimFact::default()
            });
            let found = prometheus_arguments(&server);
            let found = found
                .as_deref()
                .and_then(|found| found.split("size=").nth(1));
            assert_eq!(found, share, "{size} {volume:?}");
        }
    }

    #[test]
    fn another_password_restarts_the_server() {
        let checksum = |stack: &ValidatedStack| config_checksum(Component::Telemetry, stack);
        let before = minimal_stack().telemetry();
        let mut rotated = before.clone();
        if let Some(Collector::Managed(collector)) = &mut rotated.collector
            && let Backend::Managed(Store::Managed(server)) = &mut collector.backend
        {
            server.checksum = "checksum-of-another-password".to_owned();
        }
        assert_eq!(checksum(&before), checksum(&before.clone()));
        assert_ne!(checksum(&before), checksum(&rotated));
    }
}
