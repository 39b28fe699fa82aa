//! The cache: one server that keeps all its data in memory.

mod config_map;
mod env;
mod resolve;
mod server;

use k8s_openapi::api::core::v1::ResourceRequirements;

pub(in crate::plan) use resolve::resolve;

use super::{Definition, Port, StoreCondition, common};
use crate::{
    api::{Profile, ShortenerStackSpec},
    model::{
        access::Part, credentials::PASSWORD_KEY, external::ExternalReference, metadata::Component,
    },
    plan::objects::{memory, pod},
};

/// The cache among the stores.
pub(in crate::plan) const STORE: Definition = Definition {
    component: Component::Cache,
    field: "cache",
    noun: "cache",
    profile: Some(Profile::Caching),
    keys: &[PASSWORD_KEY],
    parts: &[Part::Host, Part::Port, Part::Username, Part::Password],
    ports: &[Port {
        name: "redis",
        number: PORT,
        clients: true,
        operator: false,
    }],
    clients: &[Component::App],
    egress: false,
    wanted: |_| true,
    external,
    store: |stack| Some(&stack.cache.as_ref()?.store),
    env: env::env,
    rendered_secret: |_| None,
    files: config_map::files,
    configuration: server::configuration,
    pod: server::pod_spec,
    condition: Some(StoreCondition {
        type_: "CacheReady",
        verdict: |view| {
            common::verdict(
                view,
                Component::Cache,
                "while it is unavailable, redirects read the database",
            )
        },
    }),
};

const PORT: i32 = 6379;

/// Returns the references to the Secrets of an external cache.
fn external(spec: &ShortenerStackSpec, _: &str) -> Option<ExternalReference> {
    let external = spec.cache.external.as_ref()?;
    Some(ExternalReference {
        secret: external.secret_ref.clone(),
        tls: external.tls.clone(),
        by_parts: false,
    })
}

/// Returns the default requests and limits of the server's container.
fn default_resources(max_memory: u64) -> ResourceRequirements {
    // Memory of the server itself, with its connections.
    let own = pod::resources(["20m", "32Mi"], ["1", "32Mi"]);
    memory::with_copies(own, max_memory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_container_has_room_beyond_the_copies() {
        let resources = default_resources(128 << 20);
        assert_eq!(resources.requests.unwrap()["memory"].0, "167772160");
        assert_eq!(resources.limits.unwrap()["memory"].0, "234881024");
    }
}
