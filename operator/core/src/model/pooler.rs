//! The kind of a pooler that CloudNativePG runs before a Cluster, with only the fields that stacks use. A cluster may lack it.
//!
//! Every field has a default, because an object that does not parse would end the watch of its kind.

use std::{collections::BTreeMap, sync::Arc};

use k8s_openapi::{
    api::{apps::v1::Deployment, core::v1::Pod},
    apimachinery::pkg::apis::meta::v1::LabelSelector,
};
use kube_derive::CustomResource;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use crate::model::{
    cloud_native_pg,
    kinds::Deletion,
    metadata::{Component, StackIdentity, component_of},
    ownership::is_ours,
    pod_uses,
};

/// Label of the pods of a Pooler, with its name.
const NAME_LABEL: &str = "cnpg.io/poolerName";
/// Setting of the stack's programs with the host of the pooler.
pub const HOST_SETTING: &str = "DATABASE_POOLER_HOST";
/// Port of the metrics of a pod of a Pooler.
pub const METRICS_PORT: i32 = 9127;

/// Spec of a Pooler.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, CustomResource)]
#[kube(
    crates(kube_core = "::kube_core"),
    group = "postgresql.cnpg.io",
    version = "v1",
    kind = "Pooler",
    plural = "poolers",
    namespaced,
    schema = "disabled",
    status = "PoolerStatus",
    derive = "PartialEq"
)]
pub struct PoolerSpec {
    #[serde(flatten)]
    pub fields: Map<String, Value>,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct PoolerStatus {
    /// Phase that CloudNativePG 1.30 or later reports, such as `active`.
    pub phase: String,
    /// Its reason.
    pub phase_reason: String,
    /// Why CloudNativePG refuses the spec.
    pub error: String,
}

impl Pooler {
    /// Returns why CloudNativePG does not run it as the spec says, if it reports that.
    pub fn problem(&self) -> Option<&str> {
        let status = self.status.as_ref()?;
        let stands = ["inactive", "failed"].contains(&status.phase.as_str());
        let reason = stands.then_some(status.phase_reason.as_str());
        let said = [status.error.as_str()].into_iter().chain(reason);
        said.into_iter().find(|said| !said.is_empty())
    }
}

/// Returns the name of the Pooler of a stack, and of its Service.
pub fn name(stack: &str) -> String {
    format!("{}-pooler", cloud_native_pg::name(stack))
}

/// Returns the selector of the pods of the Pooler of a stack.
pub fn selector(stack: &str) -> LabelSelector {
    LabelSelector {
        match_labels: Some([(NAME_LABEL.to_owned(), name(stack))].into()),
        ..LabelSelector::default()
    }
}

/// Returns true when the stack has a Pooler and a pod of its programs may still connect to it. `programs` are the programs that
/// run on, and `pods` those of the stack.
pub fn is_in_use(
    live: Option<&Pooler>,
    identity: &StackIdentity,
    programs: &BTreeMap<Component, Arc<Deployment>>,
    pods: &[Arc<Pod>],
) -> bool {
    let exists = live.is_some_and(|live| is_ours(&live.metadata, identity, Deletion::Pruned));
    let ends = pods.iter().any(|pod| {
        pod.metadata.deletion_timestamp.is_some()
            && programs.contains_key(&component_of(&pod.metadata))
    });
    exists && (ends || programs.values().any(|program| may_use(program)))
}

/// Returns true when the pods of a program use the pooler, or when those of an earlier template may exist.
fn may_use(program: &Deployment) -> bool {
    let spec = program.spec.iter();
    let mut variables = spec.flat_map(|spec| pod_uses::variables(&spec.template));
    let status = program.status.clone().unwrap_or_default();
    let is_rolled_out = status.observed_generation >= program.metadata.generation
        && status.updated_replicas >= status.replicas;
    !is_rolled_out || variables.any(|variable| variable.name == HOST_SETTING)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::{model::metadata::labels, testing::stack::minimal_stack};

    fn pooler(status: Value) -> Pooler {
        let stack = minimal_stack();
        let mut pooler = Pooler::new("acme-pg-pooler", PoolerSpec::default());
        pooler.metadata = stack.identity.child("acme-pg-pooler", Component::Postgres);
        pooler.status = serde_json::from_value(status).unwrap();
        pooler
    }

    #[test]
    fn what_cloudnativepg_says_against_a_pooler_is_found() {
        let said = |status: Value| pooler(status).problem().map(str::to_owned);
        assert_eq!(said(json!({})), None);
        assert_eq!(said(json!({"instances": 2})), None);
        assert_eq!(
            said(json!({"phase": "active", "phaseReason": "fine"})),
            None
        );
        let inactive = json!({"phase": "inactive", "phaseReason": "Cluster \"x\" not found"});
        assert_eq!(said(inactive).as_deref(), Some("Cluster \"x\" not found"));
        let refused = json!({"error": "no", "phase": "failed", "phaseReason": "yes"});
        assert_eq!(said(refused).as_deref(), Some("no"));
    }

    /// Returns a Deployment of the app with these variables, of which so many pods of the newest template and of all exist.
    fn app(variable: &str, [updated, all]: [i32; 2], observed: i64) -> Deployment {
        serde_json::from_value(json!({
            "metadata": {"generation": 2},
            "spec": {"selector": {}, "template": {"spec": {"containers": [
                {"name": "app", "env": [{"name": variable, "value": "x"}]},
            ]}}},
            "status": {
                "observedGeneration": observed, "updatedReplicas": updated, "replicas": all,
            },
        }))
        .unwrap()
    }

    #[test]
    fn a_pooler_is_in_use_until_the_last_pod_that_knows_it_is_gone() {
        let stack = minimal_stack();
        let ending: Pod = serde_json::from_value(json!({"metadata": {
            "labels": labels("acme", Component::App), "deletionTimestamp": "2026-01-01T00:00:00Z",
        }}))
        .unwrap();
        let in_use = |app: Deployment, pods: &[Arc<Pod>]| {
            let programs = BTreeMap::from([(Component::App, Arc::new(app))]);
            let live = pooler(json!({}));
            assert!(!is_in_use(None, &stack.identity, &programs, pods));
            is_in_use(Some(&live), &stack.identity, &programs, pods)
        };
        assert!(in_use(app(HOST_SETTING, [2, 2], 2), &[]));
        // The new template has been written, and its pods replace the others one by one.
        assert!(in_use(app("OTHER", [2, 2], 1), &[]));
        assert!(in_use(app("OTHER", [1, 3], 2), &[]));
        assert!(in_use(app("OTHER", [2, 2], 2), &[Arc::new(ending)]));
        assert!(!in_use(app("OTHER", [2, 2], 2), &[]));
        assert!(!in_use(app("OTHER", [0, 0], 2), &[]));
    }
}
