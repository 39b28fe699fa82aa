//! Environment variables of the app and the workers for the database.

use k8s_openapi::api::core::v1::EnvVar;

use super::{DATABASE, PORT};
use crate::{
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

/// Returns the variables.
pub(super) fn env(stack: &ValidatedStack, _: Component) -> Vec<EnvVar> {
    match &stack.database {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Postgres);
            let url = format!("postgres://{host}:{PORT}/{DATABASE}");
            vec![
                pod::env("DATABASE_URL", url),
                pod::secret_env("DATABASE_USERNAME", &host, credentials::USERNAME_KEY),
                pod::secret_env("DATABASE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External {
            secret,
            access,
            tls,
            ..
        } => external("DATABASE", secret, access, tls.as_ref()),
    }
}
