//! Environment variables of the app and the workers for the broker.

use k8s_openapi::api::core::v1::EnvVar;

use super::PORT;
use crate::{
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

/// Returns the variables of a client, or none without a queue. The app does not publish to a queue that is being
/// drained.
pub(super) fn env(stack: &ValidatedStack, client: Component) -> Vec<EnvVar> {
    let queue = stack.queue.as_ref();
    let Some(queue) = queue.filter(|queue| queue.draining.is_none() || client != Component::App)
    else {
        return Vec::new();
    };
    match &queue.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Rabbitmq);
            vec![
                pod::env("QUEUE_URL", format!("amqp://{host}:{PORT}/%2f")),
                pod::secret_env("QUEUE_USERNAME", &host, credentials::USERNAME_KEY),
                pod::secret_env("QUEUE_PASSWORD", &host, credentials::PASSWORD_KEY),
            ]
        }
        Store::External {
            secret,
            access,
            tls,
            ..
        } => external("QUEUE", secret, access, tls.as_ref()),
    }
}
