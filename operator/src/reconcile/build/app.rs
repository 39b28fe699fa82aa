//! The app: a Deployment that shortens and redirects, and the Service in front of it.

mod deployment;
mod service;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use deployment::deployment;
pub(super) use deployment::migrate;
pub use service::service;

use super::pod;

/// Port of the public routes.
pub const PORT: i32 = 3000;
/// Port of the probes and of the scrape copy of the metrics.
pub const INTERNAL_PORT: i32 = 9090;
/// Name of the port of the public routes.
const PORT_NAME: &str = "http";

/// Requests and limits of the app's container where the user gives none.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["50m", "32Mi"], ["2", "128Mi"])
}
