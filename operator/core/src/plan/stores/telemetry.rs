//! The backend for demonstrations: Grafana with its stores for traces, logs and metrics in one pod. It is a store like
//! the others, with a volume and credentials. An external backend is no store: only the collector uses it.

mod config_map;
mod resolve;
mod server;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub(in crate::plan) use resolve::resolve;

use super::{Definition, Port};
use crate::{
    api::{Profile, ShortenerStackSpec},
    model::{
        credentials::{PASSWORD_KEY, USERNAME_KEY},
        metadata::Component,
    },
    plan::objects::pod,
};

/// The backend among the stores.
pub(in crate::plan) const STORE: Definition = Definition {
    component: Component::Telemetry,
    field: "observability.backend",
    noun: "backend",
    profile: Some(Profile::Observability),
    keys: &[USERNAME_KEY, PASSWORD_KEY],
    parts: &[],
    ports: &PORTS,
    clients: &[Component::Otel],
    // It scrapes metrics, and Grafana downloads parts of itself.
    egress: true,
    wanted,
    external: |_, _| None,
    store: |stack| stack.own_backend(),
    // The collector's configuration contains the address.
    env: |_, _| Vec::new(),
    rendered_secret: |_| None,
    files: |stack| {
        stack.own_backend()?.managed()?;
        Some(config_map::files(stack))
    },
    configuration: |stack| Some(server::configuration(stack)),
    pod: server::pod_spec,
    // `TelemetryReady` includes it.
    condition: None,
};

/// Returns true when a spec has the stack's own backend.
fn wanted(spec: &ShortenerStackSpec) -> bool {
    let observability = &spec.observability;
    observability.backend.managed.is_some() && observability.collector.external.is_none()
}

/// Port that receives traces and logs.
pub(in crate::plan) const OTLP_PORT: i32 = 4317;
/// Port of Grafana. The network policy admits no peer. A port-forward still works, because policies do not apply to
/// it.
const GRAFANA_PORT: i32 = 3000;
/// Ports of the server.
const PORTS: [Port; 2] = [
    Port {
        name: OTLP_PORT_NAME,
        number: OTLP_PORT,
        clients: true,
        operator: false,
    },
    Port {
        name: GRAFANA_PORT_NAME,
        number: GRAFANA_PORT,
        clients: false,
        operator: false,
    },
];
/// Name of the port that receives traces and logs.
const OTLP_PORT_NAME: &str = "otlp-grpc";
/// Name of Grafana's port.
const GRAFANA_PORT_NAME: &str = "grafana";

/// Returns the default requests and limits of the server's container, which six programs share.
fn default_resources() -> ResourceRequirements {
    pod::resources(["100m", "768Mi"], ["2", "2Gi"])
}
