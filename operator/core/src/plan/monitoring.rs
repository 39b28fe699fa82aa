//! Monitoring objects for Prometheus and Grafana: scrape targets, alerting rules and a dashboard.

mod dashboard;
mod rules;
mod service;
mod service_monitor;

pub use dashboard::{config_map, config_map_name, dashboard, dashboard_file};
pub use rules::prometheus_rule;
pub use service::{service, service_name};
pub use service_monitor::service_monitor;

use crate::model::metadata::StackIdentity;

/// Port of the metrics and of the probes of the app and the workers.
pub const INTERNAL_PORT: i32 = 9090;
/// Port of the collector's own metrics.
pub const COLLECTOR_PORT: i32 = 8888;
/// Name of the port with the metrics in pods and Services.
pub const PORT_NAME: &str = "internal";

/// Returns a template for one stack. Names of namespaces and stacks need no escaping.
fn filled(template: &str, identity: &StackIdentity) -> String {
    template
        .replace("%NAMESPACE%", &identity.namespace)
        .replace("%STACK%", &identity.name)
}

#[cfg(test)]
mod tests;
