//! Resolution of the cache.

use super::default_resources;
use crate::{
    api::{CacheMode, Profile, ShortenerStackSpec},
    model::{
        facts::StoreFacts,
        metadata::Component,
        quantity,
        stack::{Cache, Store},
    },
    plan::{
        app_resources,
        error::ValidateError,
        pod_settings::pod,
        stores::common::{Surroundings, Wanted},
    },
};

/// Default size of the memory for copies.
const DEFAULT_MEMORY: &str = "128Mi";

/// Default size of the memory for copies in each replica of the app, in bytes.
const DEFAULT_NEAR_MEMORY: u64 = 16 << 20;

/// Resolves the cache.
pub(in crate::plan) fn resolve(
    surroundings: &Surroundings<'_>,
    facts: StoreFacts,
) -> Result<Cache, ValidateError> {
    let spec = &surroundings.stack.spec.cache;
    let managed = spec.managed.as_deref().cloned().unwrap_or_default();
    let max_memory = size(
        "cache.managed.maxMemory",
        managed.max_memory.as_deref().unwrap_or(DEFAULT_MEMORY),
    )?;
    let wanted = Wanted {
        component: Component::Cache,
        pod: pod(
            &managed.pod,
            &surroundings.defaults.images.cache,
            default_resources(max_memory),
        ),
        volume: None,
    };
    let store = surroundings.store(wanted, facts)?;
    let external = match &store {
        Store::External { .. } => spec.external.as_ref(),
        Store::Managed(_) => None,
    };
    Ok(Cache {
        store,
        ttl_seconds: spec.ttl_seconds,
        near_memory: near_memory(&surroundings.stack.spec)?,
        max_memory,
        mode: external.map_or(CacheMode::Single, |external| external.mode),
        sentinel_master: external.and_then(|external| external.sentinel_master.clone()),
    })
}

/// Returns the bytes for copies in each replica of the app. If the spec has no size, there are none with a cluster, which
/// does not notify the app of changes, nor where the app would not start with them.
fn near_memory(spec: &ShortenerStackSpec) -> Result<u64, ValidateError> {
    if let Some(memory) = &spec.cache.near_memory {
        return size("cache.nearMemory", memory);
    }
    let external = spec.cache.external.as_ref();
    let is_cluster = external.is_some_and(|external| external.mode == CacheMode::Cluster);
    let documents = spec.profiles.contains(&Profile::Vector);
    let needed = app_resources::smallest_limit(DEFAULT_NEAR_MEMORY, documents);
    let resources = spec.app.pod.resources.as_ref();
    let limit = resources.and_then(|resources| resources.limits.get("memory"));
    let limit = limit.and_then(|limit| quantity::bytes(&limit.0));
    let has_room = limit.is_none_or(|limit| limit >= needed);
    Ok(if has_room && !is_cluster {
        DEFAULT_NEAR_MEMORY
    } else {
        0
    })
}

fn size(field: &'static str, value: &str) -> Result<u64, ValidateError> {
    quantity::bytes(value).ok_or_else(|| ValidateError::NotASize {
        field,
        value: value.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use crate::testing::stack::resolved;

    /// Returns the mebibytes for copies in the app, and the memory limit of its container.
    fn near_memory(cache: &Value, app: &Value, more: &[&str]) -> (u64, String) {
        let profiles = [&["caching"][..], more].concat();
        let stack = resolved(json!({"profiles": profiles, "cache": cache, "app": app}));
        let limits = stack.app.pod.resources.limits.unwrap();
        (
            stack.cache.unwrap().near_memory >> 20,
            limits["memory"].0.clone(),
        )
    }

    #[test]
    fn the_app_keeps_copies_unless_the_spec_or_a_cluster_forbids_it() {
        let external = |mode: &str| {
            let secret = json!({"name": "redis", "key": "uri"});
            json!({"external": {"secretRef": secret, "mode": mode}})
        };
        for (mebibytes, limit, cache) in [
            (16, "159383552", json!({})),
            (16, "159383552", external("Sentinel")),
            (0, "128Mi", external("Cluster")),
            (0, "128Mi", json!({"nearMemory": "0"})),
            (2, "137363456", json!({"nearMemory": "2Mi"})),
        ] {
            let found = near_memory(&cache, &json!({}), &[]);
            assert_eq!(found, (mebibytes, limit.to_owned()), "{cache}");
        }
    }

    #[test]
    fn by_default_copies_keep_no_app_from_starting() {
        let limited = |limit: &str| json!({"resources": {"limits": {"memory": limit}}});
        let wanted = json!({"nearMemory": "16Mi"});
        for (mebibytes, limit, cache, more) in [
            (16, "88Mi", &json!({}), &[][..]),
            (0, "87Mi", &json!({}), &[][..]),
            (16, "152Mi", &json!({}), &["vector"][..]),
            (0, "151Mi", &json!({}), &["vector"][..]),
            (16, "87Mi", &wanted, &[][..]),
        ] {
            let found = near_memory(cache, &limited(limit), more);
            assert_eq!(found, (mebibytes, limit.to_owned()), "{more:?}");
        }
    }
}
