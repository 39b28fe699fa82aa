//! The monitoring settings of a validated stack.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// Settings of the monitoring objects for Prometheus and Grafana.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monitoring {
    /// Labels by which Prometheus and Grafana select the objects.
    pub labels: BTreeMap<String, String>,
}

impl Monitoring {
    /// Adds the labels to those of an object.
    pub fn label(&self, metadata: &mut ObjectMeta) {
        let labels = metadata.labels.get_or_insert_default();
        labels.extend(self.labels.clone());
    }
}
