//! Kinds of the Prometheus operator, with only the fields that stacks use. A cluster may lack these kinds.
//!
//! Every field has a default, because an object that does not parse would end the watch of its kind.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::LabelSelector;
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_yaml::Value;

/// Spec of a ServiceMonitor, which selects the Services that a Prometheus scrapes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "ServiceMonitor",
    plural = "servicemonitors",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(rename_all = "camelCase", default)]
pub struct ServiceMonitorSpec {
    /// Selector of the Services whose pods are scraped.
    pub selector: LabelSelector,
    /// Ports to scrape.
    pub endpoints: Vec<Endpoint>,
}

/// A port to scrape on the selected Services.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Endpoint {
    /// Name of the port; Services without such a port are ignored.
    pub port: String,
    /// HTTP path of the metrics.
    pub path: String,
    /// Rules that set labels on every series.
    pub relabelings: Vec<Relabeling>,
}

/// A rule that sets a label on every series.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Relabeling {
    /// Name of the label.
    pub target_label: String,
    /// Value of the label.
    pub replacement: String,
}

/// Spec of a PrometheusRule: alerting rules of a Prometheus.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "monitoring.coreos.com",
    version = "v1",
    kind = "PrometheusRule",
    plural = "prometheusrules",
    namespaced,
    schema = "disabled",
    derive = "PartialEq"
)]
#[serde(default)]
pub struct PrometheusRuleSpec {
    /// Groups of rules, whose fields the operator does not interpret.
    pub groups: Vec<Value>,
}
