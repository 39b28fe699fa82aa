//! The managed collector: an OpenTelemetry collector that receives traces and logs from the stack's own programs and
//! exports them. It stores no data, so it is a Deployment.

mod config_map;
mod deployment;
mod env;
mod service;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use config_map::files;
pub use deployment::deployment;
pub(super) use env::env;
pub use service::service;

use crate::plan::objects::pod;

/// Port of OTLP over gRPC.
pub const GRPC_PORT: i32 = 4317;
/// Port of OTLP over HTTP.
pub const HTTP_PORT: i32 = 4318;
/// Port of the probes.
const HEALTH_PORT: i32 = 13133;
/// Name of the port of OTLP over gRPC.
const GRPC_PORT_NAME: &str = "otlp-grpc";
/// Name of the port of OTLP over HTTP.
const HTTP_PORT_NAME: &str = "otlp-http";
/// Name of the port of the probes.
const HEALTH_PORT_NAME: &str = "health";

/// Returns the default requests and limits of the collector's container.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["20m", "64Mi"], ["1", "256Mi"])
}
