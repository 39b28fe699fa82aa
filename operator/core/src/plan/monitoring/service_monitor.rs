//! The ServiceMonitor by which Prometheus finds the metrics of the app, the workers and the collector. The metrics
//! include exemplars, because Prometheus prefers OpenMetrics.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;

use super::PORT_NAME;
use crate::model::{
    metadata::{Component, stack_labels},
    prometheus::{Endpoint, Relabeling, ServiceMonitor, ServiceMonitorSpec},
    stack::ValidatedStack,
};

/// Returns the ServiceMonitor `<stack>`, or `None` if monitoring is off.
pub fn service_monitor(stack: &ValidatedStack) -> Option<ServiceMonitor> {
    let monitoring = stack.monitoring.as_ref()?;
    let identity = &stack.identity;
    let spec = ServiceMonitorSpec {
        // Services without a port of this name are not scraped.
        selector: LabelSelector {
            match_labels: Some(stack_labels(&identity.name)),
            ..LabelSelector::default()
        },
        endpoints: vec![Endpoint {
            port: PORT_NAME.to_owned(),
            path: "/metrics".to_owned(),
            relabelings: vec![Relabeling {
                target_label: "stack".to_owned(),
                replacement: identity.name.clone(),
            }],
        }],
    };
    let mut monitor = ServiceMonitor::new(&identity.name, spec);
    monitor.metadata = identity.child(&identity.name, Component::Stack);
    monitoring.label(&mut monitor.metadata);
    Some(monitor)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        plan::monitoring::{config_map, prometheus_rule},
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_service_monitor_of_a_stack() {
        golden(
            "service-monitor",
            &service_monitor(&minimal_stack().observability()),
        );
    }

    #[test]
    fn those_who_select_by_label_find_everything_of_a_stack_without_profiles() {
        let stack = minimal_stack().told("release", "prometheus");
        let found = [
            service_monitor(&stack).unwrap().metadata,
            prometheus_rule(&stack).unwrap().metadata,
            config_map(&stack).unwrap().metadata,
        ];
        for metadata in found {
            let mut labels = metadata.labels.unwrap();
            assert_eq!(labels.remove("release").as_deref(), Some("prometheus"));
            labels.remove("grafana_dashboard");
            assert_eq!(
                labels,
                crate::model::metadata::labels("acme", Component::Stack)
            );
        }
    }
}
