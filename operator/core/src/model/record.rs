//! The record of a workload's pods: what was applied last, and what the operator saw when it last looked.
//!
//! It is an annotation of the workload and so written with the pod template in one request: it outlives the operator,
//! no failure in between can part the two, and whoever may change it may change the template anyway. Only stacks with
//! `upgradePolicy: OnSpecChange` have records.

use std::collections::BTreeMap;

use k8s_openapi::{api::core::v1::PodTemplateSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::{Deserialize, Serialize};

use super::metadata::RECORD;

/// The pods of a workload as a release of the operator renders them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct RenderedPods {
    pub template: PodTemplateSpec,
    /// The data of the ConfigMap that the pods mount. It belongs with the template.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub config: BTreeMap<String, String>,
}

/// The record of a workload's pods. A later release may add fields, which need a default.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PodRecord {
    /// The release that rendered the pods.
    pub release: String,
    /// The pods as they were applied.
    pub pods: RenderedPods,
    /// The last look at the workload.
    pub seen: Look,
}

/// What a release of the operator saw when it looked at a workload.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Look {
    pub release: String,
    /// `metadata.generation` of the stack at the last edit that counts.
    pub generation: Option<i64>,
    /// Digest of the spec.
    pub spec: String,
    /// Value of the annotation with which the user lets the pods restart.
    pub asked: Option<String>,
    /// Digest of the pods as that release renders them, without `secrets`.
    pub rendered: String,
    /// Checksums of the Secrets that the pods use.
    pub secrets: String,
    /// Address of the app, if the configuration has it.
    pub address: Option<String>,
}

impl PodRecord {
    /// Returns the record of a workload; `None` without one that can be read, which counts as no record.
    pub fn of(workload: &ObjectMeta) -> Option<Self> {
        let record = workload.annotations.as_ref()?.get(RECORD)?;
        serde_json::from_str(record).ok()
    }

    /// Adds the record to the metadata of its workload.
    pub fn write(&self, workload: &mut ObjectMeta) {
        // A record is plain data, so this does not fail.
        if let Ok(record) = serde_json::to_string(self) {
            let annotations = workload.annotations.get_or_insert_default();
            annotations.insert(RECORD.to_owned(), record);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_record_is_read_as_it_was_written() {
        let template = json!({
            "metadata": {"labels": {"a": "b"}},
            "spec": {"containers": [{"name": "app", "image": "app:1", "ports": [{"containerPort": 1}]}]},
        });
        let record = PodRecord {
            release: "1".to_owned(),
            pods: RenderedPods {
                template: serde_json::from_value(template).unwrap(),
                config: [("key".to_owned(), "value".to_owned())].into(),
            },
            seen: Look {
                generation: Some(1),
                asked: Some("now".to_owned()),
                ..Look::default()
            },
        };
        let mut workload = ObjectMeta::default();
        record.write(&mut workload);
        assert_eq!(PodRecord::of(&workload), Some(record));
    }

    #[test]
    fn what_is_no_record_counts_as_none() {
        let with = |record: &str| ObjectMeta {
            annotations: Some([(RECORD.to_owned(), record.to_owned())].into()),
            ..ObjectMeta::default()
        };
        assert_eq!(PodRecord::of(&ObjectMeta::default()), None);
        for broken in ["", "{}", r#"{"release": 1}"#] {
            assert_eq!(PodRecord::of(&with(broken)), None, "{broken}");
        }
        // A later release knows more fields, an earlier one fewer.
        let other = r#"{"release": "9", "pods": {"template": {}, "new": 1}, "seen": {"new": 1}}"#;
        let found = PodRecord::of(&with(other)).map(|record| record.release);
        assert_eq!(found.as_deref(), Some("9"));
    }
}
