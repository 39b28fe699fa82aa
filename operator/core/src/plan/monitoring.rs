//! Monitoring objects for Prometheus and Grafana: scrape targets, alerting rules and a dashboard.

mod alerts;
mod dashboard;
mod panels;
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

/// Returns an expression for one stack. `%STACK%` is replaced by the labels that select the stack's series, `%NAME%`
/// by those that select the operator's metrics about the stack. Names of namespaces and stacks need no escaping.
fn expression(template: &str, identity: &StackIdentity) -> String {
    let labels = |key: &str| {
        let StackIdentity {
            namespace, name, ..
        } = identity;
        format!("namespace=\"{namespace}\",{key}=\"{name}\"")
    };
    let words: Vec<&str> = template.split_whitespace().collect();
    words
        .join(" ")
        .replace("%STACK%", &labels("stack"))
        .replace("%NAME%", &labels("name"))
}

#[cfg(test)]
mod tests;
