//! Environment variables of the app for the cache.

use k8s_openapi::api::core::v1::EnvVar;

use super::PORT;
use crate::{
    api::CacheMode,
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

/// Returns the variables, or none without a cache.
pub(super) fn env(stack: &ValidatedStack, _: Component) -> Vec<EnvVar> {
    let Some(cache) = &stack.cache else {
        return Vec::new();
    };
    let mut env = match &cache.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Cache);
            vec![
                pod::env("CACHE_URL", format!("redis://{host}:{PORT}")),
                pod::secret_env("CACHE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External {
            secret,
            access,
            tls,
            ..
        } => external("CACHE", secret, access, tls.as_ref()),
    };
    let mode = match cache.mode {
        CacheMode::Single => "single",
        CacheMode::Sentinel => "sentinel",
        CacheMode::Cluster => "cluster",
    };
    env.push(pod::env("CACHE_MODE", mode));
    if let Some(master) = &cache.sentinel_master {
        env.push(pod::env("CACHE_SENTINEL_MASTER", master));
    }
    env.push(pod::env("CACHE_TTL_SECONDS", cache.ttl_seconds.to_string()));
    env
}
