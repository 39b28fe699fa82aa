//! Environment variables of the app and the workers for the database.

use k8s_openapi::api::core::v1::EnvVar;

use super::{DATABASE, PORT};
use crate::{
    api::DatabasePooler,
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

pub(super) fn env(stack: &ValidatedStack, _: Component) -> Vec<EnvVar> {
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
            env
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::stack::minimal_stack;

    fn pooler(stack: &ValidatedStack) -> Option<String> {
        let mut env = env(stack, Component::App).into_iter();
        env.find(|variable| variable.name == "DATABASE_POOLER")
            .and_then(|variable| variable.value)
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
