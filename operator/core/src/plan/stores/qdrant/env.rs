//! Environment variables of the app and the workers for the vector store.

use k8s_openapi::api::core::v1::EnvVar;

use super::GRPC_PORT;
use crate::{
    model::{
        access::{Access, Part},
        credentials,
        metadata::{Component, component_name},
        stack::{Store, ValidatedStack},
    },
    plan::{objects::pod, stores::clients::external},
};

/// The store in jobs. A pod template may set another address of the same store, such as that of a proxy.
const TARGET: &str = "VECTOR_TARGET";

/// Returns the key of the URL or of the host.
fn address(access: &Access) -> Option<&str> {
    match access {
        Access::Url(key) => Some(key),
        Access::Parts(parts) => {
            let host = parts.iter().find(|(part, _)| *part == Part::Host)?;
            Some(host.1)
        }
    }
}

/// Returns the variables, or none without a vector store.
pub(super) fn env(stack: &ValidatedStack, _: Component) -> Vec<EnvVar> {
    let Some(vector) = &stack.vector else {
        return Vec::new();
    };
    let mut env = match &vector.store {
        Store::Managed(_) => {
            let host = component_name(&stack.identity.name, Component::Qdrant);
            let url = format!("http://{host}:{GRPC_PORT}");
            vec![
                pod::env("VECTOR_URL", &url),
                pod::env(TARGET, url),
                pod::secret_env("VECTOR_API_KEY", &host, credentials::API_KEY),
            ]
        }
        Store::External {
            secret,
            access,
            tls,
            ..
        } => {
            let mut env = external("VECTOR", secret, access, tls.as_ref());
            env.extend(address(access).map(|key| pod::secret_env(TARGET, secret, key)));
            env
        }
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
