//! The delivery of webhooks: a Deployment of its own with the app's image, so that a slow receiver takes nothing from the
//! app. Only probes and scrapers connect to its pod.

mod deployment;
mod env;

pub use deployment::deployment;
pub(super) use env::receivers;
