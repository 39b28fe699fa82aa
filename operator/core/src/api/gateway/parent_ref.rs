//! The Gateway of the Gateway API that a stack is attached to.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::api::names;

/// A Gateway of the Gateway API, which the stack's HTTPRoute is attached to. The operator never changes it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct ParentRef {
    /// Name of the Gateway.
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub name: String,
    /// Namespace of the Gateway. Defaults to the namespace of the stack.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 63), regex(pattern = names::NAMESPACE))]
    pub namespace: Option<String>,
    /// Name of the listener. Defaults to every listener of the Gateway that admits the route.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(length(min = 1, max = 253), regex(pattern = names::OBJECT))]
    pub section_name: Option<String>,
    /// Port of the listener. Defaults to every port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(range(min = 1, max = 65_535))]
    pub port: Option<i32>,
}
