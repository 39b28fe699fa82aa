//! The configuration of the cache. `valkey.conf` is a template: only names between `%` are replaced. It uses only
//! directives that Redis 7 supports.

use std::collections::BTreeMap;

use k8s_openapi::api::core::v1::ConfigMap;

use super::PORT;
use crate::model::{
    metadata::{Component, component_name},
    stack::{Cache, ValidatedStack},
};

/// Returns the ConfigMap `<stack>-cache`, or `None` if the operator does not run a cache.
pub(super) fn config_map(stack: &ValidatedStack) -> Option<ConfigMap> {
    let cache = stack.cache.as_ref()?;
    cache.store.managed()?;
    let identity = &stack.identity;
    Some(ConfigMap {
        metadata: identity.child(
            component_name(&identity.name, Component::Cache),
            Component::Cache,
        ),
        data: Some(BTreeMap::from([("valkey.conf".to_owned(), render(cache))])),
        ..ConfigMap::default()
    })
}

/// Returns the text of the configuration.
pub(super) fn render(cache: &Cache) -> String {
    include_str!("valkey.conf")
        .replace("%PORT%", &PORT.to_string())
        .replace("%MAX_MEMORY%", &cache.max_memory.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{golden, stack::minimal_stack};

    #[test]
    fn the_config_map_of_a_cache() {
        golden("config-map-cache", &config_map(&minimal_stack().caching()));
    }

    #[test]
    fn only_a_managed_cache_is_configured() {
        assert_eq!(config_map(&minimal_stack()), None);
        assert_eq!(config_map(&minimal_stack().external_cache()), None);
    }
}
