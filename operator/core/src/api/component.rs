//! Settings shared by every component that has pods.

use std::collections::BTreeMap;

use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use super::schema;

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
    /// Changes to the pods, in the form of a pod template: `metadata` with labels and annotations, and `spec`, for
    /// example with `nodeSelector`, `tolerations`, `affinity`, `priorityClassName`, or `containers` with `name` and `env`.
    /// They are merged over the operator's template: objects field by field, lists by their key (containers by `name`,
    /// mounts by `mountPath`), other lists as a whole. `null` or `$patch: delete` removes a field or item, and
    /// `$patch: replace` replaces an object. If a field is unknown, the component would not work without it, or the
    /// operator's settings do not admit it, the status names it, and the pods do not change until it is corrected.
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
