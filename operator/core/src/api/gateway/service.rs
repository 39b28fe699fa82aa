//! The gateway's Service.

use std::collections::BTreeMap;

use kube_derive::KubeSchema;
use serde::{Deserialize, Serialize};

use crate::api::annotations;

/// The gateway's Service `<stack>-gateway`.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, KubeSchema)]
#[x_kube(crates(kube_core = "::kube_core"))]
#[serde(rename_all = "camelCase")]
pub struct GatewayServiceSpec {
    /// Annotations added to the Service, for a load balancer or external-dns.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "annotations::map")]
    #[x_kube(validation = annotations::not_of_the_operator("gateway.service.annotations"))]
    pub annotations: BTreeMap<String, String>,
}
