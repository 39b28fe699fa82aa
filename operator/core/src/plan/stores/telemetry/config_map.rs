//! The configuration of the managed backend: Grafana's data sources with the links between them, and Prometheus's
//! scrape targets. The files are templates: only names between `%` are replaced.

use std::collections::BTreeMap;

use crate::{
    model::{
        metadata::{Component, component_name},
        stack::ValidatedStack,
    },
    plan::monitoring,
};

/// File name of Grafana's data sources.
pub(super) const DATA_SOURCES: &str = "datasources.yaml";
/// File name of Grafana's dashboard provider.
pub(super) const PROVIDER: &str = "dashboards.yaml";
/// File name of Prometheus's configuration, also used in `prepare.sh`.
const PROMETHEUS: &str = "prometheus.yaml";
/// Directory of the dashboards.
pub(super) const DASHBOARDS_PATH: &str = "/etc/shortener/dashboards";

/// Returns the files by name.
pub(super) fn files(stack: &ValidatedStack) -> BTreeMap<String, String> {
    let provider = include_str!("dashboards.yaml").replace("%DASHBOARDS%", DASHBOARDS_PATH);
    BTreeMap::from([
        (
            DATA_SOURCES.to_owned(),
            include_str!("datasources.yaml").to_owned(),
        ),
        (PROVIDER.to_owned(), provider),
        (PROMETHEUS.to_owned(), prometheus(stack)),
    ])
}

fn prometheus(stack: &ValidatedStack) -> String {
    let identity = &stack.identity;
    let metrics = |component| monitoring::service_name(&identity.name, component);
    include_str!("prometheus.yaml")
        .replace("%APP%", &metrics(Component::App))
        .replace("%WORKER%", &metrics(Component::Worker))
        .replace("%WEBHOOKS%", &metrics(Component::Webhooks))
        .replace("%INTERNAL_PORT%", &monitoring::INTERNAL_PORT.to_string())
        .replace(
            "%COLLECTOR%",
            &component_name(&identity.name, Component::Otel),
        )
        .replace("%COLLECTOR_PORT%", &monitoring::COLLECTOR_PORT.to_string())
        .replace("%NAMESPACE%", &identity.namespace)
        .replace("%STACK%", &identity.name)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::{
        plan::build,
        testing::{golden, stack::minimal_stack},
    };

    fn file(name: &str) -> Value {
        let stack = minimal_stack().telemetry();
        serde_yaml::from_str(&files(&stack)[name]).unwrap()
    }

    #[test]
    fn the_config_map_of_a_backend() {
        golden(
            "config-map-telemetry",
            &build::config_map(&minimal_stack().telemetry(), Component::Telemetry),
        );
    }

    #[test]
    fn the_data_sources_lead_from_exemplar_to_trace_to_logs_and_back() {
        let sources = file(DATA_SOURCES)["datasources"].clone();
        let settings = |uid: &str| {
            let mut all = sources.as_array().unwrap().iter();
            all.find(|source| source["uid"] == uid).unwrap()["jsonData"].clone()
        };
        assert_eq!(
            settings("prometheus")["exemplarTraceIdDestinations"][0]["datasourceUid"],
            "tempo"
        );
        let to_logs = settings("tempo")["tracesToLogsV2"].clone();
        assert_eq!(to_logs["datasourceUid"], "loki");
        let query = to_logs["query"].as_str().unwrap();
        assert!(
            query.ends_with(r#"| trace_id = "$${__trace.traceId}""#),
            "{query}"
        );
        // A label that Loki creates by default and that the app and the workers share.
        assert_eq!(to_logs["tags"][0]["value"], "k8s_namespace_name");
        let back = settings("loki")["derivedFields"][0].clone();
        assert_eq!(
            (&back["datasourceUid"], &back["matcherType"]),
            (&json!("tempo"), &json!("label"))
        );
    }

    #[test]
    fn prometheus_reads_every_pod_of_app_and_workers_under_the_labels_of_the_alerts() {
        let jobs = file(PROMETHEUS)["scrape_configs"].clone();
        for (place, service) in [
            "acme-app-metrics",
            "acme-worker-metrics",
            "acme-webhooks-metrics",
        ]
        .iter()
        .enumerate()
        {
            assert_eq!(jobs[place]["dns_sd_configs"][0]["names"], json!([service]));
            let labels = &jobs[place]["relabel_configs"];
            assert_eq!(
                labels[0],
                json!({"target_label": "namespace", "replacement": "links"})
            );
            assert_eq!(
                labels[1],
                json!({"target_label": "stack", "replacement": "acme"})
            );
        }
    }

    #[test]
    fn only_a_managed_backend_is_configured() {
        let stack = minimal_stack().observability();
        assert_eq!(build::config_map(&stack, Component::Telemetry), None);
    }
}
