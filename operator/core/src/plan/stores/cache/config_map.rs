//! The configuration of the cache. `valkey.conf` is a template: only names between `%` are replaced. It uses only
//! directives that Redis 7 supports.

use std::collections::BTreeMap;

use super::PORT;
use crate::model::stack::{Cache, ValidatedStack};

/// Returns the files of the configuration, or `None` if the operator does not run a cache.
pub(super) fn files(stack: &ValidatedStack) -> Option<BTreeMap<String, String>> {
    let cache = stack.cache.as_ref()?;
    cache.store.managed()?;
    Some(BTreeMap::from([("valkey.conf".to_owned(), render(cache))]))
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
    use crate::{
        model::metadata::Component,
        plan::build,
        testing::{golden, stack::minimal_stack},
    };

    #[test]
    fn the_config_map_of_a_cache() {
        let stack = minimal_stack().caching();
        golden(
            "config-map-cache",
            &build::config_map(&stack, Component::Cache),
        );
    }

    #[test]
    fn only_a_managed_cache_is_configured() {
        assert_eq!(files(&minimal_stack()), None);
        assert_eq!(files(&minimal_stack().external_cache()), None);
    }
}
