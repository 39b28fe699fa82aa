//! The vector store: one Qdrant server with a volume of its own.

mod env;
mod resolve;
mod server;

use k8s_openapi::api::core::v1::ResourceRequirements;

#[cfg(test)]
pub(super) use resolve::RULE;
pub(in crate::plan) use resolve::resolve;

use super::{Definition, JOB_CLIENTS, Port, StoreCondition, common};
use crate::{
    api::{Profile, ShortenerStackSpec},
    model::{access::Part, credentials::API_KEY, external::ExternalReference, metadata::Component},
    plan::objects::pod,
};

/// The vector store among the stores.
pub(in crate::plan) const STORE: Definition = Definition {
    component: Component::Qdrant,
    field: "vector",
    noun: "vector store",
    profile: Some(Profile::Vector),
    keys: &[API_KEY],
    // The API key has a separate reference in the spec.
    parts: &[Part::Host, Part::Port],
    ports: &PORTS,
    clients: &JOB_CLIENTS,
    egress: false,
    wanted: |_| true,
    external,
    store: |stack| Some(&stack.vector.as_ref()?.store),
    env: env::env,
    rendered_secret: |_| None,
    files: |_| None,
    configuration: |_| None,
    pod: server::pod_spec,
    condition: Some(StoreCondition {
        type_: "VectorReady",
        verdict: |view| {
            common::verdict(
                view,
                Component::Qdrant,
                "while it is unavailable, documents are not found and links still work",
            )
        },
    }),
};

/// Port of the gRPC API.
const GRPC_PORT: i32 = 6334;
/// Port of the HTTP API.
const HTTP_PORT: i32 = 6333;
/// Name of the port of the HTTP API.
const HTTP_PORT_NAME: &str = "http";
const PORTS: [Port; 2] = [
    Port {
        name: HTTP_PORT_NAME,
        number: HTTP_PORT,
        clients: true,
        operator: true,
    },
    Port {
        name: "grpc",
        number: GRPC_PORT,
        clients: true,
        operator: false,
    },
];

/// Returns the references to the Secrets of an external vector store.
fn external(spec: &ShortenerStackSpec, _: &str) -> Option<ExternalReference> {
    let external = spec.vector.external.as_ref()?;
    Some(ExternalReference {
        secret: external.secret_ref.clone(),
        tls: external.tls.clone(),
        by_parts: false,
    })
}

/// Returns the default requests and limits of the server's container.
fn default_resources() -> ResourceRequirements {
    pod::resources(["50m", "128Mi"], ["2", "512Mi"])
}
