//! The app: a Deployment that shortens links and redirects, and the Service in front of it.

mod autoscaler;
mod deployment;
mod service;

pub use autoscaler::autoscaler;
pub use deployment::deployment;
pub(super) use deployment::{USER, migrate};
pub use service::service;

/// Port of the public routes.
pub const PORT: i32 = 3000;
/// Name of the port of the public routes.
const PORT_NAME: &str = "http";
