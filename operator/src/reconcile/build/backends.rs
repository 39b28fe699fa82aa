//! What the stack's own programs are told about the stores: variables by the names of their settings. What is absent
//! is off. Credentials come from Secrets and are in no literal value.

use k8s_openapi::api::core::v1::EnvVar;

use super::{cache, pod, postgres, rabbitmq, secret};
use crate::{
    api::CacheMode,
    metadata::{Component, component_name},
    reconcile::stack::{Cache, Queue, Store, ValidatedStack},
};

/// The variables of every store that a client of the stack's own uses.
pub(super) fn env(stack: &ValidatedStack, client: Component) -> Vec<EnvVar> {
    let mut env = database(stack);
    env.extend(
        stack
            .cache
            .iter()
            .flat_map(|settings| cache(stack, settings)),
    );
    let known = stack.queue_for(client).into_iter();
    env.extend(known.flat_map(|settings| queue(stack, settings)));
    env
}

fn database(stack: &ValidatedStack) -> Vec<EnvVar> {
    match &stack.database {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Postgres);
            let url = format!(
                "postgres://{host}:{}/{}",
                postgres::PORT,
                postgres::DATABASE
            );
            vec![
                pod::env("DATABASE_URL", url),
                pod::secret_env("DATABASE_USERNAME", &host, secret::USERNAME_KEY),
                pod::secret_env("DATABASE_PASSWORD", &host, secret::PASSWORD_KEY),
            ]
        }
        Store::External { secret, key, .. } => {
            vec![pod::secret_env("DATABASE_URL", secret, key)]
        }
    }
}

fn cache(stack: &ValidatedStack, cache: &Cache) -> Vec<EnvVar> {
    let mut env = match &cache.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Cache);
            vec![
                pod::env("CACHE_URL", format!("redis://{host}:{}", cache::PORT)),
                pod::secret_env("CACHE_PASSWORD", &host, secret::PASSWORD_KEY),
            ]
        }
        Store::External { secret, key, .. } => vec![pod::secret_env("CACHE_URL", secret, key)],
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

fn queue(stack: &ValidatedStack, queue: &Queue) -> Vec<EnvVar> {
    match &queue.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Rabbitmq);
            vec![
                pod::env("QUEUE_URL", format!("amqp://{host}:{}/%2f", rabbitmq::PORT)),
                pod::secret_env("QUEUE_USERNAME", &host, secret::USERNAME_KEY),
                pod::secret_env("QUEUE_PASSWORD", &host, secret::PASSWORD_KEY),
            ]
        }
        Store::External { secret, key, .. } => vec![pod::secret_env("QUEUE_URL", secret, key)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{
        golden,
        stack::{every_profile, minimal_stack},
    };

    #[test]
    fn credentials_of_managed_stores_are_in_no_literal_value() {
        let env = env(&every_profile(), Component::App);
        golden("env-backends", &env);
        for literal in env.iter().filter_map(|variable| variable.value.as_deref()) {
            assert!(
                !literal.contains('@') && !literal.contains("s3cret"),
                "{literal}"
            );
        }
    }

    #[test]
    fn an_external_cache_is_known_by_its_secret_and_its_mode() {
        golden(
            "env-external-cache",
            &env(&minimal_stack().external_cache(), Component::App),
        );
    }

    #[test]
    fn a_stack_without_profiles_knows_its_database_only() {
        let env = env(&minimal_stack(), Component::App);
        assert!(
            env.iter()
                .all(|variable| variable.name.starts_with("DATABASE_"))
        );
    }
}
