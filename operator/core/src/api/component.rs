//! Settings shared by every component that has pods.

use std::collections::BTreeMap;

use k8s_openapi::{
    api::core::v1::{Affinity, EnvVar, Toleration},
    apimachinery::pkg::api::resource::Quantity,
};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::{names, schema};

/// Settings of the pods of one component. Every field is optional; the operator supplies the defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct PodSettings {
    /// Container image. The default is the image pinned by the operator's release.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 512))]
    pub image: Option<String>,
    /// Requests and limits of the main container. Each value given here replaces the default for the same resource.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resources: Option<ResourceSettings>,
    /// Labels that a node must have to run the pods.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub node_selector: BTreeMap<String, String>,
    /// Taints that the pods tolerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<Toleration>")]
    pub tolerations: Vec<Toleration>,
    /// Scheduling constraints, as in a pod's `affinity`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::terse::<Affinity>")]
    pub affinity: Option<Box<Affinity>>,
    /// Priority class of the pods.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub priority_class_name: Option<String>,
    /// Environment variables of the main container. A variable given here replaces one of the same name
    /// that the operator sets.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::terse_list::<EnvVar>")]
    pub env: Vec<EnvVar>,
    /// Changes of the pods, as in a pod template: `metadata` with labels and annotations, and `spec`. They are merged over
    /// everything else, the fields beside this one included: objects field by field, lists by their key (containers by
    /// `name`, mounts by `mountPath`), other lists as a whole. `null` or `$patch: delete` removes what the operator sets,
    /// `$patch: replace` replaces an object. An unknown field, or one without which the stack would not work, is named in
    /// the status, and the pods stay as they are until it is corrected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "schema::any_object")]
    pub pod_template: Option<Map<String, Value>>,
}

/// Compute resources of a container, by resource name.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResourceSettings {
    /// Amounts that the scheduler reserves.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub requests: BTreeMap<String, Quantity>,
    /// Maximum amounts that the container may use.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "schema::quantities")]
    pub limits: BTreeMap<String, Quantity>,
}
