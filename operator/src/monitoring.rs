//! Kinds of the Prometheus operator, as much of them as the stacks use. A cluster may have them or not.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube::CustomResource;
use serde::{Deserialize, Serialize};

/// Whose metrics a Prometheus reads.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "ServiceMonitor",
    plural = "servicemonitors",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase")]
pub struct ServiceMonitorSpec {
    /// The Services whose pods are read.
    pub selector: LabelSelector,
    /// Their ports.
    pub endpoints: Vec<Endpoint>,
}

/// A port of the selected Services.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Endpoint {
    /// Name of the port; a Service without it is left out.
    pub port: String,
    /// Where the metrics are.
    pub path: String,
    /// Labels of every series.
    pub relabelings: Vec<Relabeling>,
}

/// A label of every series.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Relabeling {
    /// Name of the label.
    pub target_label: String,
    /// Its value.
    pub replacement: String,
}

/// Rules by which a Prometheus raises alerts.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "PrometheusRule",
    plural = "prometheusrules",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
pub struct PrometheusRuleSpec {
    /// Groups that are evaluated together.
    pub groups: Vec<RuleGroup>,
}

/// Rules that are evaluated together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct RuleGroup {
    /// Name of the group.
    pub name: String,
    /// Its rules.
    pub rules: Vec<AlertRule>,
}

/// A rule that raises an alert.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct AlertRule {
    /// Name of the alert.
    pub alert: String,
    /// What raises it.
    pub expr: String,
    /// How long that has to hold.
    #[serde(rename = "for")]
    pub hold: String,
    /// Labels of the alert.
    pub labels: BTreeMap<String, String>,
    /// What people read.
    pub annotations: BTreeMap<String, String>,
}
