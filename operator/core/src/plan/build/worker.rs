//! The workers: a Deployment that processes jobs from the queue. Only probes and scrapers connect to its pods.

mod deployment;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub use deployment::deployment;

use crate::plan::objects::pod;

/// Returns the default requests and limits of the workers' container.
pub fn default_resources() -> ResourceRequirements {
    pod::resources(["50m", "32Mi"], ["2", "128Mi"])
}
