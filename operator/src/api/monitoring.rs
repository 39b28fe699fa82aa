//! What those who watch a stack are told of it.

use std::collections::BTreeMap;

use kube::KubeSchema;
use serde::{Deserialize, Serialize};

use super::schema;

/// What a Prometheus operator and a Grafana of the cluster find: a ServiceMonitor, a PrometheusRule and a ConfigMap with a
/// dashboard. The first two only where the cluster has these kinds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[serde(rename_all = "camelCase")]
pub struct MonitoringSpec {
    /// Whether they are there. If absent, they come with the profile `observability`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Labels that they get, for a Prometheus or Grafana that selects by label, such as `release: kube-prometheus-stack`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::labels")]
    #[x_kube(validation = Rule::new(
        "['app.kubernetes.io/name', 'app.kubernetes.io/instance', 'app.kubernetes.io/component', 'app.kubernetes.io/managed-by'].all(key, !(key in self))"
    ).message("monitoring.labels holds a label that the operator sets itself: remove app.kubernetes.io/name, instance, component and managed-by"))]
    pub labels: BTreeMap<String, String>,
}
