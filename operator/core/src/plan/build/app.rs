//! The app: a Deployment that shortens links and redirects, and the Services in front of it.

mod autoscaler;
mod deployment;
mod pods;
mod service;

pub use autoscaler::autoscaler;
pub use deployment::deployment;
pub(super) use deployment::{USER, authorities, migrate};
pub use pods::{host_name as pods_host_name, service as pods_service};
pub use service::service;

/// Port of the public routes.
pub const PORT: i32 = 3000;
/// Name of the port of the public routes.
const PORT_NAME: &str = "http";
/// Port of the routes with which the operator manages links.
pub const MANAGEMENT_PORT: i32 = 9091;
/// Name of that port.
const MANAGEMENT_PORT_NAME: &str = "management";
