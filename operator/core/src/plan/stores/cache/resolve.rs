//! Resolution of the cache.

use super::default_resources;
use crate::{
    api::CacheMode,
    model::{
        facts::StoreFacts,
        metadata::Component,
        quantity,
        stack::{Cache, Store},
    },
    plan::{
        error::ValidateError,
        pod_settings::pod,
        stores::common::{RequestedStore, StoreContext},
    },
};

/// Default size of the memory for copies.
const DEFAULT_MEMORY: &str = "128Mi";

pub(in crate::plan) fn resolve(
    context: &StoreContext<'_>,
    facts: StoreFacts,
) -> Result<Cache, ValidateError> {
    let spec = &context.stack.spec.cache;
    let managed = spec.managed.as_deref().cloned().unwrap_or_default();
    let max_memory = size(
        "cache.managed.maxMemory",
        managed.max_memory.as_deref().unwrap_or(DEFAULT_MEMORY),
    )?;
    let wanted = RequestedStore {
        component: Component::Cache,
        pod: pod(
            &managed.pod,
            &context.defaults.images.cache,
            default_resources(max_memory),
        ),
        volume: None,
    };
    let store = context.store(wanted, facts)?;
    let external = match &store {
        Store::External { .. } => spec.external.as_ref(),
        Store::Managed(_) => None,
    };
    Ok(Cache {
        store,
        ttl_seconds: spec.ttl_seconds,
        max_memory,
        mode: external.map_or(CacheMode::Single, |external| external.mode),
        sentinel_master: external.and_then(|external| external.sentinel_master.clone()),
    })
}

fn size(field: &'static str, value: &str) -> Result<u64, ValidateError> {
    quantity::bytes(value).ok_or_else(|| ValidateError::NotASize {
        field,
        value: value.to_owned(),
    })
}
