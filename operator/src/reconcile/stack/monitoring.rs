//! What those who watch a validated stack are told of it.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

/// What a Prometheus operator and a Grafana of the cluster find.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Monitoring {
    /// Labels by which they select.
    pub labels: BTreeMap<String, String>,
}

impl Monitoring {
    /// Adds the labels to an object's own.
    pub fn label(&self, metadata: &mut ObjectMeta) {
        let labels = metadata.labels.get_or_insert_default();
        labels.extend(self.labels.clone());
    }
}
