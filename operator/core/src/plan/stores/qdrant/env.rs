//! Environment variables of the app and the workers for the vector store.

use k8s_openapi::api::core::v1::EnvVar;

use super::GRPC_PORT;
use crate::{
    model::{
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

/// Returns the variables, or none without a vector store.
pub(super) fn env(stack: &ValidatedStack, _: Component) -> Vec<EnvVar> {
    let Some(vector) = &stack.vector else {
        return Vec::new();
    };
    let mut env = match &vector.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Qdrant);
            vec![
                pod::env("VECTOR_URL", format!("http://{host}:{GRPC_PORT}")),
                pod::secret_env("VECTOR_API_KEY", &host, credentials::API_KEY),
            ]
        }
        Store::External {
            secret,
            access,
            tls,
            ..
        } => external("VECTOR", secret, access, tls.as_ref()),
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
