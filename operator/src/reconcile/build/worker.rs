//! The workers: a Deployment that takes jobs from the queue. Nobody connects to them but probes and scrapers.

mod deployment;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use deployment::deployment;

use super::pod;

/// Port of the probes and of the metrics.
pub const INTERNAL_PORT: i32 = 9090;

/// Requests and limits of the workers' container where the user gives none.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["50m", "32Mi"], ["2", "128Mi"])
}
