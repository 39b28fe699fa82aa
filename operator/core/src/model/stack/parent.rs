//! The Gateway of the Gateway API that a stack is attached to.

use crate::model::gateway_api::LiveGateway;

/// A Gateway that a stack is attached to.
#[derive(Clone, Debug, PartialEq)]
pub struct Parent {
    /// Namespace of the Gateway.
    pub namespace: String,
    /// Name of the Gateway.
    pub name: String,
    /// Name of the listener; `None` for every one that admits the route.
    pub section: Option<String>,
    /// Port of the listener; `None` for every one.
    pub port: Option<i32>,
    pub live: LiveGateway,
}

impl Parent {
    /// Returns the Gateway as `namespace/name`.
    pub fn title(&self) -> String {
        format!("{}/{}", self.namespace, self.name)
    }
}
