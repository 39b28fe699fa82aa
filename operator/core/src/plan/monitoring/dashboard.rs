//! The dashboard of a stack in a ConfigMap that Grafana's sidecar and the managed backend read.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::filled;
use crate::{
    model::{
        metadata::{Component, StackIdentity},
        stack::ValidatedStack,
    },
    plan::objects::pod,
};

/// Label by which Grafana's sidecar finds dashboards.
const LABEL: (&str, &str) = ("grafana_dashboard", "1");
/// Maximum length of a dashboard's uid in Grafana.
const UID_LENGTH: usize = 40;

/// Returns the name of the ConfigMap with the dashboard.
pub fn config_map_name(stack: &str) -> String {
    format!("{stack}-dashboards")
}

/// Returns the ConfigMap `<stack>-dashboards`, or `None` if nothing shows it. A Grafana of the cluster finds it by
/// its labels, the stack's own Grafana by its name.
pub fn config_map(stack: &ValidatedStack) -> Option<ConfigMap> {
    if !stack.has_metrics_consumer() {
        return None;
    }
    let identity = &stack.identity;
    let mut metadata = identity.child(config_map_name(&identity.name), Component::Stack);
    if let Some(monitoring) = &stack.monitoring {
        let labels = metadata.labels.get_or_insert_default();
        labels.insert(LABEL.0.to_owned(), LABEL.1.to_owned());
        monitoring.label(&mut metadata);
    }
    Some(ConfigMap {
        metadata,
        data: Some(BTreeMap::from([(dashboard_file(stack), dashboard(stack))])),
        ..ConfigMap::default()
    })
}

/// Returns the file name of the dashboard. It is unique, because the sidecar puts the files of every namespace into
/// one directory.
pub fn dashboard_file(stack: &ValidatedStack) -> String {
    let StackIdentity {
        namespace, name, ..
    } = &stack.identity;
    format!("shortener-{namespace}.{name}.json")
}

/// Returns the dashboard as Grafana's JSON. The rows of a part that is off stay empty.
pub fn dashboard(stack: &ValidatedStack) -> String {
    let StackIdentity {
        namespace, name, ..
    } = &stack.identity;
    // Hashed, because namespace and name together may be too long.
    let uid: String = pod::digest(&format!("{namespace}/{name}"))
        .chars()
        .take(UID_LENGTH)
        .collect();
    filled(include_str!("dashboard.json"), &stack.identity).replace("%UID%", &uid)
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::testing::{golden, golden_text, stack::minimal_stack};

    #[test]
    fn the_dashboard_of_a_stack() {
        let stack = minimal_stack().observability();
        golden_text("dashboard", &dashboard(&stack));
        let mut map = config_map(&stack).unwrap();
        assert_eq!(
            map.data.take().unwrap()[&dashboard_file(&stack)],
            dashboard(&stack)
        );
        golden("config-map-dashboards", &map);
    }

    #[test]
    fn only_the_stacks_own_grafana_finds_the_dashboard_of_a_stack_that_nobody_is_told_of() {
        let mut stack = minimal_stack().telemetry();
        stack.monitoring = None;
        let labels = config_map(&stack).unwrap().metadata.labels.unwrap();
        assert!(!labels.contains_key(LABEL.0), "{labels:?}");
        let mut stack = minimal_stack().observability();
        stack.monitoring = None;
        assert_eq!(config_map(&stack), None);
    }

    #[test]
    fn every_panel_has_a_place_and_a_number_of_its_own() {
        let dashboard: Value =
            serde_json::from_str(&dashboard(&minimal_stack().observability())).unwrap();
        let panels = dashboard["panels"].as_array().unwrap();
        for key in ["id", "gridPos"] {
            let mut seen: Vec<String> = panels.iter().map(|panel| panel[key].to_string()).collect();
            seen.sort();
            seen.dedup();
            assert_eq!(seen.len(), panels.len(), "{key}");
        }
    }

    #[test]
    fn dashboards_of_two_stacks_do_not_get_into_each_others_way() {
        let one = minimal_stack().observability();
        let mut other = one.clone();
        other.identity.namespace = "links-2".to_owned();
        let uid = |stack: &ValidatedStack| {
            let dashboard: Value = serde_json::from_str(&dashboard(stack)).unwrap();
            dashboard["uid"].as_str().unwrap().to_owned()
        };
        assert_eq!(uid(&one).len(), UID_LENGTH);
        assert_ne!(uid(&one), uid(&other));
        assert_ne!(dashboard_file(&one), dashboard_file(&other));
    }
}
