//! The configuration of the collector. `collector.yaml` is a template: only names between `%` are replaced. Values of
//! headers come from environment variables, which refer to their Secret.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};

use super::{GRPC_PORT, HEALTH_PORT, HTTP_PORT};
use crate::{
    api::OtlpProtocol,
    model::{
        metadata::{Component, component_name},
        stack::{Backend, Headers, ResolvedBackend, ResolvedCollector, ValidatedStack},
    },
    plan::{monitoring::COLLECTOR_PORT, stores::telemetry},
};

/// File name of the configuration.
pub(super) const CONFIG: &str = "collector.yaml";

/// Returns the files of the configuration, or `None` if the operator does not run a collector.
pub fn files(stack: &ValidatedStack) -> Option<BTreeMap<String, String>> {
    let config = render(stack, stack.own_collector()?);
    Some(BTreeMap::from([(CONFIG.to_owned(), config)]))
}

/// Returns the text of the configuration.
pub(super) fn render(stack: &ValidatedStack, collector: &ResolvedCollector) -> String {
    let Exporters {
        all,
        of_traces,
        of_logs,
    } = exporters(stack, &collector.backend);
    include_str!("collector.yaml")
        .replace("%HEALTH_PORT%", &HEALTH_PORT.to_string())
        .replace("%GRPC_PORT%", &GRPC_PORT.to_string())
        .replace("%HTTP_PORT%", &HTTP_PORT.to_string())
        .replace("%METRICS_PORT%", &COLLECTOR_PORT.to_string())
        .replace("%TRACES%", of_traces)
        .replace("%LOGS%", of_logs)
        // This replacement comes last, because its value contains the user's text. JSON is valid YAML.
        .replace("%EXPORTERS%", &all.to_string())
}

/// Returns the name of the variable with the value of a header.
pub(super) fn header_variable(place: usize) -> String {
    format!("BACKEND_HEADER_{place}")
}

struct Exporters {
    all: Value,
    of_traces: &'static str,
    of_logs: &'static str,
}

fn exporters(stack: &ValidatedStack, backend: &Backend) -> Exporters {
    match backend {
        Backend::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Telemetry);
            let endpoint = format!("http://{host}:{}", telemetry::OTLP_PORT);
            Exporters {
                all: json!({"otlp_grpc": grpc(&endpoint, None)}),
                of_traces: "otlp_grpc",
                of_logs: "otlp_grpc",
            }
        }
        Backend::External(backend) => external(backend),
        // The log level suppresses the output of this exporter. The exporter `nop` is not part of every distribution.
        Backend::Nowhere => Exporters {
            all: json!({"debug": {"verbosity": "basic"}}),
            of_traces: "debug",
            of_logs: "debug",
        },
    }
}

/// Returns one exporter for each signal, so that an unavailable backend for one signal does not block the other.
fn external(backend: &ResolvedBackend) -> Exporters {
    let headers = backend.headers.as_ref();
    match backend.protocol {
        OtlpProtocol::Grpc => Exporters {
            all: json!({
                "otlp_grpc/traces": grpc(&backend.traces, headers),
                "otlp_grpc/logs": grpc(&backend.logs, headers),
            }),
            of_traces: "otlp_grpc/traces",
            of_logs: "otlp_grpc/logs",
        },
        OtlpProtocol::Http => Exporters {
            all: json!({
                "otlp_http/traces": with_headers(json!({"traces_endpoint": backend.traces}), headers),
                "otlp_http/logs": with_headers(json!({"logs_endpoint": backend.logs}), headers),
            }),
            of_traces: "otlp_http/traces",
            of_logs: "otlp_http/logs",
        },
    }
}

fn grpc(endpoint: &str, headers: Option<&Headers>) -> Value {
    let plain = endpoint.starts_with("http://");
    with_headers(
        json!({"endpoint": endpoint, "tls": {"insecure": plain}}),
        headers,
    )
}

fn with_headers(mut exporter: Value, headers: Option<&Headers>) -> Value {
    if let Some(headers) = headers {
        let names = headers.names.iter().enumerate();
        let values: Map<String, Value> = names
            .map(|(place, name)| {
                let value = format!("${{env:{}}}", header_variable(place));
                (name.clone(), Value::from(value))
            })
            .collect();
        exporter["headers"] = Value::from(values);
    }
    exporter
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::build,
        testing::{golden, stack::minimal_stack},
    };

    fn config(stack: &ValidatedStack) -> Value {
        let text = render(stack, stack.own_collector().unwrap());
        serde_yaml::from_str(&text).unwrap()
    }

    #[test]
    fn the_config_map_of_a_collector() {
        golden(
            "config-map-otel",
            &build::config_map(&minimal_stack().observability(), Component::Otel),
        );
    }

    #[test]
    fn without_a_backend_everything_is_dropped_below_the_level_of_the_log() {
        let config = config(&minimal_stack().observability());
        assert_eq!(
            config["exporters"],
            json!({"debug": {"verbosity": "basic"}})
        );
        assert_eq!(config["service"]["telemetry"]["logs"]["level"], "warn");
    }

    #[test]
    fn the_stacks_own_backend_takes_everything() {
        let config = config(&minimal_stack().telemetry());
        let endpoint = &config["exporters"]["otlp_grpc"]["endpoint"];
        assert_eq!(endpoint, "http://acme-telemetry:4317");
        for signal in ["traces", "logs"] {
            let pipeline = &config["service"]["pipelines"][signal];
            assert_eq!(pipeline["exporters"], json!(["otlp_grpc"]), "{signal}");
        }
    }

    #[test]
    fn values_of_headers_are_named_and_never_written() {
        let stack = minimal_stack().external_backend(OtlpProtocol::Grpc);
        let config = config(&stack);
        for signal in ["traces", "logs"] {
            let name = format!("otlp_grpc/{signal}");
            let exporter = &config["exporters"][&name];
            assert_eq!(
                exporter["headers"],
                json!({"authorization": "${env:BACKEND_HEADER_0}", "x-scope-orgid": "${env:BACKEND_HEADER_1}"})
            );
            let pipeline = &config["service"]["pipelines"][signal];
            assert_eq!(pipeline["exporters"], json!([name]));
        }
    }

    #[test]
    fn tls_follows_the_scheme_and_http_addresses_are_whole() {
        let grpc = config(&minimal_stack().external_backend(OtlpProtocol::Grpc));
        let insecure = |name: &str| grpc["exporters"][name]["tls"]["insecure"].clone();
        assert_eq!(insecure("otlp_grpc/traces"), false);
        assert_eq!(insecure("otlp_grpc/logs"), true);
        let http = config(&minimal_stack().external_backend(OtlpProtocol::Http));
        let exporters = &http["exporters"];
        assert_eq!(
            exporters["otlp_http/traces"]["traces_endpoint"],
            "https://traces.test:4317"
        );
        assert_eq!(
            exporters["otlp_http/logs"]["logs_endpoint"],
            "http://logs.test:4317"
        );
    }

    #[test]
    fn only_a_managed_collector_is_configured() {
        assert_eq!(files(&minimal_stack()), None);
        assert_eq!(files(&minimal_stack().external_collector()), None);
    }
}
