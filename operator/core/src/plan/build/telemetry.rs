//! The managed backend for demonstrations: Grafana with its stores for traces, logs and metrics in one pod. It is a
//! store like the others, with a volume and credentials.

mod config_map;
mod stateful_set;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use config_map::config_map;
pub use stateful_set::stateful_set;

use super::{pod, store::Port};

/// Port that receives traces and logs.
pub const OTLP_PORT: i32 = 4317;
/// Port of Grafana. The network policy admits no peer. A port-forward still works, because policies do not apply to
/// it.
pub const GRAFANA_PORT: i32 = 3000;
/// Ports of the server.
pub(super) const PORTS: [Port; 2] = [
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
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["100m", "768Mi"], ["2", "2Gi"])
}
