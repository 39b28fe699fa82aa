//! Environment variables of the stack's own programs for the stores, named after the programs' settings. A store
//! without variables is off. Credentials come from Secrets and never appear as literal values.

use k8s_openapi::api::core::v1::EnvVar;

use super::{cache, pod, postgres, qdrant, rabbitmq};
use crate::{
    api::CacheMode,
    model::{
        access::Access,
        credentials,
        metadata::{Component, component_name},
        stack::{Cache, Queue, Store, ValidatedStack, Vector},
    },
};

/// Returns the variables of every store that a client of the stack uses.
pub(super) fn env(stack: &ValidatedStack, client: Component) -> Vec<EnvVar> {
    let mut env = database(stack);
    let known = stack.cache_for(client).into_iter();
    env.extend(known.flat_map(|settings| cache(stack, settings)));
    let known = stack.queue_for(client).into_iter();
    env.extend(known.flat_map(|settings| queue(stack, settings)));
    let documents = stack.vector.iter();
    env.extend(documents.flat_map(|settings| vector(stack, settings)));
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
                pod::secret_env("DATABASE_USERNAME", &host, credentials::USERNAME_KEY),
                pod::secret_env("DATABASE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External { secret, access, .. } => external("DATABASE", secret, access),
    }
}

/// Returns the variables that come from the Secret of an external store. The parts stay separate, because a URL would
/// require them to be percent-encoded.
fn external(store: &str, secret: &str, access: &Access) -> Vec<EnvVar> {
    let variable =
        |setting: &str, key: &str| pod::secret_env(&format!("{store}_{setting}"), secret, key);
    match access {
        Access::Url(key) => vec![variable("URL", key)],
        Access::Parts(parts) => {
            let parts = parts.iter();
            parts
                .map(|(part, key)| variable(part.setting(), key))
                .collect()
        }
    }
}

fn cache(stack: &ValidatedStack, cache: &Cache) -> Vec<EnvVar> {
    let mut env = match &cache.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Cache);
            vec![
                pod::env("CACHE_URL", format!("redis://{host}:{}", cache::PORT)),
                pod::secret_env("CACHE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External { secret, access, .. } => external("CACHE", secret, access),
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
    if cache.near_memory > 0 {
        env.push(pod::env("CACHE_NEAR_BYTES", cache.near_memory.to_string()));
    }
    env
}

fn queue(stack: &ValidatedStack, queue: &Queue) -> Vec<EnvVar> {
    match &queue.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Rabbitmq);
            vec![
                pod::env("QUEUE_URL", format!("amqp://{host}:{}/%2f", rabbitmq::PORT)),
                pod::secret_env("QUEUE_USERNAME", &host, credentials::USERNAME_KEY),
                pod::secret_env("QUEUE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External { secret, access, .. } => external("QUEUE", secret, access),
    }
}

fn vector(stack: &ValidatedStack, vector: &Vector) -> Vec<EnvVar> {
    let mut env = match &vector.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Qdrant);
            vec![
                pod::env("VECTOR_URL", format!("http://{host}:{}", qdrant::GRPC_PORT)),
                pod::secret_env("VECTOR_API_KEY", &host, credentials::API_KEY),
            ]
        }
        Store::External { secret, access, .. } => external("VECTOR", secret, access),
    };
    let api_key = vector.api_key.as_ref();
    env.extend(api_key.map(|entry| pod::secret_env("VECTOR_API_KEY", &entry.name, &entry.key)));
    env.extend([
        pod::env("VECTOR_COLLECTION", &vector.collection),
        pod::env("VECTOR_SIZE", vector.size.to_string()),
        pod::env("VECTOR_DISTANCE", vector.distance.as_str()),
    ]);
    env
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        model::access::Part,
        testing::{
            golden,
            stack::{every_profile, minimal_stack},
        },
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
    fn an_external_vector_store_is_known_by_its_secrets() {
        golden(
            "env-external-vector",
            &env(&minimal_stack().external_vector(), Component::App),
        );
    }

    #[test]
    fn the_parts_of_an_access_are_settings_of_the_app() {
        let everything = [
            Part::Host,
            Part::Port,
            Part::Database,
            Part::VirtualHost,
            Part::Username,
            Part::Password,
        ];
        let settings = |store: &str, known: &[Part]| {
            let parts = known.iter().map(|part| (*part, "key")).collect();
            let names = external(store, "secret", &Access::Parts(parts));
            names
                .into_iter()
                .map(|variable| variable.name)
                .collect::<Vec<_>>()
        };
        let app = <shortener_app::config::Cli as clap::CommandFactory>::command();
        let serve = app.find_subcommand("serve").unwrap();
        let known: Vec<&str> = serve
            .get_arguments()
            .filter_map(|argument| argument.get_env()?.to_str())
            .collect();
        for (store, unknown) in [
            ("DATABASE", &[Part::VirtualHost][..]),
            ("QUEUE", &[Part::Database][..]),
            ("CACHE", &[Part::Database, Part::VirtualHost][..]),
            (
                "VECTOR",
                &[
                    Part::Database,
                    Part::VirtualHost,
                    Part::Username,
                    Part::Password,
                ][..],
            ),
        ] {
            let told: Vec<Part> = everything
                .into_iter()
                .filter(|part| !unknown.contains(part))
                .collect();
            for name in settings(store, &told) {
                assert!(known.contains(&name.as_str()), "{name}");
            }
        }
    }

    #[test]
    fn an_external_database_is_known_by_the_parts_of_its_secret() {
        let mut stack = minimal_stack();
        stack.database = Store::External {
            secret: "links-app".to_owned(),
            access: Access::Parts(vec![
                (Part::Host, "host"),
                (Part::Port, "port"),
                (Part::Database, "dbname"),
                (Part::Username, "username"),
                (Part::Password, "password"),
            ]),
            checksum: String::new(),
        };
        golden("env-external-database", &env(&stack, Component::App));
    }

    #[test]
    fn workers_are_not_told_of_the_cache() {
        let env = env(&every_profile(), Component::Worker);
        let known = |store: &str| env.iter().any(|variable| variable.name.starts_with(store));
        assert!(known("QUEUE_") && known("VECTOR_") && !known("CACHE_"));
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
