//! What a Prometheus and a Grafana of the cluster find: where the metrics are, which alerts they raise, and a dashboard.

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

use crate::metadata::StackIdentity;

/// Name of the port with the metrics, in pods and Services.
pub const PORT_NAME: &str = "internal";

/// An expression for one stack: `%STACK%` stands for the labels by which its series are known, `%NAME%` for those of the
/// operator's metrics about stacks. Names of namespaces and stacks need no escaping.
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
