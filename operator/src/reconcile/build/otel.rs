//! The managed collector: an OpenTelemetry collector that takes traces and logs from the stack's own programs and sends
//! them on. It keeps nothing, so it is a Deployment.

mod config_map;
mod deployment;
mod env;
mod service;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use config_map::config_map;
pub use deployment::deployment;
pub(super) use env::env;
pub use service::service;

use super::pod;

/// Port of OTLP by gRPC.
pub const GRPC_PORT: i32 = 4317;
/// Port of OTLP by HTTP.
pub const HTTP_PORT: i32 = 4318;
/// Port of the collector's own metrics.
pub const METRICS_PORT: i32 = 8888;
/// Port of the probes.
const HEALTH_PORT: i32 = 13133;
/// Name of the port of OTLP by gRPC.
const GRPC_PORT_NAME: &str = "otlp-grpc";
/// Name of the port of OTLP by HTTP.
const HTTP_PORT_NAME: &str = "otlp-http";
/// Name of the port of the probes.
const HEALTH_PORT_NAME: &str = "health";

/// Requests and limits of the collector's container where the user gives none.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["20m", "64Mi"], ["1", "256Mi"])
}
