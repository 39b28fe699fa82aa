//! The configuration of the gateway's nginx.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::{CONFIG_KEY, nginx};
use crate::model::{
    metadata::{Component, component_name},
    stack::ValidatedStack,
};

/// Returns the ConfigMap `<stack>-gateway`, or `None` while the address of the app is unknown.
pub fn config_map(stack: &ValidatedStack) -> Option<ConfigMap> {
    let identity = &stack.identity;
    nginx::render(stack).map(|config| ConfigMap {
        metadata: identity.child(
            component_name(&identity.name, Component::Gateway),
            Component::Gateway,
        ),
        data: Some(BTreeMap::from([(CONFIG_KEY.to_owned(), config)])),
        ..ConfigMap::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_config_map_of_a_minimal_stack() {
        golden("config-map-gateway", &config_map(&minimal_stack()));
    }
}
