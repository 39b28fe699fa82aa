//! Monitoring objects of a stack for Prometheus and Grafana.

use std::collections::BTreeMap;

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// Monitoring objects for a Prometheus operator and a Grafana in the cluster: a ServiceMonitor, a PrometheusRule and
/// a ConfigMap with a dashboard. The first two are created only if the cluster serves their kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct MonitoringSpec {
    /// Creates the objects when true. If unset, they are created with the profile `observability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Labels added to the objects, for a Prometheus or Grafana that selects by label, such as
    /// `release: kube-prometheus-stack`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(validation = Rule::new(
        "['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by'].all(key, !(key in self))"
    ).message("monitoring.labels holds a label that the operator sets itself: remove app.kubernetes.io/name, instance, component and managed-by"))]
    pub labels: BTreeMap<String, String>,
}
