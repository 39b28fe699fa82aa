//! The counting of clicks.

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

/// The counting of clicks on links, for each link and UTC day.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct ClicksSpec {
    /// Counts clicks when true, the default. When false, those that were counted stay, and the API does not show them.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enabled: Option<bool>,
    /// Number of days for which clicks stay; 400 by default.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 3650))]
    pub retention_days: Option<i32>,
}
