//! Environment variables of the app and the workers for the database.

use k8s_openapi::api::core::v1::EnvVar;

use super::{DATABASE, PORT};
use crate::{
    api::DatabasePooler,
    model::{
        cloud_native_pg, credentials,
        metadata::{Component, component_name},
        pooler,
        stack::{Store, ValidatedStack},
    },
    plan::{
        objects::pod,
        stores::{PROGRAMS, clients::external},
    },
};

pub(super) fn env(stack: &ValidatedStack, component: Component) -> Vec<EnvVar> {
    match &stack.database {
        None => Vec::new(),
        Some(Store::Managed(_)) => {
            let host = component_name(&stack.identity.name, Component::Postgres);
            let url = format!("postgres://{host}:{PORT}/{DATABASE}");
            vec![
                pod::env("DATABASE_URL", url),
                pod::secret_env("DATABASE_USERNAME", &host, credentials::USERNAME_KEY),
                pod::secret_env("DATABASE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Some(Store::External {
            secret,
            access,
            tls,
            pooler,
            ..
        }) => {
            let mut env = external("DATABASE", secret, access, tls.as_ref());
            if let Some(DatabasePooler::Transaction) = pooler {
                env.push(pod::env("DATABASE_POOLER", "transaction"));
            }
            if component == Component::App {
                env.extend(replica(stack));
            }
            if PROGRAMS.contains(&component) && stack.pooler.is_some() {
                let host = pooler::name(&stack.identity.name);
                env.push(pod::env("DATABASE_POOLER", "transaction"));
                env.push(pod::env(pooler::HOST_SETTING, host));
            }
            env
        }
    }
}

/// Returns the address of the servers that follow the database, from which the app reads links while the database is down.
fn replica(stack: &ValidatedStack) -> Option<EnvVar> {
    let cluster = stack.cluster.as_ref()?;
    let host = cloud_native_pg::replica_host(&stack.identity.name);
    (cluster.members > 1).then(|| pod::env("DATABASE_REPLICA_HOST", host))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::testing::stack::minimal_stack;

    fn pooler(stack: &ValidatedStack) -> Option<String> {
        setting(stack, Component::App, "DATABASE_POOLER")
    }

    fn setting(stack: &ValidatedStack, component: Component, name: &str) -> Option<String> {
        let mut env = env(stack, component).into_iter();
        env.find(|variable| variable.name == name)
            .and_then(|variable| variable.value)
    }

    #[test]
    fn programs_that_run_on_use_the_pooler_of_a_cluster_and_know_the_server() {
        let pooled = minimal_stack().cloud_native_pg(json!({"pooler": {}}));
        for component in PROGRAMS {
            let host = setting(&pooled, component, "DATABASE_POOLER_HOST");
            assert_eq!(host.as_deref(), Some("acme-pg-pooler"));
            let mode = setting(&pooled, component, "DATABASE_POOLER");
            assert_eq!(mode.as_deref(), Some("transaction"));
        }
        // A dump has a session of its own, and so has the removal of expired data.
        for component in [Component::Backup, Component::Purge] {
            assert_eq!(setting(&pooled, component, "DATABASE_POOLER"), None);
        }
        let replica = setting(&pooled, Component::App, "DATABASE_REPLICA_HOST");
        assert_eq!(replica.as_deref(), Some("acme-pg-ro"));
        let plain = minimal_stack().cloud_native_pg(json!({}));
        assert_eq!(pooler(&plain), None);
    }

    #[test]
    fn only_the_app_gets_the_address_of_servers_that_follow_the_database() {
        let replica = |stack: &ValidatedStack, component| {
            let mut env = env(stack, component).into_iter();
            env.find(|variable| variable.name == "DATABASE_REPLICA_HOST")
                .and_then(|variable| variable.value)
        };
        let three = minimal_stack().cloud_native_pg(json!({}));
        let host = replica(&three, Component::App);
        assert_eq!(host.as_deref(), Some("acme-pg-ro"));
        let one = minimal_stack().cloud_native_pg(json!({"instances": 1}));
        for (stack, component) in [
            (&three, Component::Worker),
            (&one, Component::App),
            (&minimal_stack().external_database(), Component::App),
        ] {
            assert_eq!(replica(stack, component), None);
        }
    }

    #[test]
    fn programs_are_told_of_a_pooler_and_only_then() {
        let pooled = minimal_stack().external_database_behind_a_pooler();
        assert_eq!(pooler(&pooled).as_deref(), Some("transaction"));
        for stack in [minimal_stack(), minimal_stack().external_database()] {
            assert_eq!(pooler(&stack), None);
        }
    }
}
